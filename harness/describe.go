package harness

import (
	"errors"

	"metier/internal/confine"
	"metier/internal/termtext"
	"metier/skillmd"
)

// document adds a file.
func (r *reader) document(parent *Node, name, real string) {
	n := &Node{Path: join(parent.Path, name), Kind: Document, Name: name, File: name, real: real, file: real}
	if _, err := confine.Clean(n.Path); err != nil {
		r.note(skillmd.Warning, "harness-name-unusable", parent.Path, "ignored: a path cannot contain the file name %s", termtext.Quote(name))
		return
	}
	r.add(parent, n)
	if !described(name) {
		return
	}
	front, diags, err := r.head(n.Path, real)
	if err == errCut {
		return
	}
	if err != nil {
		r.note(skillmd.Warning, "harness-unreadable", n.Path, "cannot read the file: %s", reason(err))
		return
	}
	for _, d := range diags { // only users and models read the document
		if d.Severity == skillmd.Error {
			r.note(skillmd.Warning, d.Code, n.Path, "%s", d.Detail)
		}
	}
	n.Description = front.Description
	if !front.HasDescription {
		r.note(r.h.undescribed(), "harness-description", n.Path, "a description in the frontmatter is recommended")
	}
}

// describe reads the frontmatter of a group's or leaf's own file.
func (r *reader) describe(n *Node, dir, name string) (skillmd.Front, bool) {
	shown := join(n.Path, name)
	at, err := r.resolve(dir, name)
	if err != nil {
		r.note(skillmd.Error, "harness-unreadable", shown, "cannot read the file: %s", reason(err))
		return skillmd.Front{}, false
	}
	n.file = at
	front, diags, err := r.head(shown, at)
	if err == errCut {
		return front, false
	}
	if err != nil {
		r.note(skillmd.Error, "harness-unreadable", shown, "cannot read the file: %s", reason(err))
		return front, false
	}
	ok := true
	for _, d := range diags {
		switch {
		case n.Skill() && (d.Code == skillmd.CodeNoFrontmatter || d.Repair()):
			d.Severity = skillmd.Error
		case !n.Skill() && d.Severity == skillmd.Error:
			d.Severity = skillmd.Warning
		case d.Severity != skillmd.Error:
			continue
		}
		ok = ok && (d.Severity != skillmd.Error || d.Repair())
		r.note(d.Severity, d.Code, shown, "%s", d.Detail)
	}
	n.Description = front.Description
	return front, ok
}

// errCut reports that a limit prevented reading a file. A diagnostic is recorded.
var errCut = errors.New("the byte limit is reached")

// head reads the frontmatter of a file.
func (r *reader) head(shown, at string) (front skillmd.Front, diags []skillmd.Diagnostic, err error) {
	for _, n := range []int{4 << 10, 16 << 10, skillmd.MaxHead} {
		if r.bytes+int64(n) > r.opt.MaxBytes {
			if r.cut["harness-bytes-exceeded"] == 0 {
				r.note(skillmd.Error, "harness-bytes-exceeded", shown, "only %d bytes of frontmatter are read in total; this and later files are not read", r.opt.MaxBytes)
			}
			return front, nil, errCut
		}
		b, info, err := r.dir.ReadHead(at, n)
		if err = r.single(at, info, err); err != nil {
			return front, nil, err
		}
		r.bytes += int64(len(b))
		whole := int64(len(b)) >= info.Size && len(b) < n
		front, _, enough, diags := skillmd.ParseHead(b, whole)
		if enough {
			return front, diags, nil
		}
	}
	return front, nil, nil
}

// single returns err, or an error for a file with several hard links if they
// may be outside.
func (r *reader) single(at string, info confine.Info, err error) error {
	if err == nil && r.opt.RefuseHardLinks && info.Nlink > 1 {
		return &confine.Error{Op: "read", Path: at, Code: confine.Outside, Err: errHardLink}
	}
	return err
}
