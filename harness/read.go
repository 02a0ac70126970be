package harness

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"metier"
	"metier/internal/confine"
	"metier/internal/termtext"
	"metier/skillmd"
)

// reader reads one harness. It reads folders first, in byte order, and then the
// targets of links. So a folder keeps its own path, and is in the tree once.
type reader struct {
	ctx  context.Context
	dir  *confine.Dir
	path string
	opt  Options

	h       *Harness
	auto    bool            // a .harnessleaf can still change the layout
	again   bool            // it changed the layout
	entries int             // names seen
	bytes   int64           // bytes read for names and descriptions
	walked  map[string]bool // folders in the tree, by their location
	links   []link          // to folders
	full    bool            // a limit stopped the walk

	undetected []string       // folders of v2 with a SKILL.md that no detector matches
	cut        map[string]int // number of findings by code, to limit each
}

// mostAlike is the maximum number of listed findings of one code.
const mostAlike = 200

func (r *reader) note(s skillmd.Severity, code, at, format string, a ...any) {
	r.cut[code]++
	if r.cut[code] <= mostAlike {
		r.h.Diagnostics = append(r.h.Diagnostics, metier.Diagnostic{Severity: s, Code: code, Path: at, Detail: fmt.Sprintf(format, a...)})
	}
}

// read reads the harness, and reads it again if the first pass finds a sign of the
// other layout.
func (r *reader) read() error {
	for {
		r.h = &Harness{Dir: r.path, Root: &Node{Path: ".", Kind: Group, Name: filepath.Base(r.path), real: "."}, byPath: map[string]*Node{}}
		r.h.byPath["."] = r.h.Root
		r.again, r.full, r.entries, r.bytes, r.links, r.walked, r.cut = false, false, 0, 0, nil, map[string]bool{".": true}, map[string]int{}
		r.undetected = nil
		if err := r.root(); err != nil {
			return err
		}
		if !r.again {
			break
		}
		r.opt.Layout = V2
	}
	r.noteLayout()
	for code, n := range r.cut {
		if n > mostAlike {
			r.h.Diagnostics = append(r.h.Diagnostics, metier.Diagnostic{Severity: skillmd.Warning, Code: code, Path: ".", Detail: fmt.Sprintf("%d more findings with this code are not listed", n-mostAlike)})
		}
	}
	slices.SortStableFunc(r.h.Diagnostics, func(a, b metier.Diagnostic) int {
		if a.Path == b.Path {
			return strings.Compare(a.Code, b.Code)
		}
		if a.Path == File || b.Path == File { // HARNESS.md first
			return map[bool]int{true: -1, false: 1}[a.Path == File]
		}
		return strings.Compare(a.Path, b.Path)
	})
	return r.ctx.Err()
}

// root reads the folder of HARNESS.md.
func (r *reader) root() error {
	top, err := r.list(".", ".")
	if err != nil {
		return rootError(r.path, err)
	}
	r.auto = r.choose(top)
	r.self()
	if r.h.v2() {
		r.detectors(top)
	}
	var passed []string
	for _, e := range top {
		switch {
		case r.h.skip(e.Name) || strings.HasPrefix(e.Name, "."):
		case e.Type&fs.ModeSymlink != 0:
			if r.h.v2() || e.Name == skillsDir || e.Name == refsDir {
				r.linked(r.h.Root, e.Name, false)
			}
		case !e.Type.IsDir():
		case !r.h.v2() && e.Name != skillsDir && e.Name != refsDir:
			passed = append(passed, e.Name)
		default:
			r.folder(r.h.Root, e.Name, e.Name)
		}
		if err := r.ctx.Err(); err != nil {
			return err
		}
	}
	if len(passed) > 0 {
		r.note(skillmd.Advice, "harness-folder-ignored", ".", "layout v1 uses only skills and references; these folders are ignored: %s", listed(passed))
	}
	for len(r.links) > 0 && !r.full && !r.again {
		round := r.links
		r.links = nil
		slices.SortFunc(round, func(a, b link) int { return strings.Compare(a.path(), b.path()) })
		for _, l := range round {
			r.follow(l)
		}
	}
	for _, n := range r.h.byPath {
		slices.SortFunc(n.Children, byPath)
	}
	return r.ctx.Err()
}

func listed(names []string) string {
	const most = 10
	var out []string
	for _, n := range names[:min(len(names), most)] {
		out = append(out, termtext.Quote(n))
	}
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(out, ", "), more)
	}
	return strings.Join(out, ", ")
}

// self reads HARNESS.md.
func (r *reader) self() {
	h := r.h
	h.Root.File, h.Root.file = File, File
	broken := func(code, format string, a ...any) {
		if h.broken == "" {
			h.broken = code
		}
		r.note(skillmd.Error, code, File, format, a...)
	}
	at, err := r.resolve(".", File)
	var raw []byte
	if err == nil {
		h.Root.file = at
		var info confine.Info
		raw, info, err = r.dir.ReadFile(at, maxBody)
		err = r.single(at, info, err)
	}
	switch confine.CodeOf(err) {
	case "":
	case confine.NotFound:
		h.Root.File = ""
		broken("harness-missing", "Missing required file: HARNESS.md")
		return
	case confine.TooBig:
		broken("harness-too-large", "HARNESS.md has more than %d bytes; it is part of every request", maxBody)
		return
	default:
		broken("harness-unreadable", "HARNESS.md cannot be read: %s", reason(err))
		return
	}
	r.bytes += int64(len(raw))
	doc, diags := skillmd.Parse(raw)
	h.Body, h.front = strings.ToValidUTF8(string(doc.Body), "\uFFFD"), doc.Front
	for _, d := range diags {
		d.Path = File
		if d.Code == skillmd.CodeNoFrontmatter || d.Repair() { // strict readers reject it
			d.Severity = skillmd.Error
		}
		if d.Severity == skillmd.Error && h.broken == "" && !d.Repair() {
			h.broken = d.Code
		}
		h.Diagnostics = append(h.Diagnostics, d)
	}
	if h.broken != "" {
		return
	}
	if !doc.Front.HasName {
		broken("missing-name", "HARNESS.md: Missing required field in frontmatter: name")
	}
	if !doc.Front.HasDescription {
		broken("missing-description", "HARNESS.md: Missing required field in frontmatter: description")
	}
	h.Name, h.Description = doc.Front.Name, doc.Front.Description
	if h.Name != "" {
		h.Root.Name, h.Root.named = h.Name, true
	}
	h.Root.Description = h.Description
}

// detectors reads .leaf-detectors.
func (r *reader) detectors(top []confine.Entry) {
	if !has(top, detectorsFile) {
		return
	}
	at, err := r.resolve(".", detectorsFile)
	var text []byte
	if err == nil {
		var info confine.Info
		text, info, err = r.dir.ReadFile(at, maxDetectors)
		err = r.single(at, info, err)
	}
	if err != nil {
		r.note(skillmd.Error, "harness-unreadable", detectorsFile, "%s cannot be read, so it marks no leaves: %s", detectorsFile, reason(err))
		return
	}
	var found []skillmd.Diagnostic
	r.h.Detectors, found = Detectors(text)
	r.h.Diagnostics = append(r.h.Diagnostics, found...)
}

func lookup(list []confine.Entry, name string) (int, bool) {
	return slices.BinarySearchFunc(list, name, func(e confine.Entry, name string) int { return strings.Compare(e.Name, name) })
}

func has(list []confine.Entry, name string) bool {
	_, ok := lookup(list, name)
	return ok
}

// file reports whether a folder has an entry of this name that is not a folder.
func file(list []confine.Entry, name string) bool {
	i, ok := lookup(list, name)
	return ok && !list[i].Type.IsDir()
}

// list reads a folder's names, up to the limit.
func (r *reader) list(at, shown string) ([]confine.Entry, error) {
	room := r.opt.MaxEntries - r.entries
	if room <= 0 {
		r.over(shown)
		return nil, nil
	}
	list, more, err := r.dir.ReadDir(at, room)
	if err != nil {
		return nil, err
	}
	r.entries += len(list)
	if more {
		r.over(shown)
	}
	usable := list[:0]
	for _, e := range list {
		if _, err := confine.Clean(e.Name); err != nil {
			r.note(skillmd.Warning, "harness-name-unusable", shown, "ignored: a path cannot contain the file name %s", termtext.Quote(e.Name))
			continue
		}
		usable = append(usable, e)
	}
	return usable, nil
}

func (r *reader) over(shown string) {
	if !r.full {
		r.note(skillmd.Error, "harness-entries-exceeded", shown, "only the first %d names of the harness are read; the rest is ignored", r.opt.MaxEntries)
	}
	r.full = true
}

func reason(err error) string {
	if e, ok := err.(*confine.Error); ok && e.Err != nil {
		return string(e.Code) + ": " + e.Err.Error()
	}
	return string(confine.CodeOf(err))
}

// folder adds a folder and its descendants.
func (r *reader) folder(parent *Node, name, real string) {
	n := &Node{Path: join(parent.Path, name), Kind: Group, Name: name, real: real}
	switch {
	case r.full || r.again || r.ctx.Err() != nil:
		return
	case strings.Count(n.Path, "/") >= r.opt.MaxDepth:
		r.note(skillmd.Error, "harness-depth-exceeded", n.Path, "folders deeper than %d levels are not read", r.opt.MaxDepth)
		return
	}
	if _, err := confine.Clean(n.Path); err != nil {
		r.note(skillmd.Warning, "harness-name-unusable", parent.Path, "ignored: a path cannot contain the folder name %s", termtext.Quote(name))
		return
	}
	r.walked[real] = true
	list, err := r.list(real, n.Path)
	if err != nil {
		r.note(skillmd.Error, "harness-unreadable", n.Path, "the folder cannot be read: %s", reason(err))
	}
	r.add(parent, n)
	if r.leaf(n, list) {
		return
	}
	if r.auto && has(list, leafFile) {
		r.again = true
		return
	}
	r.group(n, list)
}

func (r *reader) add(parent, n *Node) {
	parent.Children = append(parent.Children, n)
	r.h.byPath[n.Path] = n
}

// group reads a group: its summary, documents, and folders.
func (r *reader) group(n *Node, list []confine.Entry) {
	summary := r.h.summary(top(n.Path))
	docs := r.h.v2() || top(n.Path) == refsDir
	if file(list, summary) {
		n.File = summary
		r.describe(n, n.real, summary)
	} else if strings.Contains(n.Path, "/") { // top folders need no summary
		r.note(r.opt.missing(), "harness-group-summary", n.Path, "the group has no %s", summary)
	}
	if r.h.v2() && file(list, skillFile) {
		r.undetected = append(r.undetected, n.Path)
	}
	var passed []string
	for _, e := range list {
		shown := join(n.Path, e.Name)
		switch {
		case r.h.skip(e.Name) || e.Name == summary && !e.Type.IsDir():
		case e.Type.IsDir():
			r.folder(n, e.Name, join(n.real, e.Name))
		case e.Type&fs.ModeSymlink != 0:
			r.linked(n, e.Name, docs)
		case !e.Type.IsRegular():
			r.note(skillmd.Warning, "harness-not-regular", shown, "ignored: not a regular file")
		case !docs:
			passed = append(passed, e.Name)
		default:
			r.document(n, e.Name, join(n.real, e.Name))
		}
		if r.again {
			return
		}
	}
	if len(passed) > 0 && !(len(passed) == 1 && passed[0] == skillFile) {
		r.note(skillmd.Advice, "harness-file-ignored", n.Path, "layout v1 ignores files outside the folders of skills: %s", listed(passed))
	}
}
