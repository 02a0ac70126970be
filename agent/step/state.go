// Package step is the agent loop as a pure state machine. A driver calls Next for the outstanding
// actions, performs them in any order, appends the resulting events to the log, and folds them with
// Apply. The state can be rebuilt from the log alone.
//
//	         Said                 Replied, calls            all returned
//	idle ───────────▶ model ─────────────────────▶ tools ──────────────▶ model …
//	                    │  Replied, no calls
//	                    ▼            End, Ended
//	                 ending ─────────────────────▶ ended ── Begun ──▶ idle
//
// The package does no I/O, reads no clock, and uses no random numbers: the same events give the
// same state on every machine. Time enters as events (Expired, Stopped). Content is passed by
// reference, so a State stays small.
//
// An event (ModelStarted, Started) claims an op before it acts. After a crash the driver appends
// what Interrupted returns. Model calls and reads are then repeated with the next try. Writes are
// repeated too: the tool compares the digests of its intent. A side effect ends as outcome_unknown.
package step

import (
	"metier/event"
	"metier/model"
	"metier/policy"
	"metier/record"
)

// Rules is the version of Next and Apply. A run keeps the version it began with. Apply rejects any
// other.
const Rules = 1

// MaxLost is how often one op may be lost in crashes before the run gives up on it. It stops a call
// that kills its process from doing so forever.
const MaxLost = 20

// Phase is the phase of a run.
type Phase string

// The phases of a run. Idle waits for input. Ending waits for the Ended event.
const (
	Idle   Phase = "idle"
	Model  Phase = "model"
	Tools  Phase = "tools"
	Ending Phase = "ending"
	Ended  Phase = "ended"
)

// Kind is the kind of an op.
type Kind string

// The kinds of ops. A check validates the final answer against the run's schema.
const (
	KindModel   Kind = "model"
	KindCompact Kind = "compact"
	KindCheck   Kind = "check"
	KindTool    Kind = "tool"
	KindChild   Kind = "child"
)

// Status is the progress of an op.
type Status string

// The statuses of an op. Started means claimed: the op may have acted.
const (
	Ready   Status = "ready"
	Started Status = "started"
	Asking  Status = "asking"
	Done    Status = "done"
)

// The final statuses of a run, as in event.Ended.
const (
	RunDone      = "done"
	RunFailed    = "failed"
	RunCancelled = "cancelled"
	RunDenied    = "denied"
)

// The codes that this package assigns to calls and runs. A call that ends with one of them has no
// Content: the driver renders a text for the model from the code. A run that fails because of the
// model has the model's code.
const (
	CodeCallLimit      = "call_limit"      // call: more calls in one reply than Spec.MaxCalls
	CodeCancelled      = "cancelled"       // call, run: stopped
	CodeExpired        = "expired"         // call: nobody answered in time
	CodeOutcomeUnknown = "outcome_unknown" // call: interrupted, it may or may not have happened
	CodeLoop           = "loop_detected"   // call, run: the same call Spec.MaxRepeats times in a row
	CodeTurnLimit      = "turn_limit"      // run: Spec.MaxTurns were not enough
	CodeTokenBudget    = "token_budget"    // run: Spec.MaxTokens are used up
	CodeOutputInvalid  = "output_invalid"  // run: no answer fitted the schema
	CodeReplyCut       = "reply_cut"       // run: the final answer was cut off at the model's limit of output
	CodeLostTooOften   = "lost_too_often"  // call, run: interrupted MaxLost times
)

// OriginRecovery is the Slot.Origin of the message without Content that tells the model that the
// record of one of its calls was lost. The driver supplies the text.
const OriginRecovery = "recovery"

// OriginCheck is the Slot.Origin of the message that tells the model why its answer does not match
// the schema.
const OriginCheck = "output-check"

// OriginSummary is the Slot.Origin of the summary message that a compaction leaves.
const OriginSummary = "compaction"

// State is the complete state of a run. It holds no maps and no pointers into events, and it
// round-trips through JSON unchanged.
type State struct {
	Rules int              `json:"rules"` // 0 until a run begins
	Run   string           `json:"run"`
	Turn  int              `json:"turn"`  // counts on over the runs of one log, so that op ids stay unique
	First int              `json:"first"` // turns before this run
	Phase Phase            `json:"phase"`
	Spec  event.RunStarted `json:"spec"`

	Messages []Message           `json:"messages,omitempty"`
	Active   []Loaded            `json:"active,omitempty"` // in the order of activation
	Offered  event.ToolsOffered  `json:"offered"`
	NewOffer *event.ToolsOffered `json:"newOffer,omitempty"` // waits for the turn's end
	Queue    []event.Input       `json:"queue,omitempty"`    // said while busy

	Pending *Op  `json:"pending,omitempty"` // the turn's model call, compaction or check
	Calls   []Op `json:"calls,omitempty"`   // the reply's calls in the model's order

	Usage     event.Usage `json:"usage"`             // of this run
	LastInput int64       `json:"lastInput"`         // tokens of the last prompt, 0 after a compaction
	Stopping  string      `json:"stopping"`          // "", turn, run
	Status    string      `json:"status"`            // how the run ends, once that is decided
	Code      string      `json:"code"`              // why it is not done
	Answer    record.Ref  `json:"answer,omitzero"`   // blob of the model.Message of the final reply
	Output    record.Ref  `json:"output,omitzero"`   // its structured result
	Failures  int         `json:"failures"`          // model failures in a row, in this turn
	Repeats   []Repeat    `json:"repeats,omitempty"` // calls of the last reply

	OutputTries int  `json:"outputTries"` // answers that did not fit the schema
	ModelTry    int  `json:"modelTry"`    // try of this turn's model call
	CompactTry  int  `json:"compactTry"`  // try of this turn's compaction
	Squeezed    bool `json:"squeezed"`    // this turn's prompt was too long once
}

// Message is one message of the conversation. Content is the blob of a model.Message. A tool
// message has Results instead: exactly one for each of the Calls of the preceding assistant
// message, in the same order.
type Message struct {
	Role    model.Role      `json:"role"`
	Input   string          `json:"input,omitempty"` // user: event.Input.ID
	Slot    policy.Slot     `json:"slot,omitzero"`
	Content record.Ref      `json:"content,omitzero"`
	Calls   []event.CallRef `json:"calls,omitempty"`
	Results []Result        `json:"results,omitempty"`
}

// Result is the result of one call as the model sees it. Content is the blob of []model.Part. If
// Code is one of this package's codes or policy's "refused", Content is empty and the driver
// renders the code.
type Result struct {
	Call    string     `json:"call"`
	Tool    string     `json:"tool"`
	Code    string     `json:"code,omitempty"`
	Content record.Ref `json:"content,omitzero"`
}

// Loaded is an active skill. InMessage is the index of the message that carries Text, or -1 if
// there is none (preloaded or compacted away). The driver renders those skills into each request,
// so that compaction can neither lose nor forge them.
type Loaded struct {
	SkillID   string     `json:"skillId"`
	Name      string     `json:"name"`
	Digest    string     `json:"digest"`
	Tree      string     `json:"tree,omitempty"`
	Text      record.Ref `json:"text,omitzero"`
	Call      string     `json:"call,omitempty"`
	InMessage int        `json:"inMessage"`
}

// Op is one thing the run waits for. In turn 3 the model call is "t3.m", its tool calls are
// "t3.c0", "t3.c1" and so on, the compaction is "t3.k", and the check is "t3.o".
type Op struct {
	ID     string `json:"id"`
	Kind   Kind   `json:"kind"`
	Status Status `json:"status"`
	Try    int    `json:"try"`
	Lost   int    `json:"lost,omitempty"` // times it was lost in a crash
	// Claimed reports whether a try was started. Spent reports whether the child's usage has been
	// counted, whatever happened afterward.
	Claimed bool                     `json:"claimed,omitempty"`
	Spent   bool                     `json:"spent,omitempty"`
	Tool    string                   `json:"tool,omitempty"`
	Effect  policy.Effect            `json:"effect,omitempty"` // from the claim
	Args    record.Ref               `json:"args,omitzero"`
	Bad     bool                     `json:"bad,omitempty"`
	Upto    int                      `json:"upto,omitempty"` // compact
	Ask     *event.ApprovalRequested `json:"ask,omitempty"`
	// Answered is the question that was approved. A duplicate of it does not ask again.
	Answered string     `json:"answered,omitempty"`
	Code     string     `json:"code,omitempty"`
	Content  record.Ref `json:"content,omitzero"`
}

// Repeat counts consecutive occurrences of one call of the last reply, within one reply or across
// replies.
type Repeat struct {
	Tool string `json:"tool"`
	Args string `json:"args"`
	N    int    `json:"n"`
}

// open reports whether the op has not ended yet.
func (o *Op) open() bool { return o.Status != Done }

func (o *Op) end(code string, content record.Ref) {
	o.Status, o.Code, o.Content, o.Ask = Done, code, content, nil
}

// again makes the op ready for its next try.
func (o *Op) again() {
	o.Status, o.Ask, o.Effect = Ready, nil, ""
	o.Try++
}

// call returns the call with this id, or nil.
func (s *State) call(id string) *Op {
	for i := range s.Calls {
		if s.Calls[i].ID == id {
			return &s.Calls[i]
		}
	}
	return nil
}

// pending returns the pending op if it has this id, or nil.
func (s *State) pending(id string) *Op {
	if s.Pending != nil && s.Pending.ID == id {
		return s.Pending
	}
	return nil
}
