// Package harness understands folders with a HARNESS.md (Agent Harnesses): a
// body that says what the agent is for, and below it skills, references and
// other content in groups, each with a summary file of its own.
//
//	Load      a folder becomes a tree: groups, leaves, documents
//	Validate  what is wrong with it, as the reference validator judges
//	Source    the tree as a source of skills, groups and documents
//	Tools     the phases after loading: discovery and activation by path
//
// There are two layouts. In v1 skills lie below skills/ and references below
// references/, and a group is summed up by SKILLS.md or REFERENCES.md. In v2
// any folder may lie at the top, a group's summary has the name of the folder
// at the top in capitals (tools/db/TOOLS.md), and what is a leaf is said by a
// file .harnessleaf in it, or by the lines of .leaf-detectors at the top.
//
// The folder is not trusted: it is read through internal/confine, no link leads
// out of it, and depth, names and bytes are bounded. What a limit cuts is a
// diagnostic.
package harness
