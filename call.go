package metier

import (
	"context"
	"encoding/json"

	"metier/model"
	"metier/policy"
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
	Invoke(ctx context.Context, x *Scope) (Result, error)
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
	Bad   bool // Args is not what the model wrote, because that was no JSON
	Actor policy.Actor
	By    string // the principal
	Try   int    // 0, or higher after a crash
	// Source is the activation source where the call activates: model-tool,
	// cli-preload, user-explicit, subagent-inherit. Empty: by Actor.
	Source string
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

func (n *NeedsApproval) Error() string { return "needs approval: " + n.Question.Text }
