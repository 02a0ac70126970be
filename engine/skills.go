package engine

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"metier"
	"metier/internal/digest"
	"metier/policy"
	"metier/settings"
	"metier/skillroots"
)

// Skills are the skills of a plan as they were at one moment, for many runs. See
// [Engine.Skills].
type Skills struct {
	of       string // digest of what decides which skills there are
	snapshot *metier.Snapshot

	mu    sync.Mutex
	first map[string]*alike // by digest of settings, grants, and view
}

// Skills lists the skills of a plan once, for all runs whose plan is given them with
// [Plan.WithSkills]. Such runs share one index, one catalog, and one registry in
// memory; each record has its own copy of the registry. They do not see what changes
// on disk later, except where their settings reload skills before each turn. List
// again to see it. Runs with MCP servers list by themselves.
func (e *Engine) Skills(ctx context.Context, p *Plan) (*Skills, error) {
	snap, err := e.Snapshot(ctx, p.launch.Roots, p.settings, p.launch.Workspace, nil, p.custom.Mounts...)
	if err != nil {
		return nil, err
	}
	of, err := p.skillsKey()
	if err != nil {
		return nil, err
	}
	return &Skills{of: of, snapshot: snap, first: map[string]*alike{}}, nil
}

// WithSkills returns a copy of the plan whose run has these skills. Start fails with
// Kind Invalid if they were listed for other roots, settings, or another workspace.
func (p *Plan) WithSkills(s *Skills) *Plan {
	q := *p
	q.skills = s
	return &q
}

// skillsKey is the digest of what decides which skills a plan has.
func (p *Plan) skillsKey() (string, error) {
	var labels []string
	for _, m := range p.custom.Mounts {
		labels = append(labels, m.Label)
	}
	return digestOf(struct {
		Workspace string
		Cwd       string
		Roots     []skillroots.Root
		Custom    []string
		Settings  []any
	}{p.launch.Workspace, p.launch.Cwd, p.launch.Roots, labels, []any{p.settings.Discover, p.settings.Parse, p.settings.Names, p.settings.Read}})
}

// check fails if a plan has other skills.
func (s *Skills) check(p *Plan) error {
	of, err := p.skillsKey()
	if err == nil && of != s.of {
		err = &metier.Error{Op: "start", Kind: metier.Invalid, Code: "skills_other", Hint: "list the skills of this plan with Engine.Skills",
			Err: errors.New("the skills were listed for other roots, settings, or another workspace")}
	}
	return err
}

// alike is the first session with some settings, grants, and view.
type alike struct {
	session *metier.Session // nil if it could not be opened
	opened  chan struct{}   // closed when that is known
}

// mostAlike is how many sessions that others are like are kept.
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
