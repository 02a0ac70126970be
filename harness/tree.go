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

// Kind is the type of a node of the tree.
type Kind string

// The kinds of nodes.
const (
	Group    Kind = "group"    // a folder of groups, leaves, and documents
	Leaf     Kind = "leaf"     // a folder with opaque content, such as a skill
	Document Kind = "document" // a file
)

// typeSkill is the type of leaves that are Agent Skills. Leaves of other types
// are read and never run.
const (
	typeSkill = "skill"
	typeLeaf  = "leaf" // by .harnessleaf
)

// Node is a folder or file of a harness. Its name and description are untrusted
// text of the author.
type Node struct {
	Path string // from the folder of HARNESS.md, with slashes; "." is that folder
	Kind Kind
	Type string // of a leaf: skill, leaf, or a type of .leaf-detectors
	// File is the file to read, below Path: the summary of a group, the primary
	// file of a leaf, or the name of a document; "" if there is none.
	File        string
	Name        string // from its frontmatter, or the name of the folder or file
	Description string
	Children    []*Node // in byte order of Path

	named bool   // Name is from its frontmatter
	real  string // its location: Path with links resolved
	file  string // location of File
}

// Skill reports whether the node is an Agent Skill.
func (n *Node) Skill() bool { return n.Kind == Leaf && n.Type == typeSkill }

// Base returns the last part of the path.
func (n *Node) Base() string { return n.Path[strings.LastIndexByte(n.Path, '/')+1:] }

// Harness is one harness that was read.
type Harness struct {
	Dir         string // host path, after links
	Name        string
	Description string
	Body        string // of HARNESS.md, below its frontmatter
	Layout      Layout
	Detectors   []Detector // of v2
	Root        *Node      // "."
	// Diagnostics lists all findings, sorted by path. A finding of severity error
	// makes the harness invalid. Paths are those of nodes and their files.
	Diagnostics []metier.Diagnostic

	byPath map[string]*Node
	front  skillmd.Front
	broken string // code of the finding that makes HARNESS.md unusable
}

// At returns the node whose Path equals path, or nil.
func (h *Harness) At(path string) *Node { return h.byPath[path] }

// All returns every node except the root, in byte order of Path.
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

// Skills returns the leaves that are skills, in byte order of Path.
func (h *Harness) Skills() []*Node {
	return slices.DeleteFunc(h.All(), func(n *Node) bool { return !n.Skill() })
}

// References returns the documents, in byte order of Path.
func (h *Harness) References() []*Node {
	return slices.DeleteFunc(h.All(), func(n *Node) bool { return n.Kind != Document })
}

// Err returns an error if the harness cannot be loaded: HARNESS.md is missing, is
// invalid, or has no name or description. Other findings do not prevent loading.
func (h *Harness) Err() error {
	if h.broken == "" {
		return nil
	}
	e := &metier.Error{Op: "load", Path: h.Dir, Kind: metier.Invalid, Code: "harness_invalid", Hint: "'metier harness validate DIR' lists the problems"}
	if h.broken == "harness-missing" {
		e.Kind, e.Code, e.Hint = metier.NotFound, "harness_missing", "specify a folder that contains HARNESS.md; 'metier harness init DIR' creates one"
	}
	for _, d := range h.Diagnostics {
		if d.Code == h.broken && d.Path == File {
			e.Err = errors.New(d.Detail)
			if h.broken != "harness-missing" {
				e.Err = errors.New(File + ": " + d.Detail)
			}
			break
		}
	}
	return e
}

// Load reads a harness. Its Diagnostics list problems of its content, see
// [Harness.Err]. Load returns an error if the folder cannot be read (NotFound,
// Invalid, Denied) or ctx ended.
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
		e.Kind, e.Code, e.Hint, e.Err = metier.NotFound, "harness_not_found", "specify a folder that contains HARNESS.md", errors.New("the folder does not exist")
	case confine.NotRegular:
		e.Kind, e.Code, e.Hint = metier.Invalid, "harness_not_folder", "specify the folder that contains HARNESS.md"
		e.Err = errors.New("the path is not a folder")
	case confine.Outside, confine.Permission:
		e.Kind = metier.Denied
	}
	return e
}
