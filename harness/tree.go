package harness

import (
	"context"
	"errors"
	"slices"
	"strings"

	"metier"
	"metier/internal/confine"
	"metier/skillmd"
)

// Kind says what a node of the tree is.
type Kind string

// The kinds of nodes.
const (
	Group    Kind = "group"    // a folder of more
	Leaf     Kind = "leaf"     // a folder that is one thing; what lies in it is its own affair
	Document Kind = "document" // a file
)

// typeSkill is the type of leaves that are Agent Skills. Leaves of other types
// are read and never run.
const (
	typeSkill = "skill"
	typeLeaf  = "leaf" // by .harnessleaf
)

// Node is a folder or file of a harness. Names and descriptions are its
// author's words.
type Node struct {
	Path string // from the folder of HARNESS.md, with slashes; "." is that folder
	Kind Kind
	Type string // of a leaf: skill, leaf, or as .leaf-detectors calls it
	// File is what is read of it, below Path: the summary of a group, the
	// primary file of a leaf; "" if there is none. Of a document it is its name.
	File        string
	Name        string // what it calls itself, else that of the folder or file
	Description string
	Children    []*Node // in byte order of Path

	named bool   // it has a name of its own
	real  string // where it lies: Path, or where a link in it leads
	file  string // where File lies
}

// Skill reports whether the node is an Agent Skill.
func (n *Node) Skill() bool { return n.Kind == Leaf && n.Type == typeSkill }

// Base is the last part of the path.
func (n *Node) Base() string { return n.Path[strings.LastIndexByte(n.Path, '/')+1:] }

// Harness is one folder that was read.
type Harness struct {
	Dir         string // host path, after links
	Name        string
	Description string
	Body        string // of HARNESS.md, below its frontmatter
	Layout      Layout
	Detectors   []Detector // of v2
	Root        *Node      // "."
	// Diagnostics are all findings, by path; those of severity error make it
	// invalid. Paths are those of nodes and their files.
	Diagnostics []metier.Diagnostic

	byPath map[string]*Node
	front  skillmd.Front
	broken string // why HARNESS.md cannot be used: the code of a finding
}

// At returns the node of a path, exactly as Node.Path has it, or nil.
func (h *Harness) At(path string) *Node { return h.byPath[path] }

// All returns every node but the root, in byte order of Path.
func (h *Harness) All() []*Node {
	out := make([]*Node, 0, len(h.byPath))
	for _, n := range h.byPath {
		if n != h.Root {
			out = append(out, n)
		}
	}
	slices.SortFunc(out, byPath)
	return out
}

func byPath(a, b *Node) int { return strings.Compare(a.Path, b.Path) }

// Skills are the leaves that are skills, References the documents; both in byte
// order of Path.
func (h *Harness) Skills() []*Node {
	return slices.DeleteFunc(h.All(), func(n *Node) bool { return !n.Skill() })
}

// References are the documents, see Skills.
func (h *Harness) References() []*Node {
	return slices.DeleteFunc(h.All(), func(n *Node) bool { return n.Kind != Document })
}

// Findings are those of a severity.
func (h *Harness) Findings(s skillmd.Severity) []metier.Diagnostic {
	return slices.DeleteFunc(slices.Clone(h.Diagnostics), func(d metier.Diagnostic) bool { return d.Severity != s })
}

// Err is why the harness cannot be loaded at all: there is no HARNESS.md, or
// none that says who it is. nil where it can, whatever else is wrong.
func (h *Harness) Err() error {
	if h.broken == "" {
		return nil
	}
	e := &metier.Error{Op: "load", Path: h.Dir, Kind: metier.Invalid, Code: "harness_invalid", Hint: "'metier harness validate' lists what is wrong"}
	if h.broken == "harness-missing" {
		e.Kind, e.Code, e.Hint = metier.NotFound, "harness_missing", "name a folder that holds a HARNESS.md; 'metier harness init' makes one"
	}
	for _, d := range h.Diagnostics {
		if d.Code == h.broken && d.Path == File {
			e.Err = errors.New(d.Detail)
			break
		}
	}
	return e
}

// Load reads a harness. What is wrong in it is in its Diagnostics, see
// Harness.Err; an error says that there is no folder to read (NotFound,
// Invalid, Denied) or that ctx ended.
func Load(ctx context.Context, dir string, o *Options) (*Harness, error) {
	path, err := confine.Resolve(dir)
	if err != nil {
		return nil, rootError(dir, err)
	}
	d, err := confine.OpenDir(path)
	if err != nil {
		return nil, rootError(dir, err)
	}
	defer d.Close()
	r := &reader{ctx: ctx, dir: d, path: path, opt: o.orDefaults()}
	if err := r.read(); err != nil {
		return nil, err
	}
	return r.h, nil
}

func rootError(dir string, err error) error {
	e := &metier.Error{Op: "load", Path: dir, Kind: metier.Unavailable, Code: "harness_unreadable", Err: err}
	switch confine.CodeOf(err) {
	case confine.NotFound:
		e.Kind, e.Code, e.Hint, e.Err = metier.NotFound, "harness_not_found", "name a folder that holds a HARNESS.md", errors.New("there is no such folder")
	case confine.NotRegular:
		e.Kind, e.Code, e.Hint = metier.Invalid, "harness_not_folder", "name the folder that holds HARNESS.md"
		e.Err = errors.New("it is not a folder")
	case confine.Outside, confine.Permission:
		e.Kind = metier.Denied
	}
	return e
}
