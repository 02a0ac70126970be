package modeltest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

type openaiWire struct{}

var openaiName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

func (openaiWire) base() string { return "/v1" }

func (openaiWire) key(h http.Header) string {
	return strings.TrimPrefix(h.Get("Authorization"), "Bearer ")
}

func (openaiWire) fail(status int, kind, message string) any {
	code := any(nil)
	if kind != "" {
		code = kind
	}
	typ := "invalid_request_error"
	if status >= 500 {
		typ = "server_error"
	}
	return map[string]any{"error": map[string]any{"message": message, "type": typ, "param": nil, "code": code}}
}

func (w openaiWire) errorFrame(kind string) string {
	return "data: " + compact(map[string]any{"error": map[string]any{"message": "Overloaded", "type": kind, "code": nil}}) + "\n\n"
}

func (w openaiWire) decode(path string, body []byte) (r Request, problem string) {
	if path != "/v1/chat/completions" {
		return r, "no such path " + path
	}
	var top map[string]json.RawMessage
	var q struct {
		Model               string
		MaxTokens           int `json:"max_tokens"`
		MaxCompletionTokens int `json:"max_completion_tokens"`
		Stream              bool
		StreamOptions       struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
		Tools []struct {
			Type     string
			Function struct {
				Name, Description string
				Parameters        json.RawMessage
			}
		}
		Messages       []json.RawMessage
		ResponseFormat struct {
			Type       string
			JSONSchema struct {
				Name   string
				Schema json.RawMessage
			} `json:"json_schema"`
		} `json:"response_format"`
	}
	if json.Unmarshal(body, &top) != nil || json.Unmarshal(body, &q) != nil {
		return r, "We could not parse the JSON body of your request."
	}
	if k := unknown(top, "model max_tokens max_completion_tokens messages tools tool_choice parallel_tool_calls stream stream_options temperature top_p stop seed n response_format reasoning_effort prompt_cache_key metadata user"); k != "" {
		return r, "Unrecognized request argument supplied: " + k
	}
	r.Model, r.MaxTokens, r.Output = q.Model, max(q.MaxTokens, q.MaxCompletionTokens), q.ResponseFormat.JSONSchema.Schema
	switch {
	case q.Model == "" || !q.Stream || !q.StreamOptions.IncludeUsage:
		return r, "this stand-in wants a model, stream and stream_options.include_usage"
	case q.ResponseFormat.Type == "json_schema" && !openaiName.MatchString(q.ResponseFormat.JSONSchema.Name):
		return r, "response_format.json_schema.name: missing or invalid"
	}
	for i, t := range q.Tools {
		r.Tools = append(r.Tools, Tool{t.Function.Name, t.Function.Description, t.Function.Parameters})
		if t.Type != "function" || !openaiName.MatchString(t.Function.Name) {
			return r, fmt.Sprintf("Invalid 'tools[%d].function.name': string does not match pattern. Expected a string that matches the pattern '%s'.", i, openaiName)
		}
	}
	for i, raw := range q.Messages {
		m, problem := w.message(raw)
		if problem != "" {
			return r, fmt.Sprintf("messages.[%d]: %s", i, problem)
		}
		if m.Role == "system" {
			r.System += m.Text
			continue
		}
		r.Messages = append(r.Messages, m)
	}
	return r, w.order(r)
}

func (w openaiWire) message(raw json.RawMessage) (m Message, problem string) {
	var o map[string]json.RawMessage
	var q struct {
		Role, Name string
		Content    json.RawMessage
		ToolCallID string `json:"tool_call_id"`
		ToolCalls  []json.RawMessage
		Calls      []struct {
			ID, Type     string
			Function     struct{ Name, Arguments string }
			ExtraContent json.RawMessage `json:"extra_content"`
		} `json:"tool_calls"`
	}
	if json.Unmarshal(raw, &o) != nil || json.Unmarshal(raw, &q) != nil {
		return m, "not a valid message"
	}
	m = Message{Role: q.Role, Raw: raw}
	if json.Unmarshal(q.Content, &m.Text) != nil {
		var parts []struct{ Type, Text string }
		if json.Unmarshal(q.Content, &parts) != nil {
			return m, "Invalid type for 'content'"
		}
		for _, p := range parts {
			m.Text += p.Text
		}
	}
	allowed := map[string]string{"system": "role content name", "user": "role content name", "tool": "role content tool_call_id",
		"assistant": "role content name refusal tool_calls reasoning_content reasoning_details"}[q.Role]
	if k := unknown(o, allowed); k != "" {
		return m, "Unknown parameter: " + k
	}
	for _, k := range []string{"reasoning_content", "reasoning_details"} {
		if v, ok := o[k]; ok {
			m.guards = append(m.guards, compact(map[string]any{k: json.RawMessage(canonical(v))}))
		}
	}
	for _, c := range q.Calls {
		if c.Type != "function" || !openaiName.MatchString(c.Function.Name) || !json.Valid([]byte(c.Function.Arguments)) {
			return m, "tool_calls: a call is not valid"
		}
		m.Calls = append(m.Calls, SentCall{c.ID, c.Function.Name, c.Function.Arguments})
	}
	if q.Role == "tool" {
		m.Results = []SentResult{{ID: q.ToolCallID, Text: m.Text}}
	}
	if q.Role == "assistant" && m.Text == "" && len(m.Calls) == 0 {
		return m, "expected content or tool_calls"
	}
	return m, ""
}

func (openaiWire) order(r Request) string {
	var open []string
	for i, m := range r.Messages {
		if m.Role == "tool" {
			at := slices.Index(open, m.Results[0].ID)
			if at < 0 {
				return fmt.Sprintf("messages.[%d]: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.", i)
			}
			open = slices.Delete(open, at, at+1)
			continue
		}
		if len(open) > 0 {
			break
		}
		for _, c := range m.Calls {
			open = append(open, c.ID)
		}
	}
	switch {
	case len(open) > 0:
		return "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: " + strings.Join(open, ", ")
	case len(r.Messages) == 0:
		return "Invalid 'messages': empty array."
	}
	return ""
}

func (w openaiWire) frames(t Turn, r Request, n int) (frames []string, issued map[string][]string) {
	issued = map[string][]string{}
	head := func() map[string]any {
		return map[string]any{"id": fmt.Sprintf("chatcmpl-%d", n), "object": "chat.completion.chunk", "created": 1750000000, "model": r.Model}
	}
	send := func(delta map[string]any, finish any) {
		c := head()
		c["choices"] = []any{map[string]any{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": finish}}
		c["usage"] = nil
		frames = append(frames, "data: "+compact(c)+"\n\n")
	}
	send(map[string]any{"role": "assistant", "content": "", "refusal": nil}, nil)
	var guards []string
	if t.Thinking != "" {
		sign := fmt.Sprintf("sig+/%d==", n)
		detail := func(k, v string) []any {
			return []any{map[string]any{"type": "reasoning.text", "index": 0, "format": "test-v1", k: v}}
		}
		for _, p := range pieces(t.Thinking, 7) {
			send(map[string]any{"reasoning_content": p, "reasoning_details": detail("text", p)}, nil)
		}
		send(map[string]any{"reasoning_details": detail("signature", sign)}, nil)
		whole := detail("text", t.Thinking)
		whole[0].(map[string]any)["signature"] = sign
		guards = []string{compact(map[string]any{"reasoning_content": t.Thinking}), compact(map[string]any{"reasoning_details": whole})}
	}
	for _, p := range pieces(t.Text, 5) {
		send(map[string]any{"content": p}, nil)
	}
	args := make([][]string, len(t.Calls))
	piece := func(i int, s string) {
		send(map[string]any{"tool_calls": []any{map[string]any{"index": i, "function": map[string]any{"arguments": s}}}}, nil)
	}
	for i, c := range t.Calls {
		id := fmt.Sprintf("call_%d_%d", n, i)
		issued[id] = guards
		call := map[string]any{"index": i, "id": id, "type": "function", "function": map[string]any{"name": c.Tool, "arguments": ""}}
		if t.Extra != nil {
			call["extra_content"] = t.Extra
		}
		send(map[string]any{"tool_calls": []any{call}}, nil)
		args[i] = pieces(c.Args, 4)
		if !t.Interleave {
			for _, p := range args[i] {
				piece(i, p)
			}
		}
	}
	for more := t.Interleave; more; {
		more = false
		for i := range args {
			if len(args[i]) > 0 {
				piece(i, args[i][0])
				args[i], more = args[i][1:], true
			}
		}
	}
	finish := t.Stop
	if finish == "" {
		finish = "stop"
		if len(t.Calls) > 0 {
			finish = "tool_calls"
		}
	}
	send(map[string]any{}, finish)
	u, last := t.count(r.Body), head()
	last["choices"] = []any{}
	usage := map[string]any{"prompt_tokens": u.Input + u.CacheRead + u.CacheWrite, "completion_tokens": u.Output, "total_tokens": u.Total(),
		"prompt_tokens_details": map[string]any{"cached_tokens": u.CacheRead, "cache_write_tokens": u.CacheWrite}}
	if u.CostUSD != nil {
		usage["cost"] = *u.CostUSD
	}
	last["usage"] = usage
	if len(guards) > 0 && len(t.Calls) == 0 {
		issued[fmt.Sprintf("turn %d", n)] = guards
	}
	return append(frames, "data: "+compact(last)+"\n\n", "data: [DONE]\n\n"), issued
}
