package engine

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"sync"

	"metier"
	"metier/internal/digest"
	"metier/policy"
	"metier/settings"
	"metier/skillroots"
)

// Skills is a snapshot of a plan's skills that many runs can share. See [Engine.Skills].
type Skills struct {
	of       string // digest of what decides which skills there are
	mounts   []metier.Mount
	snapshot *metier.Snapshot

	mu    sync.Mutex
	first map[string]*alike // by digest of settings, grants, and view
	links map[string]links  // see linked
}

// Skills lists the skills of a plan once, for all runs whose plan gets them with [Plan.WithSkills].
// Such runs share one index, one catalog, and one registry in memory. Each record has its own copy
// of the registry. The runs do not see later changes on disk, unless their settings reload skills
// before each turn. Call Skills again to pick up changes. Runs with MCP servers list their skills
// themselves.
func (e *Engine) Skills(ctx context.Context, p *Plan) (*Skills, error) {
	snap, err := e.Snapshot(ctx, p.launch.Roots, p.settings, p.launch.Workspace, nil, p.custom.Mounts...)
	if err != nil {
		return nil, err
	}
	of, err := e.skillsKey(p)
	if err != nil {
		return nil, err
	}
	return &Skills{of: of, mounts: p.custom.Mounts, snapshot: snap, first: map[string]*alike{}, links: map[string]links{}}, nil
}

// WithSkills returns a copy of the plan whose run has these skills. Start fails with
// Kind Invalid if they were listed for another user, for other roots, sources, or
// settings, or for another workspace.
func (p *Plan) WithSkills(s *Skills) *Plan {
	q := *p
	q.skills = s
	return &q
}

// skillsKey returns the digest of what determines a plan's skills, except its own sources.
func (e *Engine) skillsKey(p *Plan) (string, error) {
	return digestOf(struct {
		Principal string
		Home      string
		Workspace string
		Cwd       string
		Roots     []skillroots.Root
		Settings  []any
	}{e.Principal(), e.Env.Home(), p.launch.Workspace, p.launch.Cwd, p.launch.Roots, []any{p.settings.Discover, p.settings.Parse, p.settings.Operator, p.settings.Names, p.settings.Read}})
}

// check fails if the plan has other skills.
func (s *Skills) check(e *Engine, p *Plan) error {
	of, err := e.skillsKey(p)
	if err == nil && (of != s.of || !sameMounts(s.mounts, p.custom.Mounts)) {
		err = &metier.Error{Op: "start", Kind: metier.Invalid, Code: "skills_other", Hint: "list the skills of this plan with Engine.Skills",
			Err: errors.New("the skills were listed for another user, for other roots, sources, or settings, or for another workspace")}
	}
	return err
}

// linked returns the links of a folder to skills in the workspace, as linkedSkills does. inside reports
// that the folder is in the workspace. Runs that share skills list a folder outside of it once: no
// program of theirs changes it.
func (s *Skills) linked(workspace, folder string, inside, nested bool, most int) (paths []string, whole bool) {
	if s == nil || inside {
		return linkedSkills(workspace, folder, nested, most)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l, known := s.links[folder]
	if !known {
		l.paths, l.whole = linkedSkills(workspace, folder, nested, most)
		s.links[folder] = l
	}
	return l.paths, l.whole
}

// links are what linkedSkills returns.
type links struct {
	paths []string
	whole bool
}

// sameMounts reports whether two lists of mounts yield the same skills. Functions cannot be
// compared: mounts with some are only the same in the same list.
func sameMounts(a, b []metier.Mount) bool {
	if len(a) > 0 && len(a) == len(b) && &a[0] == &b[0] {
		return true
	}
	return slices.EqualFunc(a, b, sameMount)
}

// sameMount reports whether two mounts have one source, trust, and form.
func sameMount(a, b metier.Mount) bool {
	if a.Off != nil || b.Off != nil || a.Trusted != nil || b.Trusted != nil || a.Origin != nil || b.Origin != nil || a.OS != b.OS || !reflect.DeepEqual(a.Parse, b.Parse) {
		return false
	}
	if a.Label != b.Label || a.Tier != b.Tier || a.Kind != b.Kind || a.Root != b.Root || a.Target != b.Target || a.Space != b.Space || a.ByPath != b.ByPath || a.Yields != b.Yields {
		return false
	}
	if t := reflect.TypeOf(a.Source); t != nil && t.Comparable() {
		return a.Source == b.Source
	}
	return reflect.DeepEqual(a.Source, b.Source)
}

// alike is the first session with some settings, grants, and view.
type alike struct {
	session *metier.Session // nil if it could not be opened
	opened  chan struct{}   // closed when that is known
}

// mostAlike is how many of these first sessions are kept.
const mostAlike = 16

// open opens a session like the first one with the same settings, grants, and view.
// Sessions that begin at the same time wait for that one.
func (s *Skills) open(ctx context.Context, c metier.Config) (*metier.Session, error) {
	if c.Snapshot != s.snapshot {
		return metier.Open(ctx, c)
	}
	key, err := digestOf(struct {
		Settings settings.Settings
		Grants   policy.Grants
		View     metier.View
	}{c.Settings, c.Grants, c.View})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	first, known := s.first[key]
	if !known && len(s.first) < mostAlike {
		first = &alike{opened: make(chan struct{})}
		s.first[key] = first
	}
	s.mu.Unlock()
	if known {
		select {
		case <-first.opened:
			c.Like = first.session
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	session, err := metier.Open(ctx, c)
	if !known && first != nil {
		first.session = session // nil on error
		if err != nil {
			s.mu.Lock()
			delete(s.first, key) // the next one tries
			s.mu.Unlock()
		}
		close(first.opened)
	}
	return session, err
}

func digestOf(v any) (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", &metier.Error{Op: "start", Kind: metier.Internal, Code: "encode", Err: err}
	}
	return digest.Bytes(b), nil
}
