package metier

import (
	"context"
	"encoding/json"
	"slices"

	"metier/event"
	"metier/model"
	"metier/policy"
	"metier/record"
)

// Tool is one thing a model can call. A tool holds no decision: it says what a
// call would do, and does it when Session.Call tells it to.
type Tool interface {
	// Spec describes the tool to the model, as of now. offered is false when
	// the session has no use for it (no skills, no load tool).
	Spec(ctx context.Context, s *Session) (spec Spec, offered bool)
	// Facts reads the arguments and says what the call would do. It has no
	// effect. An *Error of Kind Invalid refuses the call and is told to the
	// model. For writes, Facts.Intent says what is there now and what will be.
	Facts(ctx context.Context, s *Session, args json.RawMessage) (Facts, error)
	// Invoke does it. Only Session.Call calls it. A failed act is a Result with
	// a Code; an error means that the act may or may not have happened.
	Invoke(ctx context.Context, x *ToolContext) (Result, error)
}

// Stager is a Tool that runs what a skill brings. Stage puts the skill's files
// where they will run from, before its instructions enter the session, and
// records that. An error keeps the skill from being activated.
type Stager interface {
	Stage(ctx context.Context, x *ToolContext, sk Skill) error
}

// Spec describes a tool. Canonical is the name grants, policy and records use;
// ToolSpec.Name is what the model sees, which depends on the settings.
type Spec struct {
	model.ToolSpec
	Canonical string
	Effect    policy.Effect // the worst it can do
}

// Facts is what a call would do.
type Facts struct {
	policy.Request
	Intent json.RawMessage // writes: before and after, see Tool.Facts
}

// Call is one tool call. Actor and By come from the surface, never from the
// arguments. Skill context reaches the tool through its Scope.
type Call struct {
	ID    string // unique in the session; a call that already returned gives the recorded result again
	Tool  string // as the model called it, or canonical
	Args  json.RawMessage
	Bad   bool // Args is not JSON, or nested too deep
	Actor policy.Actor
	By    string // the principal
	Try   int    // 0, or higher after a crash
	// Source is the activation source where the call activates: model-tool,
	// cli-preload, user-explicit, subagent-inherit. Empty: by Actor.
	Source string
	// Page is the most bytes a skill tool replies with, where Config.ToolsOnly
	// is set; the reply names the offset of the rest. 0: no limit.
	Page int
	// Claimed, if set, is called once it is recorded that the call may act.
	Claimed func() `json:"-"`
	// Before, if set, returns when the result may be recorded: calls that act at the
	// same time are recorded in their order.
	Before func() `json:"-"`
}

// Result is what a tool made. Detail, JSON or nil, goes to the artifacts and
// not to the model.
type Result struct {
	Parts  []model.Part
	Code   string // "" is success
	Detail json.RawMessage
	Label  policy.Label
}

// Text makes a result of one piece of text.
func Text(s string) Result { return Result{Parts: []model.Part{{Kind: model.PartResult, Text: s}}} }

// Observation is a result that passed Release. Only Session makes one, so what
// a model is shown was judged.
type Observation struct{ r Result }

// Parts is what the model reads.
func (o Observation) Parts() []model.Part { return o.r.Parts }

// Code is "" for success, else the reason the call failed or was refused.
func (o Observation) Code() string { return o.r.Code }

// Detail is the JSON for artifacts, or nil.
func (o Observation) Detail() json.RawMessage { return o.r.Detail }

// Text is all text of the observation.
func (o Observation) Text() string {
	s := ""
	for _, p := range o.r.Parts {
		s += p.Text
	}
	return s
}

// NeedsApproval is returned by Session.Call before any effect. Answer the
// question, then call again.
type NeedsApproval struct {
	Call     string
	Question policy.Question
}

func (n *NeedsApproval) Error() string {
	ask, _ := policy.SplitQuestion(n.Question.Text)
	return "needs approval: " + ask
}

// Suspended is what a tool's Invoke returns where its act is not over: it waits
// for an answer to Question, or, where that is nil, for a call with a higher
// try. The tool then finds out for itself how far it came. Only tools whose acts
// are runs with records of their own can say so.
type Suspended struct{ Question *policy.Question }

func (*Suspended) Error() string { return "the call is not over; it goes on when it is made again" }

// ToolContext is what a tool may touch while it is invoked: the session's skills,
// under a decision that was already taken. What it records goes into the log
// in one piece with the call's result, or not at all.
type ToolContext struct {
	s      *Session
	call   Call
	intent json.RawMessage
	active []event.SkillRef
	events []event.Event
	loads  []string // IDs of skills that were put in because they were not active
	offset int64    // where readResource begins
	last   bool     // the result counts even when one of loads became active meanwhile
}

// withdraw takes back activations whose text nobody will be shown.
func (x *ToolContext) withdraw() {
	x.loads = nil
	x.events = slices.DeleteFunc(x.events, func(e event.Event) bool { _, is := e.(event.SkillActivated); return is })
}

// stale reports whether a skill this call puts in became active, with the same
// text, since the call looked: then a second body would enter.
func (x *ToolContext) stale(st *State) bool {
	return slices.ContainsFunc(x.events, func(e event.Event) bool {
		act, is := e.(event.SkillActivated)
		if !is || !slices.Contains(x.loads, act.SkillID) {
			return false
		}
		old, was := st.active(act.SkillID)
		return was && old.Hash == act.Hash
	})
}

// Session returns the session, for its snapshot, view and settings.
func (x *ToolContext) Session() *Session { return x.s }

// Call returns the call, its arguments included.
func (x *ToolContext) Call() Call { return x.call }

// Intent returns what Facts said a write would do, as it was claimed the first
// time: after a crash the tool compares it with what is there.
func (x *ToolContext) Intent() json.RawMessage { return x.intent }

// Answers are what people said to questions of this call or for the whole
// session, by Question.Binds.
func (x *ToolContext) Answers() map[string]policy.Answer {
	x.s.mu.Lock()
	defer x.s.mu.Unlock()
	return x.s.state.answers(x.call.ID)
}

// Active returns the active skills: the skill context of the call.
func (x *ToolContext) Active() []event.SkillRef { return x.active }

// Activate puts a skill's instructions into the session. See Session.Activate.
func (x *ToolContext) Activate(ctx context.Context, sk Skill, arguments []string) (Activation, string, error) {
	return x.s.activate(ctx, x, sk, arguments)
}

// Read reads a file of a skill under the settings of reads, and records it,
// failures included. max is in bytes; 0 takes the default.
func (x *ToolContext) Read(ctx context.Context, skill, path string, max int) (Reading, error) {
	return x.s.readResource(ctx, x, skill, path, max)
}

// Files returns a skill with its files as the record knows them, and records
// them where it does not.
func (x *ToolContext) Files(ctx context.Context, sk Skill) (Skill, error) {
	return x.s.index(ctx, x, sk)
}

// Readable reports whether the call may read a skill's files without asking
// anybody: the model may know of the skill, and no rule is against it.
func (x *ToolContext) Readable(ctx context.Context, sk Skill) bool {
	return x.s.readable(ctx, x.call, sk)
}

// Put keeps content in the record's blobs: what events refer to.
func (x *ToolContext) Put(ctx context.Context, media string, b []byte) (record.Ref, error) {
	ref, err := x.s.cfg.Blobs.Put(ctx, media, b)
	if err != nil {
		return ref, x.s.fault("record", err)
	}
	return ref, nil
}

// Files returns a skill with its files as the session knows them, and records
// nothing: what a tool's Facts may look at.
func (s *Session) Files(ctx context.Context, sk Skill) (Skill, error) { return s.index(ctx, nil, sk) }

// Record adds an event to what the call leaves in the log. Tools use it for
// notes; skill events are written by Activate and Read.
func (x *ToolContext) Record(e event.Event) { x.events = append(x.events, e) }

// Suspect records what in a skill's text reads like an injection; the error keeps it from the model.
func (x *ToolContext) Suspect(sk Skill, file, text string) error {
	return x.s.suspected(x, sk, file, text, 0)
}

// source is how the call's activations are recorded (ruling 10).
func (x *ToolContext) source() string {
	if x.call.Source != "" {
		return x.call.Source
	}
	switch x.call.Actor {
	case policy.ByOperator:
		return "cli-preload"
	case policy.ByUser:
		return "user-explicit"
	}
	return "model-tool"
}
