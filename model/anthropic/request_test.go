package anthropic_test

import (
	"encoding/json"
	"strings"
	"testing"

	"metier/model"
	"metier/model/anthropic"
	"metier/model/modeltest"
)

// sent runs one call against a stand-in and returns the request's body.
func sent(t *testing.T, o anthropic.Options, r model.Request) map[string]any {
	t.Helper()
	s := modeltest.Anthropic(t)
	s.Say(modeltest.Turn{Text: "ok"})
	o.BaseURL, o.Key = s.URL, modeltest.Key
	if _, _, _, err := model.Collect(anthropic.New("claude-test", &o).Stream(t.Context(), r)); err != nil {
		t.Fatal(err)
	}
	var body map[string]any
	if err := json.Unmarshal(s.Requests()[0].Body, &body); err != nil {
		t.Fatal(err)
	}
	return body
}

func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

func TestPromptIsCachedAtToolsSystemAndLastTwoUserTurns(t *testing.T) {
	t.Parallel()
	b := sent(t, anthropic.Options{}, model.Request{
		System: "sys",
		Tools:  []model.ToolSpec{{Name: "a"}, {Name: "b"}},
		Messages: []model.Message{model.UserText("one"),
			{Role: model.RoleAssistant, Parts: []model.Part{model.Text("two")}}, model.UserText("three"),
			{Role: model.RoleAssistant, Parts: []model.Part{model.Text("four")}}, {Role: model.RoleUser, Parts: []model.Part{model.Text("five"), model.Text("six")}}},
	})
	for _, c := range []struct {
		path   []any
		marked bool
	}{
		{[]any{"system", 0}, true}, {[]any{"tools", 1}, true}, {[]any{"tools", 0}, false},
		{[]any{"messages", 4, "content", 1}, true}, {[]any{"messages", 4, "content", 0}, false},
		{[]any{"messages", 2, "content", 0}, true}, {[]any{"messages", 0, "content", 0}, false}, {[]any{"messages", 3, "content", 0}, false},
	} {
		if got := at(b, append(c.path, "cache_control", "type")...) == "ephemeral"; got != c.marked {
			t.Errorf("%v marked: %v", c.path, got)
		}
	}
}

func TestRequest_ClosesSchemasAndLimitsReplies(t *testing.T) {
	t.Parallel()
	b := sent(t, anthropic.Options{},
		model.Request{MaxTokens: 99, Messages: []model.Message{model.UserText("x")}, Output: json.RawMessage(`{"type":"object","properties":{"a":{"type":"object","properties":{}}}}`)})
	if b["max_tokens"] != 99.0 || at(b, "output_config", "format", "schema", "properties", "a", "additionalProperties") != false {
		t.Errorf("body = %v", b)
	}
	if b := sent(t, anthropic.Options{}, model.Request{Messages: []model.Message{model.UserText("x")}}); b["max_tokens"] != 16384.0 {
		t.Errorf("max_tokens = %v", b["max_tokens"])
	}
}

func TestEnvironmentIsNotRead(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", modeltest.Key)
	t.Setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")
	s := modeltest.Anthropic(t)
	_, _, _, err := model.Collect(anthropic.New("m", &anthropic.Options{BaseURL: s.URL}).Stream(t.Context(), model.Request{Messages: []model.Message{model.UserText("x")}}))
	if err == nil || !strings.Contains(err.Error(), "model_auth") || len(s.Requests()) != 1 || s.Requests()[0].Header.Get("X-Api-Key") != "" {
		t.Errorf("without a key: %v", err)
	}
}
