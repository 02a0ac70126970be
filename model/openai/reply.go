package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"metier/model"
	"metier/model/internal/wire"
)

const maxCalls = 256

// reply assembles a message from its chunks.
type reply struct {
	provider string
	names    *model.NameMap
	yield    func(model.Chunk, error) bool
	stopped  bool // the reader left
	model    string
	finish   string
	text     strings.Builder
	refusal  strings.Builder
	thought  strings.Builder
	calls    []*call
	extra    fields // of the message
	usage    wire.Object
}

// call is one tool call. more holds the fields other than id, name and arguments.
type call struct {
	index    string
	id, name string
	args     strings.Builder
	more     fields
	inside   fields // the same, in its function
	told     bool
}

func (r *reply) send(c model.Chunk) {
	if !r.stopped && !r.yield(c, nil) {
		r.stopped = true
	}
}

func (r *reply) chunk(raw json.RawMessage) error {
	var c struct {
		Model   string
		Choices []struct {
			Index        int
			Delta        wire.Object
			FinishReason *string `json:"finish_reason"`
		}
		Usage wire.Object
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return errors.New("a chunk has not the shape it should have")
	}
	if c.Model != "" {
		r.model = c.Model
	}
	if c.Usage != nil {
		r.usage = c.Usage
	}
	for _, ch := range c.Choices {
		if ch.Index != 0 {
			continue // one choice was asked for
		}
		if err := r.delta(ch.Delta); err != nil {
			return err
		}
		if ch.FinishReason != nil && *ch.FinishReason != "" {
			r.finish = *ch.FinishReason
		}
	}
	return nil
}

func (r *reply) delta(d wire.Object) error {
	shown := false
	for _, k := range []string{"reasoning_content", "reasoning"} { // some send the same under both names
		if s := d.String(k); s != "" && !shown {
			shown = true
			r.thought.WriteString(s)
			r.send(model.Chunk{Kind: model.ChunkReasoning, Text: s})
		}
	}
	for _, k := range []struct {
		field string
		to    *strings.Builder
	}{{"content", &r.text}, {"refusal", &r.refusal}} {
		if s := d.String(k.field); s != "" {
			k.to.WriteString(s)
			r.send(model.Chunk{Kind: model.ChunkText, Text: s})
		}
	}
	var calls []wire.Object
	if raw := d["tool_calls"]; len(raw) > 0 {
		if json.Unmarshal(raw, &calls) != nil {
			return errors.New("tool_calls is not a list")
		}
	}
	for _, c := range calls {
		if err := r.call(c); err != nil {
			return err
		}
	}
	for k, v := range d {
		switch k {
		case "role", "content", "refusal", "tool_calls", "annotations":
		default:
			r.extra.grow(k, v)
		}
	}
	return nil
}

// call adds a piece of a call. Pieces of parallel calls may be interleaved. If a server omits the
// index, a new id starts a new call.
func (r *reply) call(d wire.Object) error {
	index, id := string(d["index"]), d.String("id")
	var c *call
	if at := slices.IndexFunc(r.calls, func(c *call) bool { return index != "" && c.index == index }); at >= 0 {
		c = r.calls[at]
	} else if n := len(r.calls); index == "" && n > 0 && (id == "" || id == r.calls[n-1].id) {
		c = r.calls[n-1]
	}
	if c == nil {
		if len(r.calls) == maxCalls {
			return fmt.Errorf("the reply holds more than %d tool calls", maxCalls)
		}
		c = &call{index: index, more: fields{}, inside: fields{}}
		r.calls = append(r.calls, c)
	}
	if id != "" {
		c.id = id
	}
	f, _ := wire.Parse(d["function"])
	if n := f.String("name"); n != "" {
		c.name = n
	}
	c.args.WriteString(f.String("arguments"))
	for k, v := range d {
		if k != "index" && k != "id" && k != "type" && k != "function" {
			c.more.grow(k, v)
		}
	}
	for k, v := range f {
		if k != "name" && k != "arguments" {
			c.inside.grow(k, v)
		}
	}
	if c.name != "" && !c.told {
		c.told = true
		tool, _ := r.names.Ours(c.name)
		r.send(model.Chunk{Kind: model.ChunkCall, Tool: tool})
	}
	return nil
}

func (r *reply) done() model.Chunk {
	m := &model.Message{Role: model.RoleAssistant, Parts: []model.Part{}}
	if len(r.extra) > 0 || r.thought.Len() > 0 {
		p := model.Part{Kind: model.PartReasoning, Text: r.thought.String(), Provider: r.provider, Opaque: wire.Raw(r.extra.object())}
		if p.Text == "" {
			p.Kind = model.PartOpaque
		}
		m.Parts = append(m.Parts, p)
	}
	if s := r.text.String() + r.refusal.String(); s != "" {
		m.Parts = append(m.Parts, model.Text(s))
	}
	for i, c := range r.calls {
		tool, _ := r.names.Ours(c.name)
		if c.id == "" {
			c.id = "call_" + strconv.Itoa(i) // some local servers give none; the pair only has to match
		}
		p := model.Call(c.id, tool, c.args.String())
		if len(c.inside) > 0 {
			c.more["function"] = &field{raw: wire.Raw(c.inside.object())}
		}
		if len(c.more) > 0 {
			p.Provider, p.Opaque = r.provider, wire.Raw(c.more.object())
		}
		m.Parts = append(m.Parts, p)
	}
	return model.Chunk{Kind: model.ChunkDone, Message: m, Usage: r.tokens(), Stop: r.stop(), Model: r.model}
}

func (r *reply) stop() model.Stop {
	switch {
	case r.finish == "length":
		return model.StopLength
	case r.finish == "content_filter" || r.refusal.Len() > 0:
		return model.StopRefusal
	case len(r.calls) > 0:
		return model.StopTools
	case r.finish == "stop":
		return model.StopEnd
	}
	return model.StopOther
}

// tokens subtracts the cached tokens from the prompt, see model.Usage.
func (r *reply) tokens() model.Usage {
	u := model.Usage{}
	prompt, _ := r.usage.Tokens("prompt_tokens")
	u.Output, _ = r.usage.Tokens("completion_tokens")
	read, ok := r.usage.Tokens("prompt_tokens_details", "cached_tokens")
	if !ok {
		read, _ = r.usage.Tokens("prompt_cache_hit_tokens")
	}
	written, _ := r.usage.Tokens("prompt_tokens_details", "cache_write_tokens")
	u.CacheRead = min(read, prompt)
	u.CacheWrite = min(written, prompt-u.CacheRead)
	u.Input = prompt - u.CacheRead - u.CacheWrite
	var cost float64
	if raw := r.usage["cost"]; len(raw) > 0 && json.Unmarshal(raw, &cost) == nil && string(raw) != "null" {
		u.CostUSD = &cost
	}
	return u
}
