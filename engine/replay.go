package engine

import (
	"context"
	"errors"
	"slices"
	"strings"

	"metier"
	"metier/run"
	"metier/settings"
	"metier/skillroots"
)

// Replay folds a record again from its first entry. It compares the skills that were active at the
// end with those on disk: in the roots the run was started with, or in the named ones. If it could
// not compare them, note gives the reason.
func (e *Engine) Replay(ctx context.Context, f *run.Folder, named []string) (r run.ReplayReport, note string, err error) {
	p, err := readPast(ctx, f)
	if err != nil && metier.KindOf(err) != metier.Invalid {
		return r, "", err
	}
	now, note, err := e.skillsNow(ctx, p.launch, named)
	if err != nil {
		return r, "", err
	}
	r, err = run.Replay(ctx, f, now)
	return r, note, err
}

// skillsNow returns a function that looks up the run's skills on disk, using the roots and settings
// it was started with. If the record does not contain them, launch is nil. Then there is nothing to
// compare unless roots are named, and note reports that.
func (e *Engine) skillsNow(ctx context.Context, launch *Launch, named []string) (now run.Now, note string, err error) {
	var l Launch
	switch {
	case launch != nil:
		l = *launch
		l.Roots = slices.Clone(l.Roots)
	case len(named) == 0:
		return nil, "the record does not contain its skill roots, so skills were not compared with the disk; specify the folder with Request.Roots", nil
	}
	set, _, err := settings.Resolve(settings.Recorded(l.Settings, l.Operator)...)
	if err != nil {
		return nil, "", err
	}
	if len(named) > 0 {
		l.Roots = nil
		for _, p := range named {
			l.Roots = append(l.Roots, skillroots.Root{Path: e.Env.Path(p), Named: true})
		}
		for _, r := range l.Roots {
			if _, err := r.Resolve(); err != nil {
				return nil, "", err
			}
		}
		l.Roots = skillroots.Label(l.Roots)
	} else {
		for i := range l.Roots {
			l.Roots[i].Named = false // a root that is gone means skills that are gone
		}
	}
	snap, err := e.Snapshot(ctx, l.Roots, set, l.Workspace, nil)
	if err != nil {
		return nil, "", err
	}
	return func(id string) (string, string, error) {
		return digestsOf(ctx, snap, id, len(named) > 0)
	}, "", nil
}

// digestsOf looks up a skill by ID. Roots named now have other labels, so anyLabel compares only
// the part of the ID after the label.
func digestsOf(ctx context.Context, snap *metier.Snapshot, id string, anyLabel bool) (file, tree string, err error) {
	for sk := range snap.Each() {
		same := sk.ID.String() == id
		if _, path, ok := strings.Cut(id, ":"); ok && anyLabel {
			same = sk.ID.Path == path
		}
		if !same {
			continue
		}
		full, err := snap.Index(ctx, sk)
		if err != nil {
			return "", "", err
		}
		return string(full.Digest), string(full.Tree), nil
	}
	return "", "", &metier.Error{Op: "replay", Skill: id, Kind: metier.NotFound, Code: "skill_not_found", Err: errors.New("it is gone")}
}
