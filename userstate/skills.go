package userstate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"

	"metier"
	"metier/internal/jsonedit"
	"metier/policy"
)

// dirOf is a skill's folder as the file writes it, "" where it has none that
// the file can name.
func (f File) dirOf(h *metier.Head) string {
	if h.Location == "" {
		return ""
	}
	dir := cmp.Or(h.Folder, filepath.Dir(h.Location))
	if f.project == "" {
		return dir
	}
	rel, err := filepath.Rel(f.project, dir)
	if err != nil || !filepath.IsLocal(rel) {
		return ""
	}
	return filepath.ToSlash(rel)
}

// means reports whether a record is of a skill.
func (r record) means(dir string, id metier.ID) bool {
	if r.Dir != "" || dir != "" {
		return r.Dir == dir
	}
	return r.ID == id.String()
}

// off makes the question whether a skill is switched off in this file.
func (f File) off(o *jsonedit.Object) func(*metier.Head, metier.ID, string) bool {
	if f.byName {
		raw, _ := o.Get(keyEnabled)
		names, err := jsonedit.Parse(raw)
		return func(_ *metier.Head, _ metier.ID, name string) bool {
			if err != nil {
				return false // the key is not there
			}
			raw, ok := names.Get(name)
			return ok && string(raw) == "false"
		}
	}
	list, _ := decoded[record](o, keyDisabled)        // checked by load
	dirs, ids := map[string]bool{}, map[string]bool{} // there may be many, of many skills
	for _, r := range list {
		if r.Dir != "" {
			dirs[r.Dir] = true
		} else {
			ids[r.ID] = true
		}
	}
	return func(h *metier.Head, id metier.ID, _ string) bool { // as record.means
		if dir := f.dirOf(h); dir != "" {
			return dirs[dir]
		}
		return ids[id.String()]
	}
}

// setName switches a name on or off in a file that goes by names.
func setName(o *jsonedit.Object, name string, on bool) (bool, error) {
	names := &jsonedit.Object{}
	if raw, ok := o.Get(keyEnabled); ok {
		var err error
		if names, err = jsonedit.Parse(raw); err != nil {
			return false, err
		}
	}
	was, there := names.Get(name)
	if !there && on || there && string(was) == fmt.Sprint(on) {
		return false, nil // what is not listed is on
	}
	names.Set(name, json.RawMessage(fmt.Sprint(on)))
	raw, err := names.MarshalJSON()
	if err == nil {
		o.Set(keyEnabled, raw)
	}
	return true, err
}

// Switch enables or disables skills. changed reports for each whether the file
// changed. kept is the path of a copy if the file could not be understood.
func (f File) Switch(ctx context.Context, skills []metier.Skill, on bool) (changed []bool, kept string, err error) {
	changed = make([]bool, len(skills))
	kept, err = f.change(ctx, func(o *jsonedit.Object) (any bool, err error) {
		for i, sk := range skills {
			if changed[i], err = f.set(o, sk, on); err != nil {
				return false, err
			}
			any = any || changed[i]
		}
		return any, nil
	})
	return changed, kept, err
}

// EnableMissing removes a skill that does not exist any more, by name, ID, or
// folder, from the disabled ones.
func (f File) EnableMissing(ctx context.Context, subject string) (changed bool, kept string, err error) {
	kept, err = f.change(ctx, func(o *jsonedit.Object) (_ bool, err error) {
		changed, err = f.forget(o, subject)
		return changed, err
	})
	return changed, kept, err
}

// Trust gives the files of a skill, by the digest of their tree, a tier.
func (f File) Trust(ctx context.Context, sk metier.Skill, tier policy.Tier, at time.Time) (changed bool, kept string, err error) {
	r := record{ID: sk.ID.String(), Name: sk.Name, Dir: f.dirOf(sk.Head), Tree: string(sk.Tree), Tier: string(tier), At: at.UTC().Format(time.RFC3339)}
	return f.putTrusted(ctx, func(x record) bool { return x.means(r.Dir, sk.ID) }, &r)
}

// Distrust takes the trust in a skill back.
func (f File) Distrust(ctx context.Context, sk metier.Skill) (changed bool, kept string, err error) {
	dir := f.dirOf(sk.Head)
	return f.putTrusted(ctx, func(x record) bool { return x.means(dir, sk.ID) }, nil)
}

// DistrustMissing takes back the trust in a skill that does not exist any more, by
// name, ID, or folder.
func (f File) DistrustMissing(ctx context.Context, subject string) (changed bool, kept string, err error) {
	return f.putTrusted(ctx, func(x record) bool { return x.called(subject) }, nil)
}

func (f File) putTrusted(ctx context.Context, gone func(record) bool, put *record) (changed bool, kept string, err error) {
	kept, err = f.change(ctx, func(o *jsonedit.Object) (_ bool, err error) {
		changed, err = rewrite(o, keyTrusted, math.MaxInt, gone, put)
		return changed, err
	})
	return changed, kept, err
}

// ByName reports whether the file names skills, so that all skills of one name are
// disabled together.
func (f File) ByName() bool { return f.byName }

// set switches one skill in a file, and reports whether that changed anything.
func (f File) set(o *jsonedit.Object, sk metier.Skill, on bool) (bool, error) {
	if f.byName {
		return setName(o, sk.Name, on)
	}
	r := record{ID: sk.ID.String(), Name: sk.Name, Dir: f.dirOf(sk.Head)}
	is := func(x record) bool { return x.means(r.Dir, sk.ID) }
	if on {
		return rewrite(o, keyDisabled, math.MaxInt, is, nil)
	}
	if list, err := decoded[record](o, keyDisabled); err != nil || slices.ContainsFunc(list, is) {
		return false, err
	}
	return rewrite(o, keyDisabled, math.MaxInt, func(record) bool { return false }, &r)
}

// forget takes a skill that is not there any more out of a file: by name, ID or
// folder.
func (f File) forget(o *jsonedit.Object, subject string) (bool, error) {
	if f.byName {
		return setName(o, subject, true)
	}
	return rewrite(o, keyDisabled, math.MaxInt, func(r record) bool { return r.called(subject) }, nil)
}

// called reports whether a person means a record by what they typed.
func (r record) called(subject string) bool {
	return subject == r.Name || subject == r.ID || r.Dir != "" && filepath.Clean(subject) == filepath.FromSlash(r.Dir)
}
