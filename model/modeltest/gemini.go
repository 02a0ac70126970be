package modeltest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"strings"
)

type geminiWire struct{}

var geminiName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.-]{0,63}$`)

func (geminiWire) base() string             { return "" }
func (geminiWire) key(h http.Header) string { return h.Get("X-Goog-Api-Key") }

func (geminiWire) fail(status int, kind, message string) any {
	if kind == "" {
		kind = map[int]string{400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED",
			500: "INTERNAL", 503: "UNAVAILABLE"}[status]
	}
	return map[string]any{"error": map[string]any{"code": status, "message": message, "status": kind}}
}

func (w geminiWire) errorFrame(string) string {
	return "data: " + compact(w.fail(503, "", "The model is overloaded. Please try again later.")) + "\r\n\r\n"
}

type geminiContent struct {
	Role  string
	Parts []json.RawMessage
}

func (w geminiWire) decode(path string, body []byte) (r Request, problem string) {
	name, ok := strings.CutSuffix(strings.TrimPrefix(path, "/v1beta/models/"), ":streamGenerateContent")
	if !ok || strings.Contains(name, "/") {
		return r, "no such path " + path
	}
	r.Model = name
	var top map[string]json.RawMessage
	var q struct {
		SystemInstruction geminiContent
		Contents          []geminiContent
		GenerationConfig  struct {
			MaxOutputTokens    int
			ResponseMimeType   string
			ResponseJSONSchema json.RawMessage `json:"responseJsonSchema"`
		}
		Tools []struct {
			FunctionDeclarations []struct {
				Name, Description    string
				ParametersJSONSchema json.RawMessage `json:"parametersJsonSchema"`
			}
		}
	}
	if json.Unmarshal(body, &top) != nil || json.Unmarshal(body, &q) != nil {
		return r, "Invalid JSON payload received."
	}
	if k := unknown(top, "contents systemInstruction tools toolConfig generationConfig safetySettings cachedContent"); k != "" {
		return r, "Invalid JSON payload received. Unknown name \"" + k + "\": Cannot find field."
	}
	g := q.GenerationConfig
	r.MaxTokens, r.Output = g.MaxOutputTokens, g.ResponseJSONSchema
	for _, raw := range q.SystemInstruction.Parts {
		var p struct{ Text string }
		_ = json.Unmarshal(raw, &p) // otherwise there is no text
		r.System += p.Text
	}
	for i, t := range q.Tools {
		for j, f := range t.FunctionDeclarations {
			r.Tools = append(r.Tools, Tool{f.Name, f.Description, f.ParametersJSONSchema})
			if !geminiName.MatchString(f.Name) {
				return r, fmt.Sprintf("* GenerateContentRequest.tools[%d].function_declarations[%d].name: Invalid function name. Must start with a letter or an underscore.", i, j)
			}
		}
	}
	switch {
	case r.Output != nil && g.ResponseMimeType != "application/json":
		return r, "response_json_schema is only supported with response_mime_type application/json"
	case g.ResponseMimeType != "" && len(r.Tools) > 0 && strings.HasPrefix(name, "gemini-2"):
		return r, "Function calling with a response mime type: 'application/json' is unsupported"
	}
	for i, c := range q.Contents {
		m, problem := w.message(c)
		r.Messages = append(r.Messages, m)
		if problem != "" {
			return r, fmt.Sprintf("* GenerateContentRequest.contents[%d]: %s", i, problem)
		}
	}
	return r, w.order(r)
}

func (geminiWire) message(c geminiContent) (m Message, problem string) {
	m = Message{Role: map[string]string{"user": "user", "model": "assistant"}[c.Role]}
	if m.Role == "" {
		return m, "Please use a valid role: user, model."
	}
	if len(c.Parts) == 0 {
		return m, "parts must not be empty"
	}
	m.Raw = json.RawMessage(compact(c.Parts))
	for _, raw := range c.Parts {
		var p struct {
			Text             *string
			Thought          bool
			ThoughtSignature string
			FunctionCall     *struct {
				ID, Name string
				Args     json.RawMessage
			}
			FunctionResponse *struct {
				ID, Name string
				Response map[string]json.RawMessage
			}
			InlineData json.RawMessage
		}
		if json.Unmarshal(raw, &p) != nil {
			return m, "a part is not valid"
		}
		if p.ThoughtSignature != "" {
			m.guards = append(m.guards, p.ThoughtSignature)
		}
		switch {
		case p.FunctionCall != nil:
			if len(p.FunctionCall.Args) == 0 {
				p.FunctionCall.Args = json.RawMessage("{}") // the official client omits an empty object
			}
			if !strings.HasPrefix(canonical(p.FunctionCall.Args), "{") {
				return m, "function_call.args: not an object"
			}
			m.Calls = append(m.Calls, SentCall{p.FunctionCall.ID, p.FunctionCall.Name, string(p.FunctionCall.Args)})
		case p.FunctionResponse != nil:
			if p.FunctionResponse.Name == "" || p.FunctionResponse.Response == nil {
				return m, "function_response.name: Name cannot be empty."
			}
			x := SentResult{ID: p.FunctionResponse.ID, Tool: p.FunctionResponse.Name}
			v, failed := p.FunctionResponse.Response["error"]
			if !failed {
				v = p.FunctionResponse.Response["output"]
			}
			if json.Unmarshal(v, &x.Text) != nil {
				x.Text = string(v)
			}
			x.Error = failed
			m.Results = append(m.Results, x)
		case p.Text != nil:
			if !p.Thought {
				m.Text += *p.Text
			}
		case p.InlineData == nil && p.ThoughtSignature == "":
			return m, "required oneof field 'data' must have one initialized field"
		}
	}
	return m, ""
}

func (geminiWire) order(r Request) string {
	if len(r.Messages) == 0 {
		return "* GenerateContentRequest.contents: contents is not specified"
	}
	for i, m := range r.Messages {
		if n := len(m.Calls); n > 0 {
			if i == 0 || r.Messages[i-1].Role != "user" {
				return "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
			}
			if i+1 == len(r.Messages) || len(r.Messages[i+1].Results) != n {
				return "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn."
			}
			for j, c := range m.Calls {
				if r.Messages[i+1].Results[j].Tool != c.Tool {
					return "function response names do not match the calls: " + c.Tool
				}
			}
		}
		if len(m.Results) > 0 && (i == 0 || len(r.Messages[i-1].Calls) == 0) {
			return "Please ensure that function response turn comes immediately after a function call turn."
		}
	}
	return ""
}

func (w geminiWire) frames(t Turn, r Request, n int) (frames []string, issued map[string][]string) {
	issued = map[string][]string{}
	u := t.count(r.Body)
	usage := map[string]any{"promptTokenCount": u.Input + u.CacheRead + u.CacheWrite, "candidatesTokenCount": u.Output, "totalTokenCount": u.Total()}
	if u.CacheRead > 0 {
		usage["cachedContentTokenCount"] = u.CacheRead
	}
	send := func(finish string, parts ...any) {
		c := map[string]any{"index": 0, "content": map[string]any{"role": "model", "parts": parts}}
		if finish != "" {
			c["finishReason"] = finish
		}
		frames = append(frames, "data: "+compact(map[string]any{"candidates": []any{c}, "usageMetadata": usage, "modelVersion": r.Model, "responseId": fmt.Sprint("r", n)})+"\r\n\r\n")
	}
	for _, p := range pieces(t.Thinking, 7) {
		send("", map[string]any{"text": p, "thought": true})
	}
	for _, p := range pieces(t.Text, 5) {
		send("", map[string]any{"text": p})
	}
	sign := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "signature %d >>>???", n))
	for i, c := range t.Calls {
		part := map[string]any{"functionCall": map[string]any{"name": c.Tool, "args": json.RawMessage(c.Args)}}
		maps.Copy(part, t.Extra)
		if i == 0 && t.Thinking != "" { // of parallel calls, only the first is signed
			part["thoughtSignature"] = sign
			issued[SentCall{Tool: c.Tool, Args: c.Args}.mark()] = []string{sign}
		}
		send("", part)
	}
	finish := t.Stop
	if finish == "" {
		finish = "STOP"
	}
	if t.Thinking != "" && len(t.Calls) == 0 {
		issued[fmt.Sprintf("turn %d", n)] = []string{sign}
		send(finish, map[string]any{"text": "", "thoughtSignature": sign})
		return frames, issued
	}
	send(finish, map[string]any{"text": ""})
	return frames, issued
}
