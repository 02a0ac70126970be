package gemini

import (
	"encoding/json"
	"strings"

	"metier/model"
	"metier/model/internal/wire"
)

type object = map[string]any

func (a *adapter) body(r model.Request, names *model.NameMap) object {
	b := object{"contents": contents(r.Messages, names)}
	generation := object{}
	if n := r.MaxTokens; n > 0 {
		generation["maxOutputTokens"] = n
	}
	system := r.System
	if len(r.Output) > 0 {
		if len(r.Tools) > 0 && a.old() {
			system = strings.TrimSpace(system + "\n\nYour final answer must be one JSON document, without any other text, that fits this schema:\n" + string(r.Output))
		} else {
			generation["responseMimeType"] = "application/json"
			generation["responseJsonSchema"] = r.Output
		}
	}
	if system != "" {
		b["systemInstruction"] = object{"parts": []object{{"text": system}}}
	}
	if len(r.Tools) > 0 {
		declared := make([]object, len(r.Tools))
		for i, t := range r.Tools {
			declared[i] = object{"name": names.Wire(t.Name), "description": t.Description}
			if hasProperties(t.Schema) {
				declared[i]["parametersJsonSchema"] = t.Schema
			}
		}
		b["tools"] = []object{{"functionDeclarations": declared}}
	}
	if len(generation) > 0 {
		b["generationConfig"] = generation
	}
	return b
}

// old reports whether the model rejects a response schema combined with tools.
func (a *adapter) old() bool {
	n := strings.TrimPrefix(a.name, "models/")
	return strings.HasPrefix(n, "gemini-1") || strings.HasPrefix(n, "gemini-2")
}

// hasProperties reports whether a schema has properties. A function without parameters omits it.
func hasProperties(s json.RawMessage) bool {
	o, ok := wire.Parse(s)
	if !ok {
		return false
	}
	p, ok := wire.Parse(o["properties"])
	return !ok || len(p) > 0
}

type content struct {
	Role  string `json:"role"`
	Parts []any  `json:"parts"`
}

// contents builds alternating turns. The results of one turn's calls are grouped, as the API
// requires.
func contents(in []model.Message, names *model.NameMap) []content {
	out := []content{}
	for _, m := range in {
		role := "user"
		if m.Role == model.RoleAssistant {
			role = "model"
		}
		var results, rest []any
		for _, p := range m.Parts {
			switch v := part(p, names); {
			case v == nil:
			case p.Kind == model.PartResult:
				results = append(results, v)
			default:
				rest = append(rest, v)
			}
		}
		if parts := append(results, rest...); len(parts) > 0 {
			if n := len(out); n > 0 && out[n-1].Role == role {
				out[n-1].Parts = append(out[n-1].Parts, parts...)
			} else {
				out = append(out, content{Role: role, Parts: parts})
			}
		}
	}
	return out
}

func part(p model.Part, names *model.NameMap) any {
	own, mine := wire.Parse(p.Opaque)
	mine = mine && p.Provider == provider
	switch p.Kind {
	case model.PartText:
		if mine {
			return own
		}
		if p.Text == "" {
			return nil
		}
		return object{"text": p.Text}
	case model.PartReasoning, model.PartOpaque:
		if mine {
			return own
		}
		return nil // thoughts without a signature are summaries, which the API does not read
	case model.PartCall:
		o, call := object{}, object{}
		if mine {
			for k, v := range own {
				o[k] = v
			}
			inner, _ := wire.Parse(own["functionCall"])
			for k, v := range inner {
				call[k] = v
			}
		}
		if p.WireID != "" {
			call["id"] = p.WireID
		}
		call["name"], call["args"] = names.Wire(p.Tool), wire.Args(p)
		o["functionCall"] = call
		return o
	case model.PartResult:
		key := "output"
		if p.Error {
			key = "error"
		}
		r := object{"name": names.Wire(p.Tool), "response": object{key: p.Text}}
		if p.WireID != "" {
			r["id"] = p.WireID
		}
		return object{"functionResponse": r}
	case model.PartImage:
		return object{"inlineData": object{"mimeType": p.Media, "data": p.Data}}
	}
	return nil
}
