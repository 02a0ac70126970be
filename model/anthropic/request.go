package anthropic

import (
	"encoding/json"

	"metier/model"
	"metier/model/internal/wire"
)

type object = map[string]any

var ephemeral = object{"type": "ephemeral"}

// body returns the request. The cache depends on the order of blocks, which is fixed, and not on
// the order of fields.
func (a *adapter) body(r model.Request, names *model.NameMap) json.RawMessage {
	b := object{"model": a.name, "max_tokens": defaultMaxTokens, "messages": messages(r.Messages, names), "stream": true}
	if r.MaxTokens > 0 {
		b["max_tokens"] = r.MaxTokens
	}
	if r.System != "" {
		b["system"] = []object{{"type": "text", "text": r.System, "cache_control": ephemeral}}
	}
	if len(r.Tools) > 0 {
		tools := make([]object, len(r.Tools))
		for i, t := range r.Tools {
			tools[i] = object{"name": names.Wire(t.Name), "description": t.Description, "input_schema": wire.Schema(t.Schema)}
		}
		tools[len(tools)-1]["cache_control"] = ephemeral
		b["tools"] = tools
	}
	if len(r.Output) > 0 {
		b["output_config"] = object{"format": object{"type": "json_schema", "schema": wire.Closed(r.Output)}}
	}
	return wire.Raw(b)
}

type turn struct {
	Role    string   `json:"role"`
	Content []object `json:"content"`
}

// messages builds alternating turns. Results come first in a user turn, as the API requires. Empty
// texts, which the API rejects, are dropped.
func messages(in []model.Message, names *model.NameMap) []turn {
	turns := []turn{}
	for _, m := range in {
		role := "user"
		if m.Role == model.RoleAssistant {
			role = "assistant"
		}
		var results, rest []object
		for _, p := range m.Parts {
			switch b := block(p, names); {
			case b == nil:
			case p.Kind == model.PartResult:
				results = append(results, b)
			default:
				rest = append(rest, b)
			}
		}
		if len(results)+len(rest) == 0 {
			continue
		}
		if n := len(turns); n == 0 || turns[n-1].Role != role {
			turns = append(turns, turn{Role: role})
		}
		t := &turns[len(turns)-1]
		t.Content = insertResults(t.Content, results)
		t.Content = append(t.Content, rest...)
	}
	marks := 2
	for i := len(turns) - 1; i >= 0 && marks > 0; i-- {
		if t := turns[i]; t.Role == "user" {
			t.Content[len(t.Content)-1]["cache_control"] = ephemeral
			marks--
		}
	}
	return turns
}

func insertResults(content, results []object) []object {
	at := 0
	for at < len(content) && content[at]["type"] == "tool_result" {
		at++
	}
	out := append([]object{}, content[:at]...)
	return append(append(out, results...), content[at:]...)
}

func block(p model.Part, names *model.NameMap) object {
	own := object(nil)
	if p.Provider == provider && len(p.Opaque) > 0 {
		if o, ok := wire.Parse(p.Opaque); ok {
			own = object{}
			for k, v := range o {
				own[k] = v
			}
		}
	}
	switch p.Kind {
	case model.PartText:
		if own != nil {
			return own
		}
		if p.Text == "" {
			return nil
		}
		return object{"type": "text", "text": p.Text}
	case model.PartReasoning, model.PartOpaque:
		return own // another provider's reasoning means nothing here
	case model.PartCall:
		if own == nil {
			own = object{"type": "tool_use"}
		}
		own["id"], own["name"], own["input"] = wire.ID(p), names.Wire(p.Tool), wire.Args(p)
		return own
	case model.PartResult:
		b := object{"type": "tool_result", "tool_use_id": wire.ID(p)}
		if p.Text != "" {
			b["content"] = []object{{"type": "text", "text": p.Text}}
		}
		if p.Error {
			b["is_error"] = true
			if p.Text == "" {
				b["content"] = []object{{"type": "text", "text": "failed"}} // an error must say something
			}
		}
		return b
	case model.PartImage:
		return object{"type": "image", "source": object{"type": "base64", "media_type": p.Media, "data": p.Data}}
	}
	return nil
}
