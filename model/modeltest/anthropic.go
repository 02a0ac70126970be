package modeltest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

type anthropicWire struct{}

var anthropicName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

func (anthropicWire) base() string             { return "" }
func (anthropicWire) key(h http.Header) string { return h.Get("X-Api-Key") }

func (anthropicWire) fail(status int, kind, message string) any {
	if kind == "" {
		kind = map[int]string{400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
			413: "request_too_large", 429: "rate_limit_error", 529: "overloaded_error"}[status]
	}
	if kind == "" {
		kind = "api_error"
	}
	return map[string]any{"type": "error", "error": map[string]any{"type": kind, "message": message}, "request_id": "req_1"}
}

func (w anthropicWire) errorFrame(kind string) string {
	return "event: error\ndata: " + compact(w.fail(0, kind, "Overloaded")) + "\n\n"
}

type anthropicBlock struct {
	Type      string
	Text      string
	ID        string
	Name      string
	Input     json.RawMessage
	ToolUseID string `json:"tool_use_id"`
	Content   json.RawMessage
	IsError   bool `json:"is_error"`
}

func (w anthropicWire) decode(path string, body []byte) (r Request, problem string) {
	if path != "/v1/messages" {
		return r, "no such path " + path
	}
	var top map[string]json.RawMessage
	var q struct {
		Model     string
		MaxTokens int `json:"max_tokens"`
		Stream    bool
		System    json.RawMessage
		Tools     []struct {
			Name, Description string
			InputSchema       json.RawMessage `json:"input_schema"`
		}
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
		OutputConfig struct {
			Format struct {
				Type   string
				Schema json.RawMessage
			}
		} `json:"output_config"`
	}
	if json.Unmarshal(body, &top) != nil || json.Unmarshal(body, &q) != nil {
		return r, "the body is not a valid request"
	}
	if k := unknown(top, "model max_tokens messages system tools tool_choice stream temperature top_p top_k stop_sequences thinking metadata output_config service_tier"); k != "" {
		return r, k + ": Extra inputs are not permitted"
	}
	r.Model, r.MaxTokens, r.Output = q.Model, q.MaxTokens, q.OutputConfig.Format.Schema
	if q.Model == "" || q.MaxTokens <= 0 || !q.Stream {
		return r, "model, max_tokens and stream: Field required"
	}
	if n := strings.Count(string(body), `"cache_control"`); n > 4 {
		return r, fmt.Sprintf("A maximum of 4 blocks with cache_control may be provided. Found %d.", n)
	}
	if r.System, _, problem = w.text(q.System); problem != "" {
		return r, "system: " + problem
	}
	for i, t := range q.Tools {
		r.Tools = append(r.Tools, Tool{t.Name, t.Description, t.InputSchema})
		var s struct{ Type string }
		switch {
		case !anthropicName.MatchString(t.Name):
			return r, fmt.Sprintf("tools.%d.custom.name: String should match pattern '%s'", i, anthropicName)
		case json.Unmarshal(t.InputSchema, &s) != nil || s.Type != "object":
			return r, fmt.Sprintf("tools.%d.custom.input_schema.type: Field required", i)
		}
	}
	for i, m := range q.Messages {
		msg, problem := w.message(m.Role, m.Content)
		r.Messages = append(r.Messages, msg)
		if problem != "" {
			return r, fmt.Sprintf("messages.%d: %s", i, problem)
		}
	}
	return r, w.order(r)
}

// text parses a string or a list of text blocks.
func (anthropicWire) text(raw json.RawMessage) (text string, blocks []json.RawMessage, problem string) {
	if len(raw) == 0 || json.Unmarshal(raw, &text) == nil {
		return text, nil, ""
	}
	if json.Unmarshal(raw, &blocks) != nil {
		return "", nil, "Input should be a valid list"
	}
	for _, b := range blocks {
		var t anthropicBlock
		if json.Unmarshal(b, &t) != nil {
			return "", nil, "a block is not valid"
		}
		if t.Type == "text" {
			if t.Text == "" {
				return "", nil, "text content blocks must be non-empty"
			}
			text += t.Text
		}
	}
	return text, blocks, ""
}

func (w anthropicWire) message(role string, content json.RawMessage) (m Message, problem string) {
	m = Message{Role: role, Raw: content}
	if role != "user" && role != "assistant" {
		return m, "role: Input should be 'user' or 'assistant'"
	}
	var blocks []json.RawMessage
	if m.Text, blocks, problem = w.text(content); problem != "" {
		return m, problem
	}
	if m.Text == "" && len(blocks) == 0 {
		return m, "content must not be empty"
	}
	rest := false
	for _, raw := range blocks {
		var b anthropicBlock
		_ = json.Unmarshal(raw, &b) // text has parsed it
		switch b.Type {
		case "thinking", "redacted_thinking":
			m.guards = append(m.guards, canonical(raw))
		case "tool_use":
			if !strings.HasPrefix(canonical(b.Input), "{") || !anthropicName.MatchString(b.Name) {
				return m, "tool_use.input: Input should be a valid dictionary"
			}
			m.Calls = append(m.Calls, SentCall{b.ID, b.Name, string(b.Input)})
		case "tool_result":
			if rest {
				return m, "tool_result blocks must come first in the content"
			}
			text, _, problem := w.text(b.Content)
			if problem != "" {
				return m, problem
			}
			m.Results = append(m.Results, SentResult{ID: b.ToolUseID, Text: text, Error: b.IsError})
		case "text", "image":
		default:
			return m, "Input tag '" + b.Type + "' does not match any of the expected tags"
		}
		rest = rest || b.Type != "tool_result"
	}
	return m, ""
}

// order checks that calls and results match.
func (anthropicWire) order(r Request) string {
	if len(r.Messages) == 0 || r.Messages[0].Role != "user" {
		return "messages: first message must use the \"user\" role"
	}
	if r.Messages[len(r.Messages)-1].Role != "user" {
		return "the conversation must end with a user message"
	}
	for i, m := range r.Messages {
		for _, c := range m.Calls {
			if i+1 == len(r.Messages) || !slices.ContainsFunc(r.Messages[i+1].Results, func(x SentResult) bool { return x.ID == c.ID }) {
				return fmt.Sprintf("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s", i, c.ID)
			}
		}
		for _, x := range m.Results {
			if i == 0 || !slices.ContainsFunc(r.Messages[i-1].Calls, func(c SentCall) bool { return x.ID == c.ID }) {
				return fmt.Sprintf("messages.%d: unexpected `tool_use_id` found in `tool_result` blocks: %s", i, x.ID)
			}
		}
	}
	return ""
}

func (w anthropicWire) frames(t Turn, r Request, n int) (frames []string, issued map[string][]string) {
	issued = map[string][]string{}
	send := func(kind string, v map[string]any) {
		v["type"] = kind
		frames = append(frames, "event: "+kind+"\ndata: "+compact(v)+"\n\n")
	}
	u := t.count(r.Body)
	send("message_start", map[string]any{"message": map[string]any{"id": fmt.Sprintf("msg_%d", n), "type": "message", "role": "assistant",
		"model": r.Model, "content": []any{}, "stop_reason": nil, "stop_sequence": nil,
		"usage": map[string]any{"input_tokens": u.Input, "output_tokens": 1, "cache_read_input_tokens": u.CacheRead, "cache_creation_input_tokens": u.CacheWrite}}})
	send("ping", map[string]any{})
	index := 0
	open := func(block map[string]any) int {
		send("content_block_start", map[string]any{"index": index, "content_block": block})
		index++
		return index - 1
	}
	delta := func(i int, kind, field, v string) {
		send("content_block_delta", map[string]any{"index": i, "delta": map[string]any{"type": kind, field: v}})
	}
	stop := func(i int) { send("content_block_stop", map[string]any{"index": i}) }
	var guards []string
	if t.Thinking != "" {
		sign := fmt.Sprintf("sig+/%d==", n)
		i := open(map[string]any{"type": "thinking", "thinking": "", "signature": ""})
		for _, p := range pieces(t.Thinking, 7) {
			delta(i, "thinking_delta", "thinking", p)
		}
		delta(i, "signature_delta", "signature", sign)
		stop(i)
		guards = append(guards, compact(map[string]any{"type": "thinking", "thinking": t.Thinking, "signature": sign}))
	}
	if t.Redacted != "" {
		b := map[string]any{"type": "redacted_thinking", "data": t.Redacted}
		stop(open(b))
		guards = append(guards, compact(b))
	}
	if t.Text != "" {
		i := open(map[string]any{"type": "text", "text": ""})
		for _, p := range pieces(t.Text, 5) {
			delta(i, "text_delta", "text", p)
		}
		stop(i)
	}
	args := map[int][]string{}
	var order []int
	for c, call := range t.Calls {
		id := fmt.Sprintf("toolu_%d_%d", n, c)
		issued[id] = guards
		block := map[string]any{"type": "tool_use", "id": id, "name": call.Tool, "input": map[string]any{}}
		maps.Copy(block, t.Extra)
		i := open(block)
		args[i], order = append([]string{""}, pieces(call.Args, 4)...), append(order, i)
		if !t.Interleave {
			for _, p := range args[i] {
				delta(i, "input_json_delta", "partial_json", p)
			}
			stop(i)
		}
	}
	for more := t.Interleave; more; {
		more = false
		for _, i := range order {
			if len(args[i]) > 0 {
				delta(i, "input_json_delta", "partial_json", args[i][0])
				args[i], more = args[i][1:], true
			}
		}
	}
	if t.Interleave {
		for _, i := range order {
			stop(i)
		}
	}
	reason := t.Stop
	if reason == "" {
		reason = "end_turn"
		if len(t.Calls) > 0 {
			reason = "tool_use"
		}
	}
	send("message_delta", map[string]any{"delta": map[string]any{"stop_reason": reason, "stop_sequence": nil}, "usage": map[string]any{"output_tokens": u.Output}})
	send("message_stop", map[string]any{})
	if len(guards) > 0 && len(t.Calls) == 0 {
		issued[fmt.Sprintf("turn %d", n)] = guards // known, though not required
	}
	return frames, issued
}
