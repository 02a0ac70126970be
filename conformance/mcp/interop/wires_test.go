package interop

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// obj is a JSON object.
type obj = map[string]any

// text is a content that is a string or a list of parts with texts.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var parts []struct{ Text string }
	if json.Unmarshal(raw, &parts) != nil {
		return string(raw)
	}
	for _, p := range parts {
		s += p.Text
	}
	return s
}

// messages is Anthropic's format.
type messages struct{}

func (messages) read(path string, body []byte) (q asked, ok bool) {
	var r struct {
		Tools    []struct{ Name string }
		Messages []struct{ Content json.RawMessage }
	}
	if path != "/v1/messages" || json.Unmarshal(body, &r) != nil {
		return q, false
	}
	for _, t := range r.Tools {
		q.tools = append(q.tools, t.Name)
	}
	for _, m := range r.Messages {
		var blocks []struct {
			Type    string
			Content json.RawMessage
		}
		_ = json.Unmarshal(m.Content, &blocks) // a string has no results
		for _, b := range blocks {
			if b.Type == "tool_result" {
				q.results = append(q.results, text(b.Content))
			}
		}
	}
	return q, true
}

func (messages) write(w http.ResponseWriter, _ string, body []byte, r reply) {
	var q struct {
		Model  string
		Stream bool
	}
	_ = json.Unmarshal(body, &q) // read has parsed it before
	usage := obj{"input_tokens": 100, "output_tokens": 10, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
	message := obj{"id": fmt.Sprint("msg_", r.turn), "type": "message", "role": "assistant", "model": q.Model, "content": []any{}, "stop_reason": nil, "stop_sequence": nil, "usage": usage}
	block, delta, stop := obj{"type": "text", "text": ""}, obj{"type": "text_delta", "text": r.text}, "end_turn"
	if r.tool != "" {
		block = obj{"type": "tool_use", "id": fmt.Sprint("toolu_", r.turn), "name": r.tool, "input": obj{}}
		delta, stop = obj{"type": "input_json_delta", "partial_json": r.args}, "tool_use"
	}
	if !q.Stream {
		if r.tool == "" {
			block["text"] = r.text
		} else {
			block["input"] = json.RawMessage(r.args)
		}
		message["content"], message["stop_reason"] = []any{block}, stop
		whole(w, message)
		return
	}
	e := stream(w, true)
	e.send("message_start", obj{"message": message})
	e.send("content_block_start", obj{"index": 0, "content_block": block})
	e.send("content_block_delta", obj{"index": 0, "delta": delta})
	e.send("content_block_stop", obj{"index": 0})
	e.send("message_delta", obj{"delta": obj{"stop_reason": stop, "stop_sequence": nil}, "usage": obj{"output_tokens": 10}})
	e.send("message_stop", obj{})
}

// generate is Gemini's format.
type generate struct{}

func (generate) read(path string, body []byte) (q asked, ok bool) {
	var r struct {
		Tools []struct {
			FunctionDeclarations []struct{ Name string }
		}
		Contents []struct {
			Parts []struct {
				FunctionResponse *struct{ Response json.RawMessage }
			}
		}
	}
	if !strings.HasPrefix(path, "/v1beta/models/") || !strings.HasSuffix(path, "enerateContent") || json.Unmarshal(body, &r) != nil {
		return q, false
	}
	for _, t := range r.Tools {
		for _, f := range t.FunctionDeclarations {
			q.tools = append(q.tools, f.Name)
		}
	}
	for _, c := range r.Contents {
		for _, p := range c.Parts {
			if p.FunctionResponse == nil {
				continue
			}
			var response struct{ Output, Error string }
			_ = json.Unmarshal(p.FunctionResponse.Response, &response) // otherwise the whole response
			if response.Output == "" {
				response.Output = string(p.FunctionResponse.Response)
			}
			q.results = append(q.results, response.Output)
		}
	}
	return q, true
}

func (generate) write(w http.ResponseWriter, path string, body []byte, r reply) {
	var q struct {
		GenerationConfig struct{ ResponseMimeType string }
	}
	_ = json.Unmarshal(body, &q) // read has parsed it before
	part := obj{"text": r.text}
	if r.tool != "" {
		part = obj{"functionCall": obj{"id": fmt.Sprint("call_", r.turn), "name": r.tool, "args": json.RawMessage(r.args)}}
	} else if q.GenerationConfig.ResponseMimeType == "application/json" { // a router asks which model should answer
		part = obj{"text": `{"reasoning":"a short task","model_choice":"flash","complexity_reasoning":"short","complexity_score":10,"next_speaker":"user"}`}
	}
	v := obj{
		"candidates":    []any{obj{"content": obj{"role": "model", "parts": []any{part}}, "finishReason": "STOP", "index": 0}},
		"usageMetadata": obj{"promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110},
		"modelVersion":  "stand-in",
		"responseId":    "r1",
	}
	if strings.HasSuffix(path, ":generateContent") {
		whole(w, v)
		return
	}
	stream(w, false).send("", v)
}

// completions is OpenAI's older format.
type completions struct{}

func (completions) read(path string, body []byte) (q asked, ok bool) {
	var r struct {
		Tools []struct {
			Function struct{ Name string }
		}
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
	}
	if path != "/v1/chat/completions" || json.Unmarshal(body, &r) != nil {
		return q, false
	}
	for _, t := range r.Tools {
		q.tools = append(q.tools, t.Function.Name)
	}
	for _, m := range r.Messages {
		if m.Role == "tool" {
			q.results = append(q.results, text(m.Content))
		}
	}
	return q, true
}

func (completions) write(w http.ResponseWriter, _ string, body []byte, r reply) {
	var q struct {
		Model  string
		Stream bool
	}
	_ = json.Unmarshal(body, &q) // read has parsed it before
	said, stop := obj{"role": "assistant", "content": r.text}, "stop"
	if r.tool != "" {
		said = obj{"role": "assistant", "content": nil, "tool_calls": []any{obj{"index": 0, "id": fmt.Sprint("call_", r.turn), "type": "function", "function": obj{"name": r.tool, "arguments": r.args}}}}
		stop = "tool_calls"
	}
	usage := obj{"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
	v := func(kind string, choices []any, usage any) obj {
		return obj{"id": "chatcmpl-1", "object": kind, "created": 1, "model": q.Model, "choices": choices, "usage": usage}
	}
	if !q.Stream {
		whole(w, v("chat.completion", []any{obj{"index": 0, "message": said, "finish_reason": stop}}, usage))
		return
	}
	e := stream(w, false)
	e.send("", v("chat.completion.chunk", []any{obj{"index": 0, "delta": said, "finish_reason": nil}}, nil))
	e.send("", v("chat.completion.chunk", []any{obj{"index": 0, "delta": obj{}, "finish_reason": stop}}, nil))
	e.send("", v("chat.completion.chunk", []any{}, usage))
	_, _ = w.Write([]byte("data: [DONE]\n\n"))
}

// responses is OpenAI's newer format. There a server's tool is in a namespace,
// and its full name is the namespace followed by its name.
type responses struct{}

func (responses) read(path string, body []byte) (q asked, ok bool) {
	var r struct {
		Tools []struct {
			Type, Name string
			Tools      []struct{ Name string }
		}
		Input []struct {
			Type   string
			Output json.RawMessage
		}
	}
	if path != "/v1/responses" || json.Unmarshal(body, &r) != nil {
		return q, false
	}
	for _, t := range r.Tools {
		if t.Type != "namespace" {
			q.tools = append(q.tools, t.Name)
		}
		for _, inner := range t.Tools {
			q.tools = append(q.tools, t.Name+" "+inner.Name)
		}
	}
	for _, i := range r.Input {
		if i.Type == "function_call_output" {
			q.results = append(q.results, text(i.Output))
		}
	}
	return q, true
}

func (responses) write(w http.ResponseWriter, _ string, _ []byte, r reply) {
	item := obj{"id": fmt.Sprint("msg_", r.turn), "type": "message", "role": "assistant", "status": "completed", "content": []any{obj{"type": "output_text", "text": r.text, "annotations": []any{}}}}
	if r.tool != "" {
		item = obj{"id": fmt.Sprint("fc_", r.turn), "type": "function_call", "status": "completed", "call_id": fmt.Sprint("call_", r.turn), "name": r.tool, "arguments": r.args}
		if space, name, ok := strings.Cut(r.tool, " "); ok {
			item["namespace"], item["name"] = space, name
		}
	}
	e := stream(w, true)
	e.send("response.created", obj{"response": obj{"id": "resp_1"}})
	e.send("response.output_item.added", obj{"output_index": 0, "item": item})
	e.send("response.output_item.done", obj{"output_index": 0, "item": item})
	e.send("response.completed", obj{"response": obj{"id": "resp_1", "output": []any{item},
		"usage": obj{"input_tokens": 100, "input_tokens_details": nil, "output_tokens": 10, "output_tokens_details": nil, "total_tokens": 110}}})
}
