package event

import (
	"strings"

	"metier/record"
)

// RunStarted starts a run of the agent on this log. Rules is the version of the
// step machine; a run keeps the version it started with.
type RunStarted struct {
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

// RunLimited changes the limits of a run that was resumed with other limits. Zero
// keeps a limit.
type RunLimited struct {
	Run       string `json:"run"`
	MaxTurns  int    `json:"maxTurns,omitempty"`
	MaxTokens int64  `json:"maxTokens,omitempty"`
}

// RunResumed records that a run was resumed, and how its skills compare with the
// record.
type RunResumed struct {
	Run      string `json:"run"`
	Registry string `json:"registry"` // digest of the recorded registry that was loaded
	Active   int    `json:"active"`   // recorded activations that were loaded
	Verified int    `json:"verified"` // skills whose digest is as recorded
	Drifted  int    `json:"drifted"`
	OnDrift  string `json:"onDrift"`
	// Lease is the browser session if a new one was granted. It replaces the one in
	// the launch; empty keeps that.
	Lease record.Ref `json:"lease,omitzero"`
}

// ToolsOffered records what the model sees from the next turn: Tools is the blob of
// []model.ToolSpec, System of the system prompt, and Catalog of the catalog's text,
// empty without a catalog.
type ToolsOffered struct {
	Digest  string     `json:"digest"`
	Names   []string   `json:"names"`
	Tools   record.Ref `json:"tools"`
	System  record.Ref `json:"system"`
	Catalog record.Ref `json:"catalog"`
	Omitted int        `json:"omitted,omitempty"`
}

// ModelStarted claims a model call or a compaction: it is in the log before the
// request is sent. Request is the digest of the list of what is sent: offer,
// skills, and messages, each by the digest of its content.
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
	// Child reports that the call starts a subagent run instead of a tool.
	Child bool `json:"child,omitempty"`
}

// Usage counts tokens. CostMicroUSD is in millionths of a dollar, and nil if no
// price is known.
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

// ModelReplied is a complete reply. Message is the blob of the model.Message, with
// opaque parts unchanged.
type ModelReplied struct {
	ID      string     `json:"id"`
	Message record.Ref `json:"message"`
	Calls   []CallRef  `json:"calls,omitempty"`
	Usage   Usage      `json:"usage"`
	Stop    string     `json:"stop"`
	Model   string     `json:"model"`
}

// ModelFailed is a model call without a reply. If Retry is set, another attempt
// follows after WaitMS milliseconds.
type ModelFailed struct {
	ID     string     `json:"id"`
	Try    int        `json:"try"`
	Code   string     `json:"code"`
	Status int        `json:"status,omitempty"`
	Retry  bool       `json:"retry"`
	WaitMS int64      `json:"waitMs,omitempty"`
	Detail record.Ref `json:"detail"`
}

// ContextCompacted replaces the messages before Upto with a summary.
type ContextCompacted struct {
	ID      string     `json:"id"`
	Upto    int        `json:"upto"`
	Summary record.Ref `json:"summary"` // blob of a model.Message
	Usage   Usage      `json:"usage"`
}

// OutputChecked records whether a final answer matches the run's schema. If it does,
// Code is empty and Output is the blob of the structured result. Otherwise Errors is
// the blob of a model.Message that describes the errors to the model.
type OutputChecked struct {
	ID     string     `json:"id"`
	Code   string     `json:"code,omitempty"`
	Output record.Ref `json:"output"`
	Errors record.Ref `json:"errors"`
}

// ChildEnded binds a child's chain by its head, and counts what the child used. It is
// appended with the ToolResult that ends the call of the child.
type ChildEnded struct {
	ID    string      `json:"id"`             // of the call
	Run   string      `json:"run"`            // name of the child's folder below children/
	Code  string      `json:"code,omitempty"` // why it failed, one of a closed set
	Head  record.Head `json:"head"`
	Usage Usage       `json:"usage"`
	// Denied counts the denied calls of the child and of its own children.
	Denied []Denial `json:"denied,omitempty"`
	// Served are the skills of MCP servers of which a model of the child, or of its own children,
	// read anything.
	Served []SkillRef `json:"served,omitempty"`
}

// Denial counts the calls of a tool that were denied for one reason.
type Denial struct {
	Tool  string `json:"tool"`
	Code  string `json:"code"`
	Count int    `json:"count"`
}

// ChildName is the folder name of the child that a call starts. Call IDs that a
// driver assigns contain no other characters.
func ChildName(call string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '_'
	}, call)
}

// RunStopped asks the run or the turn to end, because of a cancel, a deadline, or a
// budget.
type RunStopped struct {
	Scope  string     `json:"scope"`  // turn, run
	Reason string     `json:"reason"` // a code
	By     string     `json:"by,omitempty"`
	Detail record.Ref `json:"detail,omitzero"` // text about it
}

// RunWaiting records that only open questions are left, so that the process may exit.
type RunWaiting struct {
	Run  string   `json:"run"`
	Asks []string `json:"asks"`
}

// RunEnded ends the run. Status is done, failed, cancelled, or denied. Code is the
// reason if it is not done.
type RunEnded struct {
	Run    string     `json:"run"`
	Status string     `json:"status"`
	Code   string     `json:"code,omitempty"`
	Answer record.Ref `json:"answer"` // the final text
	Output record.Ref `json:"output"` // the structured result, when a schema was given
}

// RecordRecovered records that the log lost its end in a crash and continued: Bytes
// were cut off after Seq. LostID and LostType name the lost entry according to the
// recorded heads.
type RecordRecovered struct {
	Seq      uint64 `json:"seq"`
	Bytes    int    `json:"bytes"`
	Digest   string `json:"digest"`
	LostID   string `json:"lostId,omitempty"`
	LostType string `json:"lostType,omitempty"`
	// LostSeq is that entry's number, or 0 if unknown. If it is Seq+1, no other entry
	// was lost. Otherwise, entries in between may be lost.
	LostSeq uint64 `json:"lostSeq,omitempty"`
	// Unanchored is the number of whole entries that were set aside because no
	// recorded head covers them. Kept is the file in the run folder that contains
	// them.
	Unanchored int    `json:"unanchored,omitempty"`
	Kept       string `json:"kept,omitempty"`
}

func (SessionOpened) Type() string     { return "session.opened" }
func (SessionEnded) Type() string      { return "session.ended" }
func (SkillsDiscovered) Type() string  { return "skill.discovered" }
func (ResourcesIndexed) Type() string  { return "skill.resources_indexed" }
func (Input) Type() string             { return "input.said" }
func (PolicyDecided) Type() string     { return "policy.decided" }
func (ApprovalRequested) Type() string { return "approval.asked" }
func (ApprovalAnswered) Type() string  { return "approval.answered" }
func (ApprovalExpired) Type() string   { return "approval.expired" }
func (ToolCallStarted) Type() string   { return "call.started" }
func (ToolResult) Type() string        { return "call.returned" }
func (ToolCallLost) Type() string      { return "op.lost" }
func (SkillActivated) Type() string    { return "skill.activated" }
func (ResourceRead) Type() string      { return "skill.resource_read" }
func (FileRead) Type() string          { return "skill.file_read" }
func (SkillDrifted) Type() string      { return "skill.drifted" }
func (SkillSuspected) Type() string    { return "skill.suspected" }
func (CatalogSent) Type() string       { return "skill.catalog" }
func (RunStarted) Type() string        { return "run.begun" }
func (RunLimited) Type() string        { return "run.limited" }
func (RunResumed) Type() string        { return "run.resumed" }
func (ToolsOffered) Type() string      { return "tools.offered" }
func (ModelStarted) Type() string      { return "model.started" }
func (ModelReplied) Type() string      { return "model.replied" }
func (ModelFailed) Type() string       { return "model.failed" }
func (ContextCompacted) Type() string  { return "context.compacted" }
func (OutputChecked) Type() string     { return "output.checked" }
func (ChildEnded) Type() string        { return "child.ended" }
func (RunStopped) Type() string        { return "run.stopped" }
func (RunWaiting) Type() string        { return "run.parked" }
func (RunEnded) Type() string          { return "run.ended" }
func (RecordRecovered) Type() string   { return "record.recovered" }
func (Note) Type() string              { return "note" }
