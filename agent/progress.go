package agent

import (
	"encoding/json"
	"time"

	"metier/event"
)

// ProgressKind is the kind of a [Progress].
type ProgressKind string

// The kinds of progress.
const (
	TurnStart         ProgressKind = "turn"      // Turn
	TextDelta         ProgressKind = "text"      // Text: the next piece of the answer
	ReasoningDelta    ProgressKind = "reasoning" // Text: the next piece of visible reasoning
	ToolCallStart     ProgressKind = "call"      // Tool: the model starts to write a call
	ToolCallRunning   ProgressKind = "started"   // Call, Tool, Args
	ToolResult        ProgressKind = "returned"  // Call, Tool, Code
	SkillActivated    ProgressKind = "skill"     // Skill: its instructions are in force now
	ModelRetry        ProgressKind = "retry"     // Code, Wait
	Compacting        ProgressKind = "compact"   // older messages are being summarized
	ApprovalRequested ProgressKind = "ask"       // Call, Text
	TokenUsage        ProgressKind = "tokens"    // Usage so far
	OutputInvalid     ProgressKind = "output"    // Code: the answer does not match the schema
	RunEnded          ProgressKind = "ended"     // Text: the status, Code
)

// Progress is one event of a run, for display.
type Progress struct {
	Kind  ProgressKind
	Turn  int
	Call  string
	Tool  string
	Args  json.RawMessage
	Text  string
	Code  string
	Skill string
	Wait  time.Duration
	Usage event.Usage
}
