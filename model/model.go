package model

import (
	"context"
	"encoding/json"
	"iter"
)

// ToolSpec describes a tool to the model. Name is metier's name and may contain dots, which
// adapters encode, see WireNames. Schema is the JSON schema of an object. Nil means no arguments.
type ToolSpec struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema,omitempty"`
}

// Request is one model call.
type Request struct {
	System    string          `json:"system,omitempty"`
	Messages  []Message       `json:"messages"`
	Tools     []ToolSpec      `json:"tools,omitempty"`
	MaxTokens int             `json:"maxTokens,omitempty"` // of the reply; 0: adapter default
	Output    json.RawMessage `json:"output,omitempty"`    // JSON schema of the final answer, or nil
}

// ChunkKind is the kind of a Chunk.
type ChunkKind string

// The kinds of chunks.
const (
	ChunkText      ChunkKind = "text"      // Text: the next piece of the answer
	ChunkReasoning ChunkKind = "reasoning" // Text: the next piece of visible reasoning
	ChunkCall      ChunkKind = "call"      // Tool: a call begins; its arguments come with the done chunk
	ChunkDone      ChunkKind = "done"      // Message, Usage, Stop, Model
)

// Chunk is one piece of a streamed reply.
type Chunk struct {
	Kind    ChunkKind `json:"kind"`
	Text    string    `json:"text,omitempty"`
	Tool    string    `json:"tool,omitempty"`
	Message *Message  `json:"message,omitempty"`
	Usage   Usage     `json:"usage,omitzero"`
	Stop    Stop      `json:"stop,omitempty"`
	Model   string    `json:"model,omitempty"` // the model that answered, as the provider names it
}

// Stop is why a reply ended.
type Stop string

// The stop reasons. A reply with calls has StopTools, unless it was cut off by StopLength or
// refused.
const (
	StopEnd      Stop = "end"
	StopTools    Stop = "tools"
	StopLength   Stop = "length"
	StopRefusal  Stop = "refusal"
	StopSequence Stop = "stop_sequence"
	StopOther    Stop = "other"
)

// Model streams one reply: any number of delta chunks, then either one done chunk with the complete
// Message or an error (*Error). A stream that ends without a done chunk is an error with the code
// model_cut. Nothing follows an error or the done chunk. Leaving the loop early or canceling the
// context ends the request and closes its connection. Implementations are safe for concurrent use,
// do not retry, and neither modify nor retain the request.
type Model interface {
	Stream(ctx context.Context, r Request) iter.Seq2[Chunk, error]
}

// Collect reads a stream to its end and returns the content of the done chunk. If there is none,
// the error is an *Error with CodeCut.
func Collect(seq iter.Seq2[Chunk, error]) (Message, Usage, Stop, error) {
	for c, err := range seq {
		if err != nil {
			return Message{}, Usage{}, "", err
		}
		if c.Kind != ChunkDone {
			continue
		}
		if c.Message == nil {
			return Message{}, c.Usage, c.Stop, &Error{Code: CodeBadReply, Message: "the reply ended without a message"}
		}
		return *c.Message, c.Usage, c.Stop, nil
	}
	return Message{}, Usage{}, "", &Error{Code: CodeCut, Message: "the stream ended before the reply was complete"}
}
