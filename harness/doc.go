// Package harness reads folders with a HARNESS.md (Agent Harnesses). Its body
// describes the task of the agent. Below it are skills, references, and other
// content in groups, each with its own summary file.
//
//	Load      reads a folder into a tree: groups, leaves, documents
//	Validate  checks it like the reference validator
//	Source    provides the tree as a source of skills, groups, and documents
//	Tools     the phases after loading: discovery and activation by path
//
// There are two layouts. In v1, skills are below skills/ and references below
// references/, and SKILLS.md or REFERENCES.md summarizes a group. In v2, the top
// level can contain any folders, and a group's summary is named after its top
// folder in uppercase (tools/db/TOOLS.md). A file .harnessleaf, or a line of
// .leaf-detectors at the top level, marks a folder as a leaf.
//
// The folder is untrusted: it is read through internal/confine, links cannot
// lead out of it, and depth, names, and bytes are limited. Each limit that is
// exceeded is reported in a diagnostic.
package harness
