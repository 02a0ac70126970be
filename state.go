package metier

import (
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"metier/event"
	"metier/internal/nfkc"
	"metier/policy"
	"metier/record"
)

// State is a copy of a session's state.
type State struct {
	Session string
	Active  []Activation
	Slots   []policy.Slot // of the newest input
	Calls   map[string]CallState
	given   map[answerKey]policy.Answer
	Inputs  map[string]record.Ref // ID of each input → its content
	said    map[string]policy.Slot
	Indexes map[string]record.Ref // skill ID → blob of its registry.Skill
	Opened  bool
	Indexed event.SkillsDiscovered
	// Told lists the skills whose SKILL.md the model read, in whole or in part, without activating
	// them, and each version of a skill of an MCP server of which it, or a subagent, read any file. They restrict
	// what it may do like active ones, as they were when they were read.
	Told []policy.Subject
}

// CallState is the logged state of a call.
type CallState struct {
	Tool     string // canonical name at the decision
	Started  bool
	Try      int
	Effect   policy.Effect // of the claim; before it, of the decision
	Intent   record.Ref
	Returned *event.ToolResult
	Question policy.Question // open question
	// ChildAsks reports whether the question is from a subagent.
	ChildAsks bool

	actor policy.Actor
}

// Activation is one skill's instructions in a session, frozen with its digest.
type Activation struct {
	event.SkillActivated
	At time.Time
}

// Subject returns the skill for policy, with the allowed-tools at its activation.
func (a Activation) Subject() policy.Subject {
	return policy.Subject{ID: a.SkillID, Name: nfkc.String(a.Name), Digest: a.Hash, Tree: a.Tree, Tier: a.Source,
		AllowedTools: a.AllowedTools, Declared: a.Declared}
}

func newState() State {
	return State{Calls: map[string]CallState{}, given: map[answerKey]policy.Answer{}, Inputs: map[string]record.Ref{}, said: map[string]policy.Slot{}, Indexes: map[string]record.Ref{}}
}

func (st State) clone() State {
	st.Active = slices.Clone(st.Active)
	st.Slots = slices.Clone(st.Slots)
	st.Told = slices.Clone(st.Told)
	st.Calls = maps.Clone(st.Calls)
	st.given = maps.Clone(st.given)
	st.Inputs = maps.Clone(st.Inputs)
	st.said = maps.Clone(st.said)
	st.Indexes = maps.Clone(st.Indexes)
	return st
}

// active returns the newest activation of a skill.
func (st *State) active(id string) (Activation, bool) {
	for _, a := range st.Active {
		if a.SkillID == id {
			return a, true
		}
	}
	return Activation{}, false
}

// active returns the newest activation of a skill in this session.
func (s *Session) active(id ID) (Activation, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.active(id.String())
}

func (st *State) subjects() []policy.Subject {
	out := make([]policy.Subject, 0, len(st.Active))
	for _, a := range st.Active {
		out = append(out, a.Subject())
	}
	return out
}

// skillRefs is what every turn and tool event says of the active skills.
func (st *State) skillRefs() []event.SkillRef {
	var out []event.SkillRef
	for _, a := range st.Active {
		out = append(out, event.SkillRef{ID: a.SkillID, Name: a.Name, Digest: a.Hash, Tree: a.Tree, Tier: a.Source})
	}
	return out
}

// fold applies one entry. Entries of the agent's machine are skipped. It fails
// for an unknown entry that must be understood.
func (s *Session) fold(en record.Entry) error {
	e, err := event.Decode(en)
	if err != nil {
		if errors.Is(err, event.ErrUnknown) && !en.Must {
			s.cfg.Logger.Warn("record holds an entry this build does not know", "seq", en.Seq, "type", en.Type)
			return nil
		}
		if !errors.Is(err, event.ErrUnknown) {
			return &Error{Op: "open", Kind: Drift, Code: "record_damaged", Hint: "check the record with 'metier audit verify RUN'", Err: err}
		}
		return &Error{Op: "open", Kind: Unsupported, Code: "record_newer", Hint: "use the version of metier that wrote this record, or a newer one", Err: err}
	}
	s.state.apply(e, en.At)
	return nil
}

// apply folds one event, written at a time.
func (st *State) apply(e event.Event, at time.Time) {
	switch e := e.(type) {
	case event.SessionOpened:
		st.Opened, st.Session = true, e.Session
	case event.SkillsDiscovered:
		st.Indexed = e
	case event.ResourcesIndexed:
		st.Indexes[e.SkillID] = e.Registry
	case event.Input:
		st.Slots = append(st.Slots[:0:0], e.Slot)
		st.Inputs[e.ID], st.said[e.ID] = e.Content, e.Slot
	case event.PolicyDecided:
		c := st.Calls[e.Call]
		c.Tool, c.actor = e.Tool, e.Actor
		if !c.Started {
			c.Effect = e.Effect
		}
		st.Calls[e.Call] = c
	case event.FileRead:
		st.read(e.Call, e.SkillID, e.Skill)
	case event.ResourceRead:
		if e.Status != "error" && restricts(e.SkillID, e.Path) {
			st.read(e.Call, e.SkillID, e.Skill)
		}
	case event.ApprovalRequested:
		c := st.Calls[e.Call]
		c.Question = policy.Question{ID: e.ID, Code: e.Code, Binds: e.Binds, Scopes: e.Scopes, SkillID: e.SkillID, Tree: e.Tree, Child: e.Child, ChildCall: e.ChildCall}
		c.ChildAsks = e.Child != ""
		st.Calls[e.Call] = c
	case event.ApprovalAnswered:
		wide := e.Scope == scopeSession || e.Scope == scopeAlways
		for id, c := range st.Calls {
			if id == e.Call || wide && c.Question.Binds == e.Binds {
				c.Question = policy.Question{}
				st.Calls[id] = c
			}
		}
		st.given[keyOf(e.Scope, e.Call, e.Binds)] = policy.Answer{Question: e.ID, Allow: e.Allow, Scope: e.Scope, By: e.By}
	case event.ApprovalExpired:
		if c := st.Calls[e.Call]; c.Question.ID == e.ID {
			c.Question = policy.Question{}
			st.Calls[e.Call] = c
		}
	case event.ToolCallStarted:
		c := st.Calls[e.ID]
		c.Started, c.Try, c.Effect, c.Question = true, e.Try, e.Effect, policy.Question{}
		if e.Intent.Digest != "" {
			c.Intent = e.Intent
		}
		st.Calls[e.ID] = c
	case event.ToolResult:
		c := st.Calls[e.ID]
		c.Returned, c.Question = &e, policy.Question{}
		st.Calls[e.ID] = c
	case event.SkillActivated:
		st.activate(Activation{SkillActivated: e, At: at})
	case event.ChildEnded:
		for _, r := range e.Served {
			st.tell(event.SkillVersion{SkillRef: r}.Subject())
		}
	}
}

// restricts reports whether a model that reads the file is restricted like by the active skill.
func restricts(skillID, file string) bool {
	return strings.EqualFold(path.Base(file), "SKILL.md") || strings.HasPrefix(skillID, policy.ServedPrefix)
}

// read notes that the model read a skill. If the entry does not have the version, nothing proves
// what was read: no answer covers it for long, and its allowed-tools are empty.
func (st *State) read(call, skillID string, v *event.SkillVersion) {
	if skillID == "" || st.Calls[call].actor != policy.ByModel {
		return
	}
	sk := policy.Subject{ID: skillID, Name: skillID, Declared: true}
	if v != nil {
		sk = v.Subject()
	}
	st.tell(sk)
}

// tell adds a skill to Told, or replaces it if it is there.
func (st *State) tell(sk policy.Subject) {
	if i := slices.IndexFunc(st.Told, sk.Same); i >= 0 {
		st.Told[i] = sk
		return
	}
	st.Told = append(st.Told, sk)
}

// told returns the skills that only restrict a call: the model read their instructions. The clients
// of a session without a model load skills as they see fit.
func (s *Session) told(st *State) []policy.Subject {
	if s.cfg.ToolsOnly {
		return nil
	}
	active := st.subjects()
	return slices.DeleteFunc(slices.Clone(st.Told), func(sk policy.Subject) bool { return slices.ContainsFunc(active, sk.Same) })
}

func (st *State) activate(a Activation) {
	i := slices.IndexFunc(st.Active, func(b Activation) bool { return b.SkillID == a.SkillID })
	if i < 0 {
		st.Active = append(st.Active, a)
		return
	}
	if old := st.Active[i].Subject(); !old.Same(a.Subject()) {
		old.AllowedTools, old.Declared = nil, false // the new list replaces it; its text was read
		st.tell(old)
	}
	st.Active[i] = a
}

// answerKey is what an answer covers: one call, or every call of the session
// that binds the same facts.
type answerKey struct{ call, binds string }

// The scopes of an answer. Any other covers the one call alone.
const (
	scopeOnce    = "once"
	scopeSession = "session"
	scopeAlways  = "always"
)

func keyOf(scope, call, binds string) answerKey {
	if scope == scopeSession || scope == scopeAlways {
		return answerKey{"", binds}
	}
	return answerKey{call, binds}
}

// answers returns the answers a call may use, by Question.Binds. One given for
// this call wins over one for the session.
func (st *State) answers(call string) map[string]policy.Answer {
	out := map[string]policy.Answer{}
	for k, a := range st.given {
		if k.call == "" {
			out[k.binds] = a
		}
	}
	for k, a := range st.given {
		if k.call == call {
			out[k.binds] = a
		}
	}
	return out
}

// entryID is the idempotency key of an event: a claim, a return and an answer
// can be written once; the rest is numbered.
func entryID(e event.Event, seq uint64) string {
	switch e := e.(type) {
	case event.SessionOpened:
		return "opened"
	case event.Input:
		return "said:" + e.ID
	case event.ToolCallStarted:
		return fmt.Sprintf("started:%s#%d", e.ID, e.Try)
	case event.ToolResult:
		return "returned:" + e.ID
	case event.ApprovalAnswered:
		return "answered:" + e.Call + ":" + e.ID
	}
	return fmt.Sprintf("%s@%d", e.Type(), seq)
}

func randomID() string {
	var b [12]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic(err) // the kernel's generator does not fail
	}
	return fmt.Sprintf("%x", b)
}
