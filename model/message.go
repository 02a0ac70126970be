package model

import (
	"encoding/json"
	"strings"
)

// Role is the author of a message. The system prompt is separate, in Request.System.
type Role string

// The roles. A tool message holds only result parts. It follows the assistant message whose calls
// it answers.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// PartKind is the kind of a Part.
type PartKind string

// The kinds of parts.
const (
	PartText      PartKind = "text"
	PartCall      PartKind = "call"
	PartResult    PartKind = "result"
	PartReasoning PartKind = "reasoning"
	PartOpaque    PartKind = "opaque"
	PartImage     PartKind = "image"
)

// Part is one piece of a message.
type Part struct {
	Kind     PartKind        `json:"kind"`
	Text     string          `json:"text,omitempty"`     // text, reasoning; result: what the model reads; call with bad JSON: the raw text
	Call     string          `json:"call,omitempty"`     // call, result: our id of the call ("t3.c1"); set by the driver
	WireID   string          `json:"wireId,omitempty"`   // call, result: the provider's id, verbatim; may be empty (gemini)
	Tool     string          `json:"tool,omitempty"`     // call, result: our tool name
	Args     json.RawMessage `json:"args,omitempty"`     // call: valid JSON, else nil with Text set
	Error    bool            `json:"error,omitempty"`    // result: the call failed
	Media    string          `json:"media,omitempty"`    // image
	Data     []byte          `json:"data,omitempty"`     // image
	Provider string          `json:"provider,omitempty"` // adapter that made Opaque
	Opaque   json.RawMessage `json:"opaque,omitempty"`   // the provider's own block, verbatim; sent back only to that provider
}

// Text returns a text part.
func Text(s string) Part { return Part{Kind: PartText, Text: s} }

// deepest is the maximum nesting depth of a call's arguments.
const deepest = 100

// Call returns a call part from the arguments as the provider sent them. Missing arguments become
// an empty object. If they are invalid JSON or nested more than 100 deep, they are kept in Text and
// Args is nil, so that the caller can report it to the model.
func Call(wireID, tool, raw string) Part {
	p := Part{Kind: PartCall, WireID: wireID, Tool: tool}
	switch {
	case strings.TrimSpace(raw) == "":
		p.Args = json.RawMessage("{}")
	case json.Valid([]byte(raw)) && depth(raw) <= deepest:
		p.Args = json.RawMessage(raw)
	default:
		p.Text = raw
	}
	return p
}

// depth returns the nesting depth of valid JSON.
func depth(valid string) (most int) {
	now, quoted := 0, false
	for i := 0; i < len(valid); i++ {
		switch c := valid[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			now++
			most = max(most, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return most
}

// Result returns the result part for a call.
func Result(call Part, text string, failed bool) Part {
	return Part{Kind: PartResult, Call: call.Call, WireID: call.WireID, Tool: call.Tool, Text: text, Error: failed}
}

// Message is one turn of a conversation.
type Message struct {
	Role  Role   `json:"role"`
	Parts []Part `json:"parts"`
}

// UserText returns a user message with one text part.
func UserText(s string) Message { return Message{Role: RoleUser, Parts: []Part{Text(s)}} }

// Text joins the text parts. Reasoning is left out.
func (m Message) Text() string {
	var b strings.Builder
	for _, p := range m.Parts {
		if p.Kind == PartText {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

// Calls returns the call parts in the model's order.
func (m Message) Calls() []Part {
	var calls []Part
	for _, p := range m.Parts {
		if p.Kind == PartCall {
			calls = append(calls, p)
		}
	}
	return calls
}
