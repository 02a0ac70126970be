package userstate

import (
	"errors"
	"fmt"
	"slices"

	"metier"
	"metier/internal/confine"
	"metier/internal/jsonedit"
	"metier/policy"
	"metier/settings"
	"metier/skillmd"
)

// Decisions are what a user and a project decided about skills, as read at one
// moment.
type Decisions struct {
	off     func(*metier.Head, metier.ID, string) (string, bool) // nil: nothing is switched off
	hides   func(*metier.Head, metier.ID, string) bool           // in the workspace's file
	trusted []record
	notes   []metier.Diagnostic // files that could not be used
}

// Decisions reads the files that apply. A file that cannot be used disables no
// skill, grants no trust, and is reported in a note. Trust applies under every
// setting.
func (st Store) Decisions(s settings.Discover, workspace string) Decisions {
	var c Decisions
	type asked struct {
		path string
		is   func(*metier.Head, metier.ID, string) bool
	}
	var files []asked
	own := st.Own()
	read := st.Files(s, workspace)
	for _, f := range read {
		o, err := f.load()
		switch {
		case err != nil:
			c.unusable(f.Path, err, "until it can be read, no skill in it is disabled or trusted")
		case o != nil:
			files = append(files, asked{f.Path, f.off(o)})
			if f.project != "" {
				c.hides = f.off(o)
			}
		}
		if slices.Contains(own, f) && err == nil {
			c.trusting(f, o)
		}
	}
	for _, f := range own {
		if slices.Contains(read, f) {
			continue
		}
		o, err := f.load()
		if err != nil {
			c.unusable(f.Path, err, "until it can be read, no skill in it is trusted")
			continue
		}
		c.trusting(f, o)
	}
	if len(files) > 0 {
		c.off = func(h *metier.Head, id metier.ID, name string) (string, bool) {
			for _, f := range files {
				if f.is(h, id, name) {
					return f.path, true
				}
			}
			return "", false
		}
	}
	return c
}

func (c *Decisions) unusable(path string, err error, so string) {
	c.notes = append(c.notes, metier.Diagnostic{Severity: skillmd.Warning, Code: "state-unreadable", Path: path,
		Detail: fmt.Sprintf("%v; %s", err, so)})
}

// trusting takes up the records of trust of a file. One that strangers can
// write lends none.
func (c *Decisions) trusting(f File, o *jsonedit.Object) {
	if o == nil {
		return
	}
	list, _ := decoded[record](o, keyTrusted) // checked by load
	if len(list) > 0 && !confine.OnlyOwn(f.Path) {
		c.unusable(f.Path, errors.New("other users can write to it"), "no skill in it is trusted")
		return
	}
	c.trusted = list
}

// Apply attaches the decisions to mounts.
func (c Decisions) Apply(mounts []metier.Mount) {
	for i := range mounts {
		mounts[i].Off = c.off
		if mounts[i].Tier != policy.Project { // a repository must not free the names of others for its own
			mounts[i].Reserved = c.hides
		}
		if len(c.trusted) > 0 {
			mounts[i].Trusted = c.trust
		}
	}
	if len(mounts) > 0 {
		mounts[0].Notes = append(mounts[0].Notes, c.notes...)
	}
}

func (c Decisions) trust(h *metier.Head, id metier.ID) (policy.Tier, metier.Digest) {
	dir := File{}.dirOf(h)
	i := slices.IndexFunc(c.trusted, func(r record) bool { return r.means(dir, id) })
	if i < 0 {
		return "", ""
	}
	return policy.Tier(c.trusted[i].Tier), metier.Digest(c.trusted[i].Tree)
}
