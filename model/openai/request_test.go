package openai_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/model"
	"metier/model/modeltest"
	"metier/model/openai"
)

// local answers with fixed frames, as servers do that follow the protocol loosely, and shows the
// request.
func local(t *testing.T, contentType, reply string, o openai.Options, r model.Request) (model.Message, string, http.Header, error) {
	t.Helper()
	var body []byte
	var header http.Header
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
		header = hr.Header
		body, _ = io.ReadAll(hr.Body) // a short body fails the assertions
		w.Header().Set("Content-Type", contentType)
		fmt.Fprint(w, reply)
	}))
	defer s.Close()
	o.BaseURL = s.URL + "/v1"
	if r.Messages == nil {
		r.Messages = []model.Message{model.UserText("x")}
	}
	m, _, _, err := model.Collect(openai.New("llama", &o).Stream(t.Context(), r))
	return m, string(body), header, err
}

const fine = `data: {"choices":[{"index":0,"delta":{"content":"ok"},"finish_reason":"stop"}]}` + "\n\n"

func TestLocalServersNeedNoKeyNoUsageAndNoDone(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "from-the-environment")
	m, body, header, err := local(t, "text/event-stream", fine, openai.Options{}, model.Request{MaxTokens: 9})
	if err != nil || m.Text() != "ok" {
		t.Fatalf("%+v, %v", m, err)
	}
	if header.Get("Authorization") != "" || !strings.Contains(body, `"max_tokens":9`) {
		t.Errorf("%s %v", body, header)
	}
}

func TestCallsWithoutIndexOrID(t *testing.T) {
	t.Parallel()
	reply := `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"id":"a","function":{"name":"one","arguments":"{\"x\":"}}]}}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"id":"a","function":{"arguments":"1}"}}]}}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"id":"b","function":{"name":"two","arguments":"{}"}}]}}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":7,"function":{"name":"three","arguments":"{}"}}]},"finish_reason":"stop"}]}

data: [DONE]

`
	m, _, _, err := local(t, "text/event-stream", reply, openai.Options{}, model.Request{})
	if err != nil {
		t.Fatal(err)
	}
	want := []model.Part{model.Call("a", "one", `{"x":1}`), model.Call("b", "two", `{}`), model.Call("call_2", "three", `{}`)}
	if diff := cmp.Diff(want, m.Calls()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestReasoningDetailsComeTogetherByIndex(t *testing.T) {
	t.Parallel()
	chunk := func(details string) string {
		return `data: {"choices":[{"index":0,"delta":{"content":"","reasoning":"r","reasoning_details":[` + details + `]}}]}` + "\n\n"
	}
	reply := chunk(`{"type":"reasoning.text","index":0,"text":"a","format":"f","signature":null}`) +
		chunk(`{"type":"reasoning.text","index":0,"text":"b"}`) + chunk(`{"type":"reasoning.text","index":0,"signature":"s"}`) +
		chunk(`{"type":"reasoning.encrypted","index":1,"data":"D"}`) + chunk(`{"type":"reasoning.encrypted","index":1,"data":"E"}`) + fine
	m, _, _, err := local(t, "text/event-stream", reply, openai.Options{Provider: "openrouter"}, model.Request{})
	if err != nil {
		t.Fatal(err)
	}
	var got, want any
	if err := json.Unmarshal(m.Parts[0].Opaque, &got); err != nil {
		t.Fatal(err)
	}
	_ = json.Unmarshal([]byte(`{"reasoning":"rrrrr","reasoning_details":[{"type":"reasoning.text","index":0,"text":"ab","format":"f","signature":"s"},
		{"type":"reasoning.encrypted","index":1,"data":"D"},{"type":"reasoning.encrypted","index":1,"data":"E"}]}`), &want)
	if diff := cmp.Diff(want, got); diff != "" || m.Parts[0].Provider != "openrouter" || m.Parts[0].Text != "rrrrr" {
		t.Errorf("%+v (-want +got):\n%s", m.Parts[0], diff)
	}
}

func TestErrorsInsideGoodAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ contentType, reply, want string }{
		{"application/json", `{"error":{"message":"slow down","type":"rate_limit_error"}}`, "model_rate_limited"},
		{"application/json", `{"error":"model 'x' not found"}`, "model_server"},
		{"application/json", `{"choices":[]}`, "model_bad_reply"},
		{"text/event-stream", `data: {"error":{"message":"gone","code":503}}` + "\n\n", "model_overloaded"},
		{"text/event-stream", `data: {"error":{"message":"too long","code":"context_length_exceeded"}}` + "\n\n", "model_context_overflow"},
		{"text/event-stream", `data: {"choices":[{"index":0,"delta":{"tool_calls":"x"}}]}` + "\n\n", "model_bad_reply"},
		{"text/event-stream", "", "model_cut"},
	} {
		if _, _, _, err := local(t, c.contentType, c.reply, openai.Options{}, model.Request{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.reply, err, c.want)
		}
	}
}

func TestRefusalIsTextAndStop(t *testing.T) {
	t.Parallel()
	var stop model.Stop
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, `data: {"choices":[{"index":0,"delta":{"refusal":"I will not."},"finish_reason":"stop"}]}`+"\n\n")
	}))
	defer s.Close()
	m, _, stop, err := model.Collect(openai.New("m", &openai.Options{BaseURL: s.URL, Key: modeltest.Key}).Stream(t.Context(), model.Request{}))
	if err != nil || stop != model.StopRefusal || m.Text() != "I will not." {
		t.Errorf("%+v %s %v", m, stop, err)
	}
}
