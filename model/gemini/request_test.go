package gemini_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"metier/model"
	"metier/model/gemini"
	"metier/model/modeltest"
)

func ask(t *testing.T, name, url string, r model.Request) (model.Message, error) {
	t.Helper()
	if r.Messages == nil {
		r.Messages = []model.Message{model.UserText("x")}
	}
	m, _, _, err := model.Collect(gemini.New(name, &gemini.Options{BaseURL: url, Key: modeltest.Key}).Stream(t.Context(), r))
	return m, err
}

func TestOldModelsGetTheSchemaInTheSystemInstructionBesideTools(t *testing.T) {
	t.Parallel()
	s := modeltest.Gemini(t)
	s.Say(modeltest.Turn{Text: "{}"}, modeltest.Turn{Text: "{}"})
	r := model.Request{System: "sys", Tools: []model.ToolSpec{{Name: "x"}}, Output: json.RawMessage(`{"type":"object"}`)}
	if _, err := ask(t, "gemini-2.5-pro", s.URL, r); err != nil {
		t.Fatal(err)
	}
	r.Tools = nil
	if _, err := ask(t, "gemini-2.5-pro", s.URL, r); err != nil {
		t.Fatal(err)
	}
	got := s.Requests()
	if got[0].Output != nil || !strings.HasSuffix(got[0].System, `{"type":"object"}`) || got[1].Output == nil || got[1].System != "sys" {
		t.Errorf("%+v", got)
	}
}

func TestKeyOfTheEnvironmentIsNotSent(t *testing.T) {
	t.Setenv("GEMINI_API_KEY", modeltest.Key)
	s := modeltest.Gemini(t)
	_, _, _, err := model.Collect(gemini.New("m", &gemini.Options{BaseURL: s.URL}).Stream(t.Context(), model.Request{Messages: []model.Message{model.UserText("x")}}))
	var e *model.Error
	if !errors.As(err, &e) || e.Code != model.CodeAuth || s.Requests()[0].Header.Get("X-Goog-Api-Key") != "" {
		t.Errorf("%v", err)
	}
}

func TestAnswersOutsideTheHappyPath(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		reply  string
		want   model.Code
	}{
		{200, `data: {"promptFeedback":{"blockReason":"SAFETY"}}` + "\n\n", model.CodeRefused},
		{200, `data: {"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL"}]}` + "\n\n", model.CodeBadReply},
		{200, `data: {"candidates":[{"content":{"parts":[{"text":"x"}]}}]}` + "\n\n", model.CodeCut},
		{200, `data: {"candidates":"x"}` + "\n\n", model.CodeBadReply},
		{400, `{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}`, model.CodeAuth},
		{429, `[{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"34s"}]}}]`, model.CodeRateLimited},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(c.status)
			fmt.Fprint(w, c.reply)
		}))
		_, err := ask(t, "gemini-3-test", s.URL, model.Request{})
		s.Close()
		var e *model.Error
		if !errors.As(err, &e) || e.Code != c.want {
			t.Errorf("%s: %v, want %s", c.reply, err, c.want)
		}
		if c.status == 429 && e.RetryAfter != 34*time.Second {
			t.Errorf("RetryAfter = %v", e.RetryAfter)
		}
	}
}

func TestSignedTextStaysApart(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, part := range []string{`{"text":"a"}`, `{"text":"b"}`, `{"text":"c","thoughtSignature":"c2ln"}`, `{"text":"d"}`} {
			fmt.Fprintf(w, "data: {\"candidates\":[{\"content\":{\"parts\":[%s]}}]}\r\n\r\n", part)
		}
		fmt.Fprint(w, "data: {\"candidates\":[{\"finishReason\":\"STOP\"}]}") // some proxies lose the last empty line
	}))
	defer s.Close()
	m, err := ask(t, "gemini-3-test", s.URL, model.Request{})
	if err != nil || len(m.Parts) != 3 || m.Parts[0].Text != "ab" || m.Parts[1].Opaque == nil || m.Parts[2].Text != "d" || m.Text() != "abcd" {
		t.Errorf("%+v, %v", m, err)
	}
}
