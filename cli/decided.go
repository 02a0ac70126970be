package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"metier"
	"metier/internal/confine"
	"metier/internal/jsonedit"
	"metier/policy"
	"metier/settings"
	"metier/skillmd"
	"metier/skillroots"
)

// decided is what people decided about skills, as it was when it was read.
type decided struct {
	off     func(*metier.Head, metier.ID, string) (string, bool) // nil: nothing is switched off
	trusted []skillRecord
	notes   []metier.Diagnostic // files that could not be used
}

// decided reads the files that count. One that cannot be used switches nothing
// off and lends no trust, and says so (B-039). Trust counts under every setting:
// whom the operator trusts is no matter of a profile.
func (a *app) decided(s settings.Discover, workspace string) decided {
	var c decided
	type asked struct {
		path string
		is   func(*metier.Head, metier.ID, string) bool
	}
	var files []asked
	own := a.userSwitches()
	read := a.switchFiles(s, workspace)
	for _, f := range read {
		o, err := f.load()
		switch {
		case err != nil:
			c.unusable(f.path, err, "until it can be read it switches no skill off and lends none trust")
		case o != nil:
			files = append(files, asked{f.path, f.off(o)})
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
			c.unusable(f.path, err, "until it can be read it lends no skill trust")
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

func (c *decided) unusable(path string, err error, so string) {
	c.notes = append(c.notes, metier.Diagnostic{Severity: skillmd.Warning, Code: "state-unreadable", Path: path,
		Detail: fmt.Sprintf("%v; %s", err, so)})
}

// trusting takes up the records of trust of a file. One that strangers can
// write lends none.
func (c *decided) trusting(f switches, o *jsonedit.Object) {
	if o == nil {
		return
	}
	list, _ := records(o, keyTrusted) // checked by load
	if len(list) > 0 && !confine.OnlyOwn(f.path) {
		c.unusable(f.path, errors.New("others than you can write to it"), "it lends no skill trust")
		return
	}
	c.trusted = list
}

// tell lets the mounts know.
func (c decided) tell(mounts []metier.Mount) {
	for i := range mounts {
		mounts[i].Off = c.off
		if len(c.trusted) > 0 {
			mounts[i].Trusted = c.trust
		}
	}
	if len(mounts) > 0 {
		mounts[0].Notes = append(mounts[0].Notes, c.notes...)
	}
}

func (c decided) trust(h *metier.Head, id metier.ID) (policy.Tier, metier.Digest) {
	dir := switches{}.dirOf(h)
	i := slices.IndexFunc(c.trusted, func(r skillRecord) bool { return r.means(dir, id) })
	if i < 0 {
		return "", ""
	}
	return policy.Tier(c.trusted[i].Tier), metier.Digest(c.trusted[i].Tree)
}

// snapshot lists the roots and applies the rules, and what people decided. kept
// is the index on disk, or nil where only the files themselves count.
func (a *app) snapshot(ctx context.Context, roots []skillroots.Root, s settings.Settings, workspace string, kept *skillroots.Scans, more ...metier.Mount) (*metier.Snapshot, error) {
	mounts, err := skillroots.Mounts(roots, s, kept)
	if err != nil {
		return nil, err
	}
	a.decided(s.Discover, workspace).tell(mounts)
	return build(ctx, append(mounts, more...), s)
}

// build lists the mounts and applies the rules.
func build(ctx context.Context, mounts []metier.Mount, s settings.Settings) (*metier.Snapshot, error) {
	return metier.Build(ctx, mounts, s.Parse, s.Names, s.Read.IndexRoot, indexesAtStart(s.Discover))
}

// indexesAtStart reports whether the files of all skills are indexed when a run
// begins.
func indexesAtStart(s settings.Discover) bool { return s.ResourceIndex == settings.ResourceIndexStart }
