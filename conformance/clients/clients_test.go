package clients_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	aoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	ooption "github.com/openai/openai-go/v3/option"
	"google.golang.org/genai"

	"metier/model/modeltest"
)

// The providers' own clients drive the stand-ins, with those clients' own types and accumulators.
// This checks the stand-ins against the real format and not against our reading of it.

var turns = []modeltest.Turn{
	{Thinking: "Let me think.", Redacted: "EncRypTed==", Text: "Reading.", Calls: []modeltest.Call{{Tool: "read_file", Args: `{"path":"a.txt"}`}, {Tool: "list", Args: `{}`}}},
	{Text: "It says hello."},
}

func TestAnthropicStandInSpeaksToTheOfficialClient(t *testing.T) {
	t.Parallel()
	s := modeltest.Anthropic(t)
	s.Say(turns...)
	c := anthropic.NewClient(aoption.WithoutEnvironmentDefaults(), aoption.WithBaseURL(s.URL), aoption.WithAPIKey(modeltest.Key), aoption.WithMaxRetries(0))
	p := anthropic.MessageNewParams{Model: "claude-test", MaxTokens: 1000,
		Thinking: anthropic.ThinkingConfigParamOfEnabled(1024),
		System:   []anthropic.TextBlockParam{{Text: "sys", CacheControl: anthropic.NewCacheControlEphemeralParam()}},
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hello"))},
		Tools: []anthropic.ToolUnionParam{
			{OfTool: &anthropic.ToolParam{Name: "read_file", InputSchema: anthropic.ToolInputSchemaParam{Properties: map[string]any{"path": map[string]any{"type": "string"}}}}},
			{OfTool: &anthropic.ToolParam{Name: "list", InputSchema: anthropic.ToolInputSchemaParam{Properties: map[string]any{}}}}},
	}
	ask := func() anthropic.Message {
		t.Helper()
		var m anthropic.Message
		stream := c.Messages.NewStreaming(t.Context(), p)
		for stream.Next() {
			if err := m.Accumulate(stream.Current()); err != nil {
				t.Fatal(err)
			}
		}
		if err := stream.Err(); err != nil {
			t.Fatal(err)
		}
		return m
	}
	first := ask()
	if first.StopReason != anthropic.StopReasonToolUse || len(first.Content) != 5 || first.Content[0].Thinking != "Let me think." ||
		first.Content[1].Data != "EncRypTed==" || string(first.Content[3].Input) != `{"path":"a.txt"}` || first.Usage.InputTokens == 0 {
		t.Fatalf("first = %+v", first)
	}
	history := p.Messages
	p.Messages = append(history, first.ToParam()) // the calls are not answered
	if _, err := c.Messages.New(t.Context(), p); err == nil {
		t.Error("calls without results were taken")
	}
	p.Messages = append(p.Messages, anthropic.NewUserMessage(anthropic.NewToolResultBlock(first.Content[3].ID, "hello", false), anthropic.NewToolResultBlock(first.Content[4].ID, "no", true)))
	if got := ask(); got.Content[0].Text != "It says hello." || got.StopReason != anthropic.StopReasonEndTurn {
		t.Errorf("second = %+v", got)
	}
	r := s.Requests()
	if back := r[len(r)-1].Messages[2].Results; r[len(r)-1].System != "sys" || len(back) != 2 || back[0].Text != "hello" || !back[1].Error {
		t.Errorf("request = %+v", r[len(r)-1])
	}
	p.Messages[1].Content[0].OfThinking.Signature = "forged"
	stream := c.Messages.NewStreaming(t.Context(), p)
	stream.Next()
	var e *anthropic.Error
	if !errors.As(stream.Err(), &e) || e.StatusCode != 400 {
		t.Errorf("a forged signature: %v", stream.Err())
	}
	s.Say(modeltest.Turn{Text: "some words", Fault: &modeltest.Fault{Event: "overloaded_error"}})
	p.Messages = history
	stream = c.Messages.NewStreaming(t.Context(), p)
	for stream.Next() {
	}
	if !errors.As(stream.Err(), &e) || e.Type() != "overloaded_error" {
		t.Errorf("an error event: %v", stream.Err())
	}
}

func TestOpenAIStandInSpeaksToTheOfficialClient(t *testing.T) {
	t.Parallel()
	s := modeltest.OpenAI(t)
	plain := append([]modeltest.Turn{}, turns...)
	plain[0].Thinking, plain[0].Interleave = "", true // the official client does not know reasoning fields
	s.Say(plain...)
	c := openai.NewClient(ooption.WithBaseURL(s.URL), ooption.WithAPIKey(modeltest.Key), ooption.WithMaxRetries(0))
	tool := func(name string) openai.ChatCompletionToolUnionParam {
		return openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{Name: name, Parameters: openai.FunctionParameters{"type": "object", "properties": map[string]any{}}})
	}
	p := openai.ChatCompletionNewParams{Model: "gpt-test",
		Messages:      []openai.ChatCompletionMessageParamUnion{openai.SystemMessage("sys"), openai.UserMessage("hello")},
		Tools:         []openai.ChatCompletionToolUnionParam{tool("read_file"), tool("list")},
		StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
	}
	ask := func() *openai.ChatCompletionAccumulator {
		t.Helper()
		acc := &openai.ChatCompletionAccumulator{}
		stream := c.Chat.Completions.NewStreaming(t.Context(), p)
		for stream.Next() {
			if !acc.AddChunk(stream.Current()) {
				t.Fatal("the client's accumulator refuses a chunk")
			}
		}
		if err := stream.Err(); err != nil {
			t.Fatal(err)
		}
		return acc
	}
	first := ask().ChatCompletion
	msg := first.Choices[0].Message
	if len(msg.ToolCalls) != 2 || msg.Content != "Reading." || msg.ToolCalls[0].Function.Arguments != `{"path":"a.txt"}` || msg.ToolCalls[1].Function.Name != "list" || first.Usage.PromptTokens == 0 {
		t.Fatalf("first = %+v", first)
	}
	p.Messages = append(p.Messages, msg.ToParam())
	stream := c.Chat.Completions.NewStreaming(t.Context(), p)
	stream.Next()
	var e *openai.Error
	if !errors.As(stream.Err(), &e) || e.StatusCode != 400 || !strings.Contains(e.Message, "tool_call_id") {
		t.Errorf("calls without results: %v", stream.Err())
	}
	for _, call := range msg.ToolCalls {
		p.Messages = append(p.Messages, openai.ToolMessage("hello", call.ID))
	}
	if got := ask().Choices[0]; got.Message.Content != "It says hello." || got.FinishReason != "stop" {
		t.Errorf("second = %+v", got)
	}
	p.Tools[0] = tool("skills.load")
	stream = c.Chat.Completions.NewStreaming(t.Context(), p)
	stream.Next()
	if !errors.As(stream.Err(), &e) || e.StatusCode != 400 {
		t.Errorf("a name with a dot: %v", stream.Err())
	}
}

func TestGeminiStandInSpeaksToTheOfficialClient(t *testing.T) {
	t.Parallel()
	s := modeltest.Gemini(t)
	s.Say(turns...)
	c, err := genai.NewClient(t.Context(), &genai.ClientConfig{APIKey: modeltest.Key, Backend: genai.BackendGeminiAPI, HTTPOptions: genai.HTTPOptions{BaseURL: s.URL}})
	if err != nil {
		t.Fatal(err)
	}
	config := &genai.GenerateContentConfig{MaxOutputTokens: 100, SystemInstruction: genai.NewContentFromText("sys", "user"),
		Tools: []*genai.Tool{{FunctionDeclarations: []*genai.FunctionDeclaration{{Name: "read_file", ParametersJsonSchema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`)}, {Name: "list"}}}}}
	contents := []*genai.Content{genai.NewContentFromText("hello", "user")}
	ask := func() (parts []*genai.Part, finish genai.FinishReason, err error) {
		for r, err := range c.Models.GenerateContentStream(t.Context(), "gemini-3-test", contents, config) {
			if err != nil {
				return nil, "", err
			}
			parts = append(parts, r.Candidates[0].Content.Parts...)
			finish = r.Candidates[0].FinishReason
		}
		return parts, finish, nil
	}
	parts, finish, err := ask()
	if err != nil {
		t.Fatal(err)
	}
	var calls []*genai.Part
	for _, p := range parts {
		if p.FunctionCall != nil {
			calls = append(calls, p)
		}
	}
	if finish != genai.FinishReasonStop || len(calls) != 2 || calls[0].ThoughtSignature == nil || calls[1].ThoughtSignature != nil || calls[0].FunctionCall.Args["path"] != "a.txt" {
		t.Fatalf("calls = %+v", calls)
	}
	contents = append(contents, &genai.Content{Role: "model", Parts: parts[:len(parts)-1]}) // the last part is empty
	if _, _, err := ask(); !isAPI(err, 400) {
		t.Errorf("calls without results: %v", err)
	}
	contents = append(contents, &genai.Content{Role: "user", Parts: []*genai.Part{
		genai.NewPartFromFunctionResponse("read_file", map[string]any{"output": "hello"}), genai.NewPartFromFunctionResponse("list", map[string]any{"error": "no"})}})
	parts, _, err = ask()
	if err != nil || parts[0].Text != "It sa" {
		t.Errorf("second = %+v, %v", parts, err)
	}
	calls[0].ThoughtSignature = []byte("forged")
	if _, _, err := ask(); !isAPI(err, 400) {
		t.Errorf("a forged signature: %v", err)
	}
}

func isAPI(err error, code int) bool {
	var e genai.APIError
	return errors.As(err, &e) && e.Code == code
}
