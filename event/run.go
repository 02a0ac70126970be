package event

import (
	"strings"

	"metier/record"
)

// Begun begins a run of the agent on this log. Rules is the version of the
// step machine; a run keeps the one it began with.
type Begun struct {
	Run         string     `json:"run"`
	Rules       int        `json:"rules"`
	Model       string     `json:"model"`
	MaxTurns    int        `json:"maxTurns"`
	MaxCalls    int        `json:"maxCalls"`          // tool calls in one turn
	MaxRepeats  int        `json:"maxRepeats"`        // the same call in a row before the run stops
	MaxRetries  int        `json:"maxRetries"`        // model failures in a row
	Window      int        `json:"window"`            // tokens of context, 0 unknown
	CompactAt   int        `json:"compactAt"`         // tokens of input at which older messages are summarized, 0 never
	KeepLast    int        `json:"keepLast"`          // messages compaction leaves alone
	MaxTokens   int64      `json:"maxTokens"`         // budget of the whole run, 0 none
	OutputTries int        `json:"outputTries"`       // how often a final answer may fail its schema
	Spec        record.Ref `json:"spec"`              // the run's definition, for resume and people
	Schema      record.Ref `json:"schema"`            // JSON schema of the final answer; empty: any text will do
	Results     bool       `json:"results,omitempty"` // every call of a reply gets one call.returned before the next turn or the end
}

// Limited changes limits of a run that is under way: it was taken up again with
// others than it had. Zero leaves what there is.
type Limited struct {
	Run       string `json:"run"`
	MaxTurns  int    `json:"maxTurns,omitempty"`
	MaxTokens int64  `json:"maxTokens,omitempty"`
}

// Resumed says a run was taken up again, and how its skills were found.
type Resumed struct {
	Run      string `json:"run"`
	Registry string `json:"registry"` // digest of the recorded registry that was loaded
	Active   int    `json:"active"`   // recorded activations that were loaded
	Verified int    `json:"verified"` // skills whose digest is as recorded
	Drifted  int    `json:"drifted"`
	OnDrift  string `json:"onDrift"`
	// Lease is the browser's, where it was lent anew: it takes the place of the
	// one in the launch. Empty: that stays.
	Lease record.Ref `json:"lease,omitzero"`
}

// Offered says what the model is shown from the next turn on: Tools is the
// blob of []model.ToolSpec, System of the system prompt, Catalog of the
// catalog's text (empty when there is none).
type Offered struct {
	Digest  string     `json:"digest"`
	Names   []string   `json:"names"`
	Tools   record.Ref `json:"tools"`
	System  record.Ref `json:"system"`
	Catalog record.Ref `json:"catalog"`
	Omitted int        `json:"omitted,omitempty"`
}

// ModelStarted claims a model call (or a compaction): it is in the log before
// the request is sent. Request is the digest of a list of what is sent: offer,
// skills and messages, each by the digest of its content.
type ModelStarted struct {
	ID      string `json:"id"`
	Try     int    `json:"try"`
	Request string `json:"request"`
}

// CallRef is one tool call of a reply.
type CallRef struct {
	ID   string     `json:"id"`
	Tool string     `json:"tool"`
	Args record.Ref `json:"args"`
	Bad  bool       `json:"bad,omitempty"` // the arguments are not JSON
	// Child says that the call starts a run of its own instead of a tool.
	Child bool `json:"child,omitempty"`
}

// Usage counts tokens; CostMicroUSD is in millionths of a dollar and only
// there when a price is known.
type Usage struct {
	Input        int64  `json:"input"`
	Output       int64  `json:"output"`
	CacheRead    int64  `json:"cacheRead,omitempty"`
	CacheWrite   int64  `json:"cacheWrite,omitempty"`
	CostMicroUSD *int64 `json:"costMicroUSD,omitempty"`
}

// Add is the sum of both. Its cost is known if any part of it is.
func (u Usage) Add(v Usage) Usage {
	out := Usage{Input: u.Input + v.Input, Output: u.Output + v.Output, CacheRead: u.CacheRead + v.CacheRead, CacheWrite: u.CacheWrite + v.CacheWrite}
	for _, c := range []*int64{u.CostMicroUSD, v.CostMicroUSD} {
		if c == nil {
			continue
		}
		sum := *c
		if out.CostMicroUSD != nil {
			sum += *out.CostMicroUSD
		}
		out.CostMicroUSD = &sum
	}
	return out
}

// Total is every token, cached or not.
func (u Usage) Total() int64 { return u.Input + u.Output + u.CacheRead + u.CacheWrite }

// Replied is a whole reply. Message is the blob of the model.Message, opaque
// parts verbatim.
type Replied struct {
	ID      string     `json:"id"`
	Message record.Ref `json:"message"`
	Calls   []CallRef  `json:"calls,omitempty"`
	Usage   Usage      `json:"usage"`
	Stop    string     `json:"stop"`
	Model   string     `json:"model"`
}

// Failed is a model call that gave no reply. Retry says another try follows,
// after WaitMS milliseconds.
type Failed struct {
	ID     string     `json:"id"`
	Try    int        `json:"try"`
	Code   string     `json:"code"`
	Status int        `json:"status,omitempty"`
	Retry  bool       `json:"retry"`
	WaitMS int64      `json:"waitMs,omitempty"`
	Detail record.Ref `json:"detail"`
}

// Compacted replaces the messages before Upto by a summary.
type Compacted struct {
	ID      string     `json:"id"`
	Upto    int        `json:"upto"`
	Summary record.Ref `json:"summary"` // blob of a model.Message
	Usage   Usage      `json:"usage"`
}

// Checked says whether a final answer fits the run's schema. Code is empty when
// it does, and then Output is the blob of the structured result; else Errors is
// the blob of a model.Message that tells the model what is wrong.
type Checked struct {
	ID     string     `json:"id"`
	Code   string     `json:"code,omitempty"`
	Output record.Ref `json:"output"`
	Errors record.Ref `json:"errors"`
}

// ChildEnded ties a child's chain in by its head, and counts what it used. The
// call that began it ends with Returned, which is appended with it.
type ChildEnded struct {
	ID    string      `json:"id"`             // of the call
	Run   string      `json:"run"`            // name of the child's folder below children/
	Code  string      `json:"code,omitempty"` // why it failed, one of a closed set
	Head  record.Head `json:"head"`
	Usage Usage       `json:"usage"`
	// Denied counts the denied calls of the child and of its own children.
	Denied []Denial `json:"denied,omitempty"`
}

// Denial counts the calls of a tool that were denied for one reason.
type Denial struct {
	Tool  string `json:"tool"`
	Code  string `json:"code"`
	Count int    `json:"count"`
}

// ChildName is the name of the folder of the child that a call begins. The ID of
// a call that a driver gave holds no other letters.
func ChildName(call string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '_'
	}, call)
}

// Stopped asks the run (or only the turn) to end: cancel, deadline, budget.
type Stopped struct {
	Scope  string `json:"scope"` // turn, run
	Reason string `json:"reason"`
	By     string `json:"by,omitempty"`
}

// Parked says that only questions are left: the process may exit.
type Parked struct {
	Run  string   `json:"run"`
	Asks []string `json:"asks"`
}

// Ended ends the run. Status is done, failed, cancelled or denied; Code says
// why it is not done.
type Ended struct {
	Run    string     `json:"run"`
	Status string     `json:"status"`
	Code   string     `json:"code,omitempty"`
	Answer record.Ref `json:"answer"` // the final text
	Output record.Ref `json:"output"` // the structured result, when a schema was given
}

// Recovered says that the log lost its tail in a crash and went on: Bytes were
// cut off after Seq. LostID and LostType name the entry that is known, from
// the heads kept elsewhere, to have been there.
type Recovered struct {
	Seq      uint64 `json:"seq"`
	Bytes    int    `json:"bytes"`
	Digest   string `json:"digest"`
	LostID   string `json:"lostId,omitempty"`
	LostType string `json:"lostType,omitempty"`
	// LostSeq is that entry's number, 0 if unknown. When it is Seq+1 nothing
	// else was lost; any other value means that entries in between may be.
	LostSeq uint64 `json:"lostSeq,omitempty"`
	// Unanchored is how many whole entries were set aside because no recorded
	// head covers them, and Kept the file in the run folder that holds them.
	Unanchored int    `json:"unanchored,omitempty"`
	Kept       string `json:"kept,omitempty"`
}

func (Opened) Type() string           { return "session.opened" }
func (Closed) Type() string           { return "session.ended" }
func (Indexed) Type() string          { return "skill.discovered" }
func (ResourcesIndexed) Type() string { return "skill.resources_indexed" }
func (Said) Type() string             { return "input.said" }
func (Decided) Type() string          { return "policy.decided" }
func (Asked) Type() string            { return "approval.asked" }
func (Answered) Type() string         { return "approval.answered" }
func (Expired) Type() string          { return "approval.expired" }
func (Started) Type() string          { return "call.started" }
func (Returned) Type() string         { return "call.returned" }
func (Lost) Type() string             { return "op.lost" }
func (Activated) Type() string        { return "skill.activated" }
func (ResourceRead) Type() string     { return "skill.resource_read" }
func (FileRead) Type() string         { return "skill.file_read" }
func (Drifted) Type() string          { return "skill.drifted" }
func (Suspected) Type() string        { return "skill.suspected" }
func (Catalogued) Type() string       { return "skill.catalog" }
func (Begun) Type() string            { return "run.begun" }
func (Limited) Type() string          { return "run.limited" }
func (Resumed) Type() string          { return "run.resumed" }
func (Offered) Type() string          { return "tools.offered" }
func (ModelStarted) Type() string     { return "model.started" }
func (Replied) Type() string          { return "model.replied" }
func (Failed) Type() string           { return "model.failed" }
func (Compacted) Type() string        { return "context.compacted" }
func (Checked) Type() string          { return "output.checked" }
func (ChildEnded) Type() string       { return "child.ended" }
func (Stopped) Type() string          { return "run.stopped" }
func (Parked) Type() string           { return "run.parked" }
func (Ended) Type() string            { return "run.ended" }
func (Recovered) Type() string        { return "record.recovered" }
func (Note) Type() string             { return "note" }
