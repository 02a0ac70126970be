package metier

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// Config is what a session is made of. Log and Blobs are required.
type Config struct {
	ID       string // of the session; the run id where there is a run
	By       string // the principal who opened it, and who acts where a call or an input names nobody
	Build    string // version of this build, for the record
	Log      record.Log
	Blobs    record.Blobs
	Snapshot *Snapshot // the skills; nil: none
	Tools    []Tool
	Settings settings.Settings
	// Origins is the resolved settings with who set each, as JSON, for the record.
	Origins json.RawMessage
	Grants  policy.Grants
	// Launch is kept in the record's first entry for whoever opens the session
	// again; nil: nothing.
	Launch json.RawMessage
	View   View // how host paths look to the model
	// ToolsOnly says that prompt and conversation are kept by somebody else: the catalog stands with the load tool,
	// skills can be listed and searched at any time, and a skill that is active already is shown again.
	ToolsOnly bool
	// Batch says that nobody can answer: drift takes its batch value.
	Batch bool
	// Refresh gives a new snapshot where the setting reload asks for one; nil:
	// the snapshot stays as it is.
	Refresh func(ctx context.Context) (*Snapshot, error)
	// Permanent gives the answers that hold always, as they are now; nil: those of Grants.
	// It is called before a question is asked, so that one that is taken back ends.
	Permanent func() map[string]policy.Answer
	// Like is a session with the same settings, grants and view, or nil: its catalog and its registry are taken where
	// both have the same snapshot, since making those of a thousand skills takes longer than a call.
	Like   *Session
	Now    func() time.Time // nil: time.Now
	NewID  func() string    // nil: random
	Logger *slog.Logger     // nil: discard
}

// Session is one run, conversation or client. Its state is a fold of its log:
// any process that opens the same log has the same session. All methods are
// safe for concurrent use.
type Session struct {
	cfg    Config
	tools  map[string]Tool   // by canonical name
	names  map[string]string // canonical name by the name the model sees
	order  []string          // canonical names: skills first, then as the operator gave them
	snap   atomic.Pointer[Snapshot]
	listed atomic.Pointer[listing]

	mu     sync.Mutex // guards all below
	head   record.Head
	state  State
	flight map[string]chan struct{} // calls under way in this process, closed when they end
	files  map[ID]Skill             // skills with their files, as the record has them
	done   []string                 // reads that returned and are still in state, in that order; with Config.ToolsOnly
	fresh  bool                     // Refresh made the snapshot, so its index counts and not the recorded one
}

// State is what a session knows: a copy, safe to keep.
type State struct {
	Session string
	Active  []Activation
	Slots   []policy.Slot // of the newest input
	Calls   map[string]CallState
	given   map[answerKey]policy.Answer
	Inputs  map[string]record.Ref // ID of each input → its content
	Indexes map[string]record.Ref // skill ID → blob of its registry.Skill
	Opened  bool
	Indexed event.SkillsDiscovered
}

// CallState is a call as the log knows it.
type CallState struct {
	Tool     string // canonical, as it was decided on
	Started  bool
	Try      int
	Effect   policy.Effect
	Intent   record.Ref
	Returned *event.ToolResult
	Question policy.Question // asked and not answered
	// ChildAsks reports that the question is a subagent's.
	ChildAsks bool
}

// Activation is one skill's instructions in a session, frozen with its digest.
type Activation struct {
	event.SkillActivated
	At time.Time
}

// Subject is the activated skill as policy sees it: with the allowed-tools it
// had when it was activated.
func (a Activation) Subject() policy.Subject {
	return policy.Subject{ID: a.SkillID, Name: a.Name, Digest: a.Hash, Tree: a.Tree, Tier: a.Source,
		AllowedTools: a.AllowedTools, Declared: a.Declared}
}

// Input is something said to the session.
type Input struct {
	ID      string // unique; "" takes a new one
	Parts   []model.Part
	Role    policy.Role // as the surface knows it: typed lines are direct commands
	Surface string      // cli, chat, http, mcp …
	By      string
}

// Open folds the log and, if it is empty, begins it. The error has Kind
// Conflict if another process moved the log for good, Drift if the log does
// not verify.
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
		c.Snapshot = &Snapshot{}
	}
	c.Grants = c.Snapshot.Grants(c.Grants)
	s := &Session{cfg: c, tools: map[string]Tool{}, names: map[string]string{}, flight: map[string]chan struct{}{}, files: map[ID]Skill{}}
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

// standIns puts tools behind those for skills, but for one that has a method
// Instead: it stands in the place of the skill tool of that canonical name. One
// with a method Over gives the tool that takes the place of another, or nil.
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

// addTool takes a tool up under both its names. Two tools of one name would
// let one pass for the other.
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

// begin writes the first entries: settings, grants and the registry.
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
			return nil, nil // somebody else began it
		}
		return []event.Event{opened, indexed}, nil
	})
}

// indexed puts a snapshot's registry into the blobs.
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

// reported is what the session recorded of a snapshot, and the registry; nil where
// that is of another one.
func (s *Session) reported(ctx context.Context, snap *Snapshot) (event.SkillsDiscovered, []byte) {
	if s == nil {
		return event.SkillsDiscovered{}, nil
	}
	s.mu.Lock()
	e, same := s.state.Indexed, s.Snapshot() == snap
	s.mu.Unlock()
	if !same || e.Registry.Digest == "" {
		return e, nil
	}
	b, err := s.cfg.Blobs.Open(ctx, e.Registry)
	if err != nil {
		return e, nil // it is made anew
	}
	return e, b
}

// Send records an input and returns its slot. It is the only maker of
// direct-command evidence: nothing a tool, skill or model says passes here. An
// ID that was said before with the same content changes nothing; with another
// content it is refused with Kind Conflict.
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
	return slot, s.append(ctx, in.By, func(st *State) ([]event.Event, error) {
		if said, ok := st.Inputs[in.ID]; ok {
			if said.Digest != ref.Digest {
				return nil, &Error{Op: "say", Kind: Conflict, Code: "input_exists", Err: fmt.Errorf("input %s was said before with another text", termtext.Quote(in.ID))}
			}
			return nil, nil
		}
		return []event.Event{event.Input{ID: in.ID, Slot: slot, Content: ref}}, nil
	})
}

// Answer records the reply to a question; no scope means once. An answer to a
// question that is not open is refused with Kind Conflict, one with a scope the
// question does not have with Kind Invalid.
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
		out := []event.Event{event.ApprovalAnswered{ID: a.Question, Call: call, Binds: c.Question.Binds, Allow: a.Allow, Scope: a.Scope, By: a.By}}
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

// Refresh takes a new snapshot where the session was given a way to make one
// (Config.Refresh) and records it if anything changed. Surfaces call it before
// a turn.
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

// Snapshot returns the skills as the session sees them now.
func (s *Session) Snapshot() *Snapshot { return s.snap.Load() }

// Close makes the log durable. The session must not be used afterwards.
func (s *Session) Close(ctx context.Context) error { return s.sync(ctx) }

// sync makes everything appended so far durable, where the log can.
func (s *Session) sync(ctx context.Context) error {
	if y, ok := s.cfg.Log.(record.Syncer); ok {
		if err := y.Sync(ctx); err != nil {
			return s.fault("sync", err)
		}
	}
	return nil
}

// mostRaces is how often a session tries again while others write to its log.
const mostRaces = 100

var errContended = &Error{Op: "record", Kind: Conflict, Code: "log_contended", Hint: "another process keeps writing to this log",
	Err: fmt.Errorf("lost %d races for the head of the log", mostRaces)}

// refresh folds what others appended. The caller holds mu.
func (s *Session) refresh(ctx context.Context) error {
	for range mostRaces {
		head, err := s.cfg.Log.Head(ctx)
		switch {
		case err != nil:
			return s.fault("open", err)
		case head.Seq == s.head.Seq:
			s.head = head
			return nil
		case head.Seq < s.head.Seq:
			return &Error{Op: "open", Kind: Drift, Code: "log_shrank", Err: fmt.Errorf("the log ended at entry %d and now at %d", s.head.Seq, head.Seq)}
		}
		for en, err := range s.cfg.Log.Read(ctx, s.head.Seq+1) {
			if err != nil {
				return s.fault("open", err)
			}
			if err := s.fold(en); err != nil {
				return err
			}
			s.head = record.Head{Seq: en.Seq} // its hash comes with Head, once nothing follows
		}
	}
	return errContended
}

// append asks decide for events on the newest state and appends them in the name
// of a principal ("": who opened the session); when somebody else was faster it
// folds and decides again (D10). The caller holds mu.
func (s *Session) append(ctx context.Context, by string, decide func(*State) ([]event.Event, error)) error {
	for range mostRaces {
		if err := s.refresh(ctx); err != nil {
			return err
		}
		evs, err := decide(&s.state)
		if err != nil || len(evs) == 0 {
			return err
		}
		entries := make([]record.Entry, 0, len(evs))
		for i, e := range evs {
			en, err := event.New(e, entryID(e, s.head.Seq+uint64(i)+1), cmp.Or(by, s.cfg.By), s.cfg.Now())
			if err != nil {
				return &Error{Op: "record", Kind: Internal, Code: "encode", Err: err}
			}
			entries = append(entries, en)
		}
		head, err := s.cfg.Log.Append(ctx, s.head, entries...)
		switch {
		case errors.Is(err, record.ErrMoved):
			continue
		case err != nil:
			return s.fault("record", err)
		case head.Seq != s.head.Seq+uint64(len(entries)):
			return s.refresh(ctx) // an entry was there already
		}
		for i, e := range evs {
			s.state.apply(e, entries[i].At)
			s.forget(e)
		}
		s.head = head
		return nil
	}
	return errContended
}

// mostDone is how many reads that returned a session of tools alone remembers.
const mostDone = 32

// forget drops the oldest read that returned: a client may call for days, and
// takes a new ID each time. What had an effect stays known, since it must never
// happen twice; the log has all of it. The caller holds mu.
func (s *Session) forget(e event.Event) {
	r, is := e.(event.ToolResult)
	if !is || !s.cfg.ToolsOnly || s.state.Calls[r.ID].Effect != policy.Read {
		return
	}
	if s.done = append(s.done, r.ID); len(s.done) > mostDone {
		delete(s.state.Calls, s.done[0])
		s.done = s.done[1:]
	}
}

// fault turns an error of the log or the blobs into ours.
func (s *Session) fault(op string, err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if e, ok := errors.AsType[*record.Error](err); ok {
		kind := Drift
		if e.Code == "disk_full" || e.Code == "read_only" {
			kind = Unavailable
		}
		return &Error{Op: op, Kind: kind, Code: string(e.Code), Path: e.Path, Err: err}
	}
	return &Error{Op: op, Kind: Unavailable, Code: "record_failed", Err: err}
}

func (s *Session) putJSON(ctx context.Context, v any) (record.Ref, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return record.Ref{}, &Error{Op: "record", Kind: Internal, Code: "encode", Err: err}
	}
	ref, err := s.cfg.Blobs.Put(ctx, "application/json", b)
	if err != nil {
		return record.Ref{}, s.fault("record", err)
	}
	return ref, nil
}

func (s *Session) putText(ctx context.Context, text string) (record.Ref, error) {
	ref, err := s.cfg.Blobs.Put(ctx, "text/plain; charset=utf-8", []byte(text))
	if err != nil {
		return record.Ref{}, s.fault("record", err)
	}
	return ref, nil
}

// capped reads at most limit bytes and says whether there was more.
func capped(r io.Reader, limit int64) (b []byte, more bool, err error) {
	b, err = io.ReadAll(io.LimitReader(r, limit+1))
	if int64(len(b)) > limit {
		return b[:limit], true, err
	}
	return b, false, err
}
