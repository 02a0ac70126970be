package gemini

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"metier/model"
	"metier/model/internal/wire"
)

const maxParts = 4096

// reply assembles a message from its events, each of which has complete parts.
type reply struct {
	names   *model.NameMap
	yield   func(model.Chunk, error) bool
	stopped bool // the reader left
	model   string
	finish  string
	blocked string
	parts   []model.Part
	run     *strings.Builder // the text of the last part, where that grows
	usage   wire.Object
}

func (r *reply) send(c model.Chunk) {
	if !r.stopped && !r.yield(c, nil) {
		r.stopped = true
	}
}

func (r *reply) event(raw json.RawMessage) error {
	var e struct {
		Candidates []struct {
			Index   int
			Content struct {
				Parts []wire.Object
			}
			FinishReason string
		}
		PromptFeedback struct{ BlockReason string }
		UsageMetadata  wire.Object
		ModelVersion   string
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return errors.New("an event has not the shape it should have")
	}
	if e.ModelVersion != "" {
		r.model = e.ModelVersion
	}
	if e.UsageMetadata != nil {
		r.usage = e.UsageMetadata
	}
	if e.PromptFeedback.BlockReason != "" {
		r.blocked = e.PromptFeedback.BlockReason
	}
	for _, c := range e.Candidates {
		if c.Index != 0 {
			continue // one candidate was asked for
		}
		for _, p := range c.Content.Parts {
			r.part(p)
		}
		if c.FinishReason != "" {
			r.finish = c.FinishReason
		}
	}
	if len(r.parts) > maxParts {
		return fmt.Errorf("the reply holds more than %d parts", maxParts)
	}
	return nil
}

// part adds one part. Plain text parts are merged. A part with a signature or unknown fields is
// kept as is, because the API checks that it comes back separate and unchanged.
func (r *reply) part(o wire.Object) {
	text, thought := o.String("text"), string(o["thought"]) == "true"
	plain := true
	for k := range o {
		plain = plain && slices.Contains([]string{"text", "thought"}, k)
	}
	if raw, ok := o["functionCall"]; ok {
		r.call(o, raw)
		return
	}
	kind, chunk := model.PartText, model.ChunkText
	if thought {
		kind, chunk = model.PartReasoning, model.ChunkReasoning
	}
	if text != "" {
		r.send(model.Chunk{Kind: chunk, Text: text})
	}
	if plain {
		if n := len(r.parts); n > 0 && r.parts[n-1].Kind == kind && r.parts[n-1].Opaque == nil {
			r.run.WriteString(text)
			r.parts[n-1].Text = r.run.String() // nothing is copied
		} else if text != "" {
			r.run = &strings.Builder{}
			r.run.WriteString(text)
			r.parts = append(r.parts, model.Part{Kind: kind, Text: text})
		}
		return
	}
	if text == "" {
		kind = model.PartOpaque
	}
	r.parts = append(r.parts, model.Part{Kind: kind, Text: text, Provider: provider, Opaque: wire.Raw(o)})
}

func (r *reply) call(o wire.Object, raw json.RawMessage) {
	call, _ := wire.Parse(raw)
	tool, _ := r.names.Ours(call.String("name"))
	p := model.Call(call.String("id"), tool, string(call["args"]))
	more := len(o) > 1
	for k := range call {
		more = more || !slices.Contains([]string{"id", "name", "args"}, k)
	}
	if more {
		delete(call, "args")
		o["functionCall"] = wire.Raw(call)
		p.Provider, p.Opaque = provider, wire.Raw(o)
	}
	r.parts = append(r.parts, p)
	r.send(model.Chunk{Kind: model.ChunkCall, Tool: tool})
}

func (r *reply) done() model.Chunk {
	m := &model.Message{Role: model.RoleAssistant, Parts: r.parts}
	if m.Parts == nil {
		m.Parts = []model.Part{}
	}
	prompt, _ := r.usage.Tokens("promptTokenCount")
	tools, _ := r.usage.Tokens("toolUsePromptTokenCount")
	cached, _ := r.usage.Tokens("cachedContentTokenCount")
	out, _ := r.usage.Tokens("candidatesTokenCount")
	thoughts, _ := r.usage.Tokens("thoughtsTokenCount")
	cached = min(cached, prompt)
	return model.Chunk{Kind: model.ChunkDone, Message: m, Model: r.model, Stop: r.stop(len(m.Calls()) > 0),
		Usage: model.Usage{Input: prompt + tools - cached, Output: out + thoughts, CacheRead: cached}}
}

func (r *reply) stop(calls bool) model.Stop {
	switch r.finish {
	case "MAX_TOKENS":
		return model.StopLength
	case "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE", "IMAGE_SAFETY":
		return model.StopRefusal
	}
	switch {
	case calls:
		return model.StopTools
	case r.finish == "STOP":
		return model.StopEnd
	}
	return model.StopOther
}
