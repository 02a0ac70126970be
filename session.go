package metier

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"metier/event"
	"metier/internal/termtext"
	"metier/model"
	"metier/policy"
	"metier/record"
	"metier/settings"
)

// Config configures a session. Log and Blobs are required.
type Config struct {
	ID       string // of the session; the run ID if it is a run
	By       string // the principal who opened it; the default of calls and inputs
	Build    string // version of this build, for the record
	Log      record.Log
	Blobs    record.Blobs
	Snapshot *Snapshot // the skills; nil means none
	Tools    []Tool
	Settings settings.Settings
	// Origins is JSON of the resolved settings with the origin of each, for the record.
	Origins json.RawMessage
	Grants  policy.Grants
	// Launch is stored in the first entry of the record, for reopening the session. It is optional.
	Launch json.RawMessage
	View   View // how host paths are shown to the model
	// ToolsOnly reports that another program, such as an MCP client, keeps the prompt and the
	// conversation. The load tool contains the catalog, skills can always be listed and searched,
	// and loading an active skill returns its text again.
	ToolsOnly bool
	// Batch reports that no user can answer. It selects the batch value of the drift settings.
	Batch bool
	// Refresh returns a new snapshot if the setting reload requests one; nil keeps the snapshot.
	Refresh func(ctx context.Context) (*Snapshot, error)
	// Permanent returns the permanent answers currently in force; nil: those of Grants.
	// It is called before a question is asked, so that one that is taken back ends.
	Permanent func() map[string]policy.Answer
	// Like is an optional session with the same settings, grants, and view. If it has the same
	// snapshot, its catalog and registry are reused, because building them for a thousand skills
	// takes longer than a call.
	Like   *Session
	Now    func() time.Time // default time.Now
	NewID  func() string    // default random
	Logger *slog.Logger     // default discards
}

// Session is one run, conversation, or client. Its state is a fold of its log: every process that
// opens the same log has the same session. All methods are safe for concurrent use.
type Session struct {
	cfg    Config
	tools  map[string]Tool   // keyed by canonical name
	names  map[string]string // canonical names, keyed by the name that the model sees
	order  []string          // canonical names: skill tools first, then in the operator's order
	snap   atomic.Pointer[Snapshot]
	listed atomic.Pointer[listing]
	tally  *tally

	mu     sync.Mutex // guards the fields below
	head   record.Head
	state  State
	flight map[string]chan struct{} // calls in progress in this process, closed when they end
	files  map[ID]Skill             // skills with their recorded files
	done   []string                 // finished reads that are still in state, in order; with Config.ToolsOnly
	fresh  bool                     // Refresh created the snapshot, so its index replaces the recorded one

	registry   []byte // for sessions that share this one's snapshot; see reported
	registryOf string // its digest
}

// Input is a message to the session.
type Input struct {
	ID      string // unique; "" generates one
	Parts   []model.Part
	Role    policy.Role // set by the surface: typed lines are direct commands
	Surface string      // cli, chat, http, mcp …
	By      string
}

// Open folds the log, and writes its first entries if it is empty. The error has Kind Conflict if
// other processes keep changing the log, and Drift if the log does not verify.
func Open(ctx context.Context, c Config) (*Session, error) {
	if c.Log == nil || c.Blobs == nil {
		return nil, &Error{Op: "open", Kind: Invalid, Code: "config_invalid", Err: errors.New("a session needs a log and blobs")}
	}
	var err error
	if c.Grants, err = c.Grants.WithDefaults(); err != nil {
		return nil, &Error{Op: "open", Kind: Invalid, Code: "config_invalid", Err: err}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.NewID == nil {
		c.NewID = randomID
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Snapshot == nil {
		if c.Snapshot, err = Build(ctx, nil, c.Settings.Parse, c.Settings.Names, c.Settings.Read.IndexRoot, false); err != nil {
			return nil, err
		}
	}
	c.Grants = c.Snapshot.Grants(c.Grants)
	written := &tally{Blobs: c.Blobs, seen: map[[sha256.Size]byte]struct{}{}}
	c.Blobs = written
	s := &Session{cfg: c, tally: written, tools: map[string]Tool{}, names: map[string]string{}, flight: map[string]chan struct{}{}, files: map[ID]Skill{}}
	s.snap.Store(c.Snapshot)
	if c.Like != nil {
		if l := c.Like.listed.Load(); l != nil && l.snap == c.Snapshot {
			s.listed.Store(l)
		}
	}
	s.state = newState()
	for _, t := range standIns(skillTools(c.Settings), c.Tools) {
		if err := s.addTool(ctx, t); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.refresh(ctx); err != nil {
		return nil, err
	}
	enter := s.begin
	if s.state.Opened {
		enter = s.bind
	}
	if err := enter(ctx); err != nil {
		return nil, err
	}
	if s.cfg.ID != "" && s.cfg.ID != s.state.Session {
		return nil, &Error{Op: "open", Kind: Conflict, Code: "session_other", Err: fmt.Errorf("the log is of session %s, not %s", termtext.Quote(s.state.Session), termtext.Quote(s.cfg.ID))}
	}
	s.cfg.ID = s.state.Session
	return s, nil
}

// standIns appends tools to the skill tools. A tool with a method Instead replaces the skill tool
// of that canonical name. A tool with a method Over returns the replacement of another tool, or
// nil.
func standIns(skills, more []Tool) (out []Tool) {
	name := func(t Tool) string {
		if named, is := t.(interface{ canonical() string }); is {
			return named.canonical()
		}
		return ""
	}
	for _, t := range more {
		switch t := t.(type) {
		case interface {
			Over(canonical string, old Tool) Tool
		}:
			for i, old := range skills {
				if in := t.Over(name(old), old); in != nil {
					skills[i] = in
				}
			}
			continue
		case interface{ Instead() (canonical string) }:
			skills = slices.DeleteFunc(skills, func(old Tool) bool { return name(old) == t.Instead() })
		}
		out = append(out, t)
	}
	return slices.Concat(skills, out)
}

// addTool registers a tool under both its names. It refuses a second tool of the same name, which
// could impersonate the first.
func (s *Session) addTool(ctx context.Context, t Tool) error {
	spec, _ := t.Spec(ctx, s)
	bad := func(format string, a ...any) error {
		return &Error{Op: "open", Kind: Invalid, Code: "config_invalid", Err: fmt.Errorf(format, a...)}
	}
	switch {
	case spec.Canonical == "" || spec.Name == "":
		return bad("tool %q has no name or no canonical name", spec.Name)
	case spec.Effect == "":
		return bad("tool %q has no effect in its Spec", spec.Name)
	case s.tools[spec.Canonical] != nil:
		return bad("two tools have the canonical name %q", spec.Canonical)
	case s.names[spec.Name] != "":
		return bad("two tools have the name %q", spec.Name)
	}
	s.tools[spec.Canonical], s.names[spec.Name] = t, spec.Canonical
	s.order = append(s.order, spec.Canonical)
	return nil
}

// begin writes the first entries: settings, grants, and the registry.
func (s *Session) begin(ctx context.Context) error {
	origins := s.cfg.Origins
	if origins == nil {
		origins = json.RawMessage("null")
	}
	set, err := s.cfg.Blobs.Put(ctx, "application/json", origins)
	if err != nil {
		return s.fault("open", err)
	}
	grants, err := s.putJSON(ctx, s.cfg.Grants)
	if err != nil {
		return err
	}
	opened := event.SessionOpened{Session: s.cfg.ID, Build: s.cfg.Build, Settings: set, Grants: grants}
	if s.cfg.Launch != nil {
		if opened.Launch, err = s.cfg.Blobs.Put(ctx, "application/json", s.cfg.Launch); err != nil {
			return s.fault("open", err)
		}
	}
	indexed, err := s.indexed(ctx, s.Snapshot())
	if err != nil {
		return err
	}
	return s.append(ctx, s.cfg.By, func(st *State) ([]event.Event, error) {
		if st.Opened {
			return nil, nil // another process wrote the first entries
		}
		return []event.Event{opened, indexed}, nil
	})
}

// indexed stores a snapshot's registry in the blobs.
func (s *Session) indexed(ctx context.Context, snap *Snapshot) (event.SkillsDiscovered, error) {
	if e, b := s.cfg.Like.reported(ctx, snap); b != nil {
		var err error
		if e.Registry, err = s.cfg.Blobs.Put(ctx, "application/json", b); err != nil {
			return e, s.fault("record", err)
		}
		return e, nil
	}
	ref, err := s.putJSON(ctx, snap.Registry(s.cfg.View))
	if err != nil {
		return event.SkillsDiscovered{}, err
	}
	e := event.SkillsDiscovered{Registry: ref, Diagnostics: len(snap.diags)}
	for i := range snap.skills {
		sk := &snap.skills[i]
		n := slices.IndexFunc(e.Sources, func(f event.Found) bool { return f.Label == sk.ID.Source })
		if n < 0 {
			n, e.Sources = len(e.Sources), append(e.Sources, event.Found{Label: sk.ID.Source, Source: sk.Tier.Or()})
		}
		if sk.State == Loaded {
			e.Loaded++
			e.Sources[n].Loaded++
		} else {
			e.Other++
			e.Sources[n].Other++
		}
	}
	return e, nil
}

// reported returns the session's recorded event of a snapshot and the registry, or nil if they
// belong to another snapshot. The registry stays in memory once it was asked for.
func (s *Session) reported(ctx context.Context, snap *Snapshot) (event.SkillsDiscovered, []byte) {
	if s == nil {
		return event.SkillsDiscovered{}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.state.Indexed
	if s.Snapshot() != snap || e.Registry.Digest == "" {
		return e, nil
	}
	if s.registry == nil || s.registryOf != e.Registry.Digest {
		b, err := s.cfg.Blobs.Open(ctx, e.Registry)
		if err != nil {
			return e, nil // it is created again
		}
		s.registry, s.registryOf = b, e.Registry.Digest
	}
	return e, s.registry
}

// Send records an input and returns its slot. It is the only source of direct-command evidence:
// text of tools, skills, and models never passes through it. Sending the same ID with the same
// content and role again has no effect, and returns the recorded slot. With another content or role,
// the error has Kind Conflict.
func (s *Session) Send(ctx context.Context, in Input) (policy.Slot, error) {
	if in.ID == "" {
		in.ID = s.cfg.NewID()
	}
	if in.Role == "" {
		in.Role = policy.Context
	}
	ref, err := s.putJSON(ctx, model.Message{Role: model.RoleUser, Parts: in.Parts})
	if err != nil {
		return policy.Slot{}, err
	}
	slot := policy.Slot{Role: in.Role, Origin: in.By, Digest: ref.Digest, Surface: in.Surface}
	s.mu.Lock()
	defer s.mu.Unlock()
	err = s.append(ctx, in.By, func(st *State) ([]event.Event, error) {
		said, ok := st.said[in.ID]
		switch {
		case !ok:
			return []event.Event{event.Input{ID: in.ID, Slot: slot, Content: ref}}, nil
		case said.Digest != slot.Digest || said.Role != slot.Role:
			return nil, &Error{Op: "say", Kind: Conflict, Code: "input_exists", Err: fmt.Errorf("input %s was sent before with another text or role", termtext.Quote(in.ID))}
		}
		slot = said
		return nil, nil
	})
	if err != nil {
		return policy.Slot{}, err
	}
	return slot, nil
}

// Answer records the answer to a question. An empty scope means once. The error has Kind Conflict
// if the question is not open, and Kind Invalid if the question does not offer the scope.
func (s *Session) Answer(ctx context.Context, call string, a policy.Answer) error {
	if a.Scope == "" {
		a.Scope = scopeOnce
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.append(ctx, a.By, func(st *State) ([]event.Event, error) {
		c, ok := st.Calls[call]
		if !ok || c.Question.ID != a.Question || a.Question == "" {
			return nil, &Error{Op: "answer", Kind: Conflict, Code: "question_not_open", Err: fmt.Errorf("no open question %q for call %q", a.Question, call)}
		}
		if !slices.Contains(c.Question.Scopes, a.Scope) {
			return nil, &Error{Op: "answer", Kind: Invalid, Code: "scope_unknown", Err: fmt.Errorf("the question can be answered for %q, not for %q", c.Question.Scopes, a.Scope)}
		}
		out := []event.Event{event.ApprovalAnswered{ID: a.Question, Call: call, Binds: c.Question.Binds, Allow: a.Allow, Scope: a.Scope, By: a.By, Surface: a.Surface}}
		if a.Allow {
			return out, nil
		}
		returned, err := s.refusedBy(ctx, st, call, a)
		return append(out, returned...), err
	})
	if err != nil {
		return err
	}
	return s.sync(ctx)
}

// State returns a copy of the folded state.
func (s *Session) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.clone()
}

// Refresh calls Config.Refresh, if it is set, and records the new snapshot if anything changed.
// Surfaces call it before a turn.
func (s *Session) Refresh(ctx context.Context) error {
	if s.cfg.Refresh == nil {
		return nil
	}
	snap, err := s.cfg.Refresh(ctx)
	if err != nil {
		return err
	}
	e, err := s.indexed(ctx, snap)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.snap.Store(snap)
	s.fresh, s.files = true, map[ID]Skill{}
	return s.append(ctx, s.cfg.By, func(st *State) ([]event.Event, error) {
		if st.Indexed.Registry.Digest == e.Registry.Digest {
			return nil, nil
		}
		return []event.Event{e}, nil
	})
}

// Snapshot returns the session's current snapshot.
func (s *Session) Snapshot() *Snapshot { return s.snap.Load() }

// Recorded returns the approximate number of bytes that this session added to its record: entries,
// the arguments of each call, and other content that it had not added before.
func (s *Session) Recorded() int64 { return s.tally.bytes.Load() }

// Close makes the log durable. Do not use the session afterwards.
func (s *Session) Close(ctx context.Context) error { return s.sync(ctx) }
