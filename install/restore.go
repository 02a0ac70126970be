package install

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"metier"
	"metier/settings"
)

// Restore returns a plan that installs the skills of the lock whose folders are missing. It fetches the
// locked commits and digests, and fails with kind Drift if the files do not match the lock. The
// lock stays as it is. Skills that were modified are kept, with a note. If frozen is set, they, skills
// that are not in the lock, and a missing lock are errors of kind Drift. Apply or Discard ends the plan.
func (s *Store) Restore(ctx context.Context, frozen bool, set settings.Settings) (*Plan, error) {
	if _, err := os.Lstat(s.o.Lock); frozen && errors.Is(err, fs.ErrNotExist) {
		return nil, &metier.Error{Path: s.o.Lock, Kind: metier.Drift, Code: "lock_missing", Hint: "commit metier.lock, or add skills first", Err: errors.New("there is no lock")}
	}
	list, err := s.Verify(ctx, nil)
	if err != nil {
		return nil, err
	}
	p := &Plan{AllowFindings: true, store: s, id: s.o.ID()} // the lock is what was agreed to
	var from origins
	for _, v := range list {
		switch {
		case v.State == Unlocked && frozen:
			return nil, &metier.Error{Skill: v.Name, Kind: metier.Drift, Code: "skill_unlocked", Hint: "remove its folder, or add it to the lock with 'metier adopt'", Err: fmt.Errorf("it is in %s, but not in the lock", s.o.Dir)}
		case v.State == Unlocked:
		case v.State == Missing:
			from.add(originKey{base(v.Entry.Source), v.Entry.Commit, v.Entry.Digest}, v.Name)
		case v.State == Intact:
			p.keep(v.Name, *v.Entry)
		case frozen:
			return nil, &metier.Error{Skill: v.Name, Kind: metier.Drift, Code: "skill_modified", Hint: "restore its files from version control, or remove its folder", Err: fmt.Errorf("its files in %s do not match the lock", s.path(v.Name))}
		default:
			p.keep(v.Name, *v.Entry)
			note := fmt.Sprintf("skill %q was changed after it was installed, and is kept", v.Name)
			if v.Err != nil {
				note += ": " + v.Err.Error()
			}
			p.Notes = append(p.Notes, note)
		}
	}
	for _, k := range from.keys {
		if err := p.restore(ctx, k, from.names[k], set); err != nil {
			return nil, errors.Join(err, p.Discard())
		}
	}
	if err := p.order(); err != nil {
		return nil, errors.Join(err, p.Discard())
	}
	return p, nil
}

// restore stages the skills of one source, as they are locked.
func (p *Plan) restore(ctx context.Context, k originKey, names []string, set settings.Settings) error {
	err := p.from(ctx, k.Source, FetchOptions{Commit: k.commit, Digest: k.digest}, names, set, true, func(f *Found, skills []metier.Skill) error {
		for i, sk := range skills {
			was := p.store.lock.Skills[names[i]]
			c, err := p.stage(ctx, f, sk, Request{Agents: was.Agents, validation: set.Install.Validation, harness: set.Harness})
			if err != nil {
				return about(sk, err)
			}
			if c.Entry.Tree != was.Tree {
				return about(sk, &metier.Error{Kind: metier.Drift, Code: "lock_differs", Hint: "'metier update' shows what changed", Err: fmt.Errorf("%s contains other files than the lock: %s", was.Source, brief(differences(was.Files, c.Entry.Files)))})
			}
			if err := lacking(c.Signature, was); err != nil {
				return about(sk, &metier.Error{Kind: metier.Drift, Code: "lock_differs", Hint: "restore metier.lock from version control", Err: err})
			}
			c.Entry = was
			p.Changes = append(p.Changes, c)
		}
		return nil
	})
	if code := metier.CodeOf(err); code == "skill_gone" || code == "skill_renamed" || code == "git_commit_missing" || code == "reference_missing" && k.digest != "" {
		return &metier.Error{Kind: metier.Drift, Code: "lock_differs", Hint: "'metier update' installs what the source contains now", Err: err}
	}
	return err
}

// brief names the first files that differ.
func brief(list []FileChange) string {
	var out []string
	for i, f := range list {
		if i == maxNote {
			out = append(out, "…")
			break
		}
		out = append(out, string(f.Action)+" "+f.Path)
	}
	return strings.Join(out, ", ")
}
