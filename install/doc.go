// Package install puts skills into a skills folder, and keeps a lock of where they came from and
// what their files are.
//
// A source is fetched, its skills are found, and the chosen ones are staged: copied into a folder
// that no command reads skills from. What is staged is checked, and what was checked is moved into
// place. Nothing of a skill runs. See [Store.Stage] and [Store.Apply].
//
//	Parse ─▶ Fetch ─▶ Find ─▶ Store.Stage ─▶ (a user agrees) ─▶ Store.Apply
//
// What is fetched is not trusted. A file that does not fit is an error that names it; nothing is
// left out.
package install
