package openai

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"metier/model"
	"metier/model/internal/wire"
)

type object = map[string]any

func (a *adapter) body(r model.Request, names *model.NameMap) json.RawMessage {
	b := object{
		"model":          a.name,
		"messages":       a.messages(r, names),
		"stream":         true,
		"stream_options": object{"include_usage": true},
	}
	if n := r.MaxTokens; n > 0 {
		b[a.maxField] = n
	}
	if len(r.Tools) > 0 {
		tools := make([]object, len(r.Tools))
		for i, t := range r.Tools {
			tools[i] = object{"type": "function", "function": object{
				"name": names.Wire(t.Name), "description": t.Description, "parameters": wire.Schema(t.Schema)}}
		}
		b["tools"] = tools
	}
	if len(r.Output) > 0 {
		b["response_format"] = object{"type": "json_schema", "json_schema": object{"name": "answer", "schema": r.Output}}
	}
	return wire.Raw(b)
}

func (a *adapter) messages(r model.Request, names *model.NameMap) []object {
	out := []object{}
	if r.System != "" {
		out = append(out, object{"role": "system", "content": r.System})
	}
	for _, m := range r.Messages {
		switch m.Role {
		case model.RoleAssistant:
			if o := a.assistant(m, names); o != nil {
				out = append(out, o)
			}
		default:
			for _, p := range m.Parts {
				if p.Kind == model.PartResult {
					out = append(out, object{"role": "tool", "tool_call_id": wire.ID(p), "content": resultText(p)})
				}
			}
			if c := userContent(m); c != nil {
				out = append(out, object{"role": "user", "content": c})
			}
		}
	}
	return out
}

func resultText(p model.Part) string {
	if p.Error && !strings.HasPrefix(strings.ToLower(p.Text), "error") {
		return strings.TrimSpace("Error: " + p.Text)
	}
	return p.Text
}

// userContent returns a string if possible, because not every server accepts parts.
func userContent(m model.Message) any {
	var parts []object
	images := false
	for _, p := range m.Parts {
		switch p.Kind {
		case model.PartText:
			if p.Text != "" {
				parts = append(parts, object{"type": "text", "text": p.Text})
			}
		case model.PartImage:
			images = true
			url := "data:" + p.Media + ";base64," + base64.StdEncoding.EncodeToString(p.Data)
			parts = append(parts, object{"type": "image_url", "image_url": object{"url": url}})
		}
	}
	switch {
	case len(parts) == 0:
		return nil
	case len(parts) == 1 && !images:
		return parts[0]["text"]
	}
	return parts
}

func (a *adapter) assistant(m model.Message, names *model.NameMap) object {
	o := object{}
	var calls []object
	for _, p := range m.Parts {
		own, mine := wire.Parse(p.Opaque)
		mine = mine && p.Provider == a.provider
		switch p.Kind {
		case model.PartReasoning, model.PartOpaque, model.PartText:
			if mine {
				for k, v := range own {
					o[k] = v
				}
			}
		case model.PartCall:
			call, function := object{"type": "function"}, object{}
			if mine {
				for k, v := range own {
					call[k] = v
				}
				if f, ok := wire.Parse(own["function"]); ok {
					for k, v := range f {
						function[k] = v
					}
				}
			}
			function["name"], function["arguments"] = names.Wire(p.Tool), string(wire.Args(p))
			call["id"], call["function"] = wire.ID(p), function
			calls = append(calls, call)
		}
	}
	text := m.Text()
	if text == "" && len(calls) == 0 {
		return nil
	}
	o["role"] = "assistant"
	o["content"] = text
	if text == "" {
		o["content"] = nil
	}
	if len(calls) > 0 {
		o["tool_calls"] = calls
	}
	return o
}
