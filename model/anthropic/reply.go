package anthropic

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"metier/model"
	"metier/model/internal/wire"
)

const maxBlocks = 4096

// reply assembles a message from its events. Blocks may be interleaved and are identified by index.
type reply struct {
	names   *model.NameMap
	yield   func(model.Chunk, error) bool
	stopped bool // the reader left
	model   string
	stop    string
	usage   wire.Object
	blocks  []*content
}

// content is one block: its start, and what its deltas added.
type content struct {
	start   wire.Object
	kind    string
	text    strings.Builder // text, thinking or partial JSON
	sign    strings.Builder
	cites   []json.RawMessage
	closed  bool
	touched bool
}

func (r *reply) send(c model.Chunk) {
	if !r.stopped && !r.yield(c, nil) {
		r.stopped = true
	}
}

func (r *reply) event(raw json.RawMessage) (done bool, err error) {
	var e struct {
		Type         string
		Index        int
		Message      wire.Object
		ContentBlock wire.Object `json:"content_block"`
		Delta        json.RawMessage
		Usage        wire.Object
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return false, errors.New("an event has not the shape it should have")
	}
	switch e.Type {
	case "message_start":
		r.model = e.Message.String("model")
		r.usage, _ = wire.Parse(e.Message["usage"])
	case "content_block_start":
		if e.Index != len(r.blocks) || e.Index >= maxBlocks {
			return false, fmt.Errorf("content block %d begins where %d is due", e.Index, len(r.blocks))
		}
		if e.ContentBlock.String("type") == "" {
			return false, fmt.Errorf("content block %d has no type", e.Index)
		}
		r.begin(e.ContentBlock)
	case "content_block_delta":
		if e.Index < 0 || e.Index >= len(r.blocks) || r.blocks[e.Index].closed {
			return false, fmt.Errorf("a delta for content block %d, which is not open", e.Index)
		}
		return false, r.delta(r.blocks[e.Index], e.Delta)
	case "content_block_stop":
		if e.Index >= 0 && e.Index < len(r.blocks) {
			r.blocks[e.Index].closed = true
		}
	case "message_delta":
		if d, ok := wire.Parse(e.Delta); ok {
			r.stop = d.String("stop_reason")
		}
		if r.usage == nil {
			r.usage = wire.Object{}
		}
		for k, v := range e.Usage {
			if string(v) != "null" {
				r.usage[k] = v
			}
		}
	case "message_stop":
		for i, b := range r.blocks {
			if !b.closed {
				return false, fmt.Errorf("content block %d was not closed", i)
			}
		}
		return true, nil
	}
	return false, nil // ping, and events of tomorrow, which the API asks to pass over
}

func (r *reply) begin(start wire.Object) {
	b := &content{start: start, kind: start.String("type")}
	r.blocks = append(r.blocks, b)
	switch b.kind {
	case "tool_use":
		name, _ := r.names.Ours(start.String("name"))
		r.send(model.Chunk{Kind: model.ChunkCall, Tool: name})
	case "text":
		b.add(r, model.ChunkText, start.String("text"))
	case "thinking":
		b.add(r, model.ChunkReasoning, start.String("thinking"))
		b.sign.WriteString(start.String("signature"))
	}
}

func (b *content) add(r *reply, kind model.ChunkKind, s string) {
	if s == "" {
		return
	}
	b.text.WriteString(s)
	r.send(model.Chunk{Kind: kind, Text: s})
}

func (r *reply) delta(b *content, raw json.RawMessage) error {
	var d struct {
		Type, Text, Thinking, Signature string
		PartialJSON                     string `json:"partial_json"`
		Citation                        json.RawMessage
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		return errors.New("a delta has not the shape it should have")
	}
	b.touched = true
	switch d.Type {
	case "text_delta":
		b.add(r, model.ChunkText, d.Text)
	case "thinking_delta":
		b.add(r, model.ChunkReasoning, d.Thinking)
	case "signature_delta":
		b.sign.WriteString(d.Signature)
	case "input_json_delta":
		b.text.WriteString(d.PartialJSON)
	case "citations_delta":
		b.cites = append(b.cites, d.Citation)
	default:
		return fmt.Errorf("a delta of unknown type %.40q: its block could not be sent back", d.Type)
	}
	return nil
}

// part returns the finished block as a part.
func (b *content) part(names *model.NameMap) model.Part {
	switch b.kind {
	case "text":
		p := model.Text(b.text.String())
		if len(b.cites) > 0 || b.more("type", "text") {
			b.start["text"] = wire.Raw(p.Text)
			if len(b.cites) > 0 {
				b.start["citations"] = wire.Raw(b.cites)
			}
			p.Provider, p.Opaque = provider, wire.Raw(b.start)
		}
		return p
	case "thinking":
		b.start["thinking"], b.start["signature"] = wire.Raw(b.text.String()), wire.Raw(b.sign.String())
		return model.Part{Kind: model.PartReasoning, Text: b.text.String(), Provider: provider, Opaque: wire.Raw(b.start)}
	case "tool_use":
		raw := b.text.String()
		if !b.touched || raw == "" {
			raw = string(b.start["input"])
		}
		tool, _ := names.Ours(b.start.String("name"))
		p := model.Call(b.start.String("id"), tool, raw)
		if b.more("type", "id", "name", "input") {
			delete(b.start, "input")
			p.Provider, p.Opaque = provider, wire.Raw(b.start)
		}
		return p
	}
	if b.touched && b.text.Len() > 0 { // a server tool's input came in pieces
		b.start["input"] = json.RawMessage(b.text.String())
	}
	return model.Part{Kind: model.PartOpaque, Provider: provider, Opaque: wire.Raw(b.start)}
}

// more reports whether the block has fields other than the known ones.
func (b *content) more(known ...string) bool {
	for k, v := range b.start {
		if !slices.Contains(known, k) && string(v) != "null" {
			return true
		}
	}
	return false
}

func (r *reply) done() model.Chunk {
	m := &model.Message{Role: model.RoleAssistant, Parts: []model.Part{}}
	calls := false
	for _, b := range r.blocks {
		p := b.part(r.names)
		if p.Kind == model.PartText && p.Text == "" {
			continue // it could not be sent back
		}
		calls = calls || p.Kind == model.PartCall
		m.Parts = append(m.Parts, p)
	}
	u := model.Usage{}
	u.Input, _ = r.usage.Tokens("input_tokens")
	u.Output, _ = r.usage.Tokens("output_tokens")
	u.CacheRead, _ = r.usage.Tokens("cache_read_input_tokens")
	u.CacheWrite, _ = r.usage.Tokens("cache_creation_input_tokens")
	return model.Chunk{Kind: model.ChunkDone, Message: m, Usage: u, Stop: stopReason(r.stop, calls), Model: r.model}
}

func stopReason(s string, calls bool) model.Stop {
	switch s {
	case "max_tokens", "model_context_window_exceeded":
		return model.StopLength
	case "refusal":
		return model.StopRefusal
	}
	switch {
	case calls:
		return model.StopTools
	case s == "end_turn":
		return model.StopEnd
	case s == "stop_sequence":
		return model.StopSequence
	}
	return model.StopOther
}
