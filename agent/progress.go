package agent

import (
	"encoding/json"
	"time"

	"metier/event"
)

// ProgressKind is what a Progress tells.
type ProgressKind string

// The kinds of progress.
const (
	TurnBegan  ProgressKind = "turn"      // Turn
	Texted     ProgressKind = "text"      // Text: the next piece of the answer
	Reasoned   ProgressKind = "reasoning" // Text: the next piece of visible reasoning
	CallNamed  ProgressKind = "call"      // Tool: the model begins to write a call
	CallBegan  ProgressKind = "started"   // Call, Tool, Args
	CallEnded  ProgressKind = "returned"  // Call, Tool, Code
	SkillBegan ProgressKind = "skill"     // Skill: its instructions are in force now
	Retried    ProgressKind = "retry"     // Code, Wait
	Compacting ProgressKind = "compact"   // older messages are being summarized
	Asking     ProgressKind = "ask"       // Call, Text
	Tokens     ProgressKind = "tokens"    // Usage so far
	RunEnded   ProgressKind = "ended"     // Text: the status, Code
)

// Progress is one thing that happened, for people who watch.
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
