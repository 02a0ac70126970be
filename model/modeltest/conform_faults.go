package modeltest

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"metier/model"
)

// want describes an expected error.
type want struct {
	code  model.Code
	retry bool
	after time.Duration
}

func conformErrors(t *testing.T, a Adapter) {
	for _, c := range []struct {
		name  string
		fault Fault
		want  want
	}{
		{"401", Fault{Status: 401, Message: "bad key"}, want{code: model.CodeAuth}},
		{"403", Fault{Status: 403, Message: "not yours"}, want{code: model.CodeForbidden}},
		{"404", Fault{Status: 404, Message: "no such model"}, want{code: model.CodeNotFound}},
		{"400", Fault{Status: 400, Message: "bad field"}, want{code: model.CodeBadRequest}},
		{"anthropic overflow", Fault{Status: 400, Message: "prompt is too long: 210000 tokens > 200000 maximum"}, want{code: model.CodeContextOverflow}},
		{"openai overflow", Fault{Status: 400, Kind: "context_length_exceeded", Message: "too much"}, want{code: model.CodeContextOverflow}},
		{"vllm overflow", Fault{Status: 400, Message: "This model's maximum context length is 4096 tokens."}, want{code: model.CodeContextOverflow}},
		{"gemini overflow", Fault{Status: 400, Message: "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."}, want{code: model.CodeContextOverflow}},
		{"413", Fault{Status: 413, Kind: "request_too_large", Message: "Request exceeds the maximum size"}, want{code: model.CodeContextOverflow}},
		{"429 with seconds", Fault{Status: 429, Header: map[string]string{"Retry-After": "7"}}, want{model.CodeRateLimited, true, 7 * time.Second}},
		{"429 with a date", Fault{Status: 429, Header: map[string]string{"Retry-After": "Wed, 01 Jan 2025 00:00:30 GMT"}}, want{model.CodeRateLimited, true, 30 * time.Second}},
		{"429 with milliseconds", Fault{Status: 429, Header: map[string]string{"Retry-After-Ms": "1500"}}, want{model.CodeRateLimited, true, 1500 * time.Millisecond}},
		{"429 without", Fault{Status: 429}, want{code: model.CodeRateLimited, retry: true}},
		{"quota", Fault{Status: 429, Kind: "insufficient_quota"}, want{code: model.CodeForbidden}},
		{"500", Fault{Status: 500, Message: "oops"}, want{code: model.CodeServer, retry: true}},
		{"502 in plain text", Fault{Status: 502, BrokenJSON: true}, want{code: model.CodeServer, retry: true}},
		{"503", Fault{Status: 503, Header: map[string]string{"Retry-After": "2"}}, want{model.CodeOverloaded, true, 2 * time.Second}},
		{"529", Fault{Status: 529}, want{code: model.CodeOverloaded, retry: true}},
	} {
		s, m := begin(t, a, Turn{Fault: &c.fault})
		chunks, err := read(t, m, model.Request{Messages: hello})
		var e *model.Error
		if !errors.As(err, &e) {
			t.Errorf("%s: %v is not a *model.Error", c.name, err)
			continue
		}
		if len(chunks) != 0 || e.Code != c.want.code || e.Retryable() != c.want.retry || e.RetryAfter != c.want.after || e.Status != c.fault.Status {
			t.Errorf("%s: %+v, want %+v", c.name, e, c.want)
		}
		if e.Provider == "" || (c.fault.Message != "" && !strings.Contains(e.Error(), c.fault.Message)) {
			t.Errorf("%s: %q says too little", c.name, e)
		}
		if n := len(s.Requests()); n != 1 {
			t.Errorf("%s: %d requests", c.name, n)
		}
	}
}

func conformSpoiled(t *testing.T, a Adapter) {
	turn := func(f Fault) Turn {
		return Turn{Text: "some words before it", Calls: []Call{{"list", `{"path":"a"}`}}, Fault: &f}
	}
	for _, c := range []struct {
		name  string
		fault Fault
		want  model.Code
	}{
		{"error event", Fault{Event: "overloaded_error"}, model.CodeOverloaded},
		{"cut half way", Fault{Cut: -1}, model.CodeCut},
		{"cut after a byte", Fault{Cut: 1}, model.CodeCut},
		{"clean but short", Fault{Short: true}, model.CodeCut},
		{"garbage", Fault{Garbage: true}, model.CodeBadReply},
		{"a web page", Fault{HTML: true}, model.CodeBadReply},
	} {
		_, m := begin(t, a, turn(c.fault))
		if _, err := read(t, m, model.Request{Messages: hello, Tools: tools}); codeOf(err) != c.want {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
	whole := turn(Fault{})
	whole.Fault = nil
	s, _ := begin(t, a)
	frames, _ := s.proto.frames(whole, Request{Model: "m"}, 1)
	for cut := 1; cut < len(strings.Join(frames[:len(frames)-1], "")); cut += 97 {
		_, m := begin(t, a, turn(Fault{Cut: cut}))
		if _, err := read(t, m, model.Request{Messages: hello, Tools: tools}); codeOf(err) != model.CodeCut {
			t.Errorf("cut after %d bytes: %v", cut, err)
		}
	}
}

func conformKey(t *testing.T, a Adapter) {
	s := a.Server(t)
	wrong := "wrong-key-" + strings.Repeat("9", 20)
	_, err := read(t, a.New(s.URL, wrong), model.Request{Messages: hello})
	if codeOf(err) != model.CodeAuth || strings.Contains(err.Error(), wrong) || strings.Contains(fmt.Sprintf("%+v %#v", err, err), wrong) {
		t.Errorf("with a wrong key: %v", err)
	}
	for _, f := range []Fault{{Status: 500, Message: "you sent " + Key}, {Cut: -1}, {Garbage: true}, {HTML: true}} {
		_, m := begin(t, a, Turn{Text: "x", Fault: &f})
		_, err := read(t, m, model.Request{Messages: hello})
		for e := err; e != nil; e = errors.Unwrap(e) {
			if strings.Contains(fmt.Sprintf("%v %#v", e, e), Key) {
				t.Errorf("%+v: the error holds the key: %v", f, e)
			}
		}
	}
}

func conformOnce(t *testing.T, a Adapter) {
	for _, f := range []Fault{{Status: 500}, {Status: 429, Header: map[string]string{"Retry-After": "0"}}, {Status: 408}, {Status: 409}, {Cut: 1}} {
		s, m := begin(t, a, Turn{Text: "x", Fault: &f}, Turn{Text: "second"})
		if _, err := read(t, m, model.Request{Messages: hello}); err == nil || len(s.Requests()) != 1 {
			t.Errorf("%+v: %d requests, %v", f, len(s.Requests()), err)
		}
	}
}

func conformRedirect(t *testing.T, a Adapter) {
	reached := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer other.Close()
	for _, status := range []int{301, 307, 308} {
		_, m := begin(t, a, Turn{Fault: &Fault{Status: status, Header: map[string]string{"Location": other.URL}}})
		if _, err := read(t, m, model.Request{Messages: hello}); codeOf(err) != model.CodeBadReply || reached {
			t.Errorf("%d: %v, reached %v", status, err, reached)
		}
	}
}

func conformCancel(t *testing.T, a Adapter) {
	s, m := begin(t, a, Turn{Text: strings.Repeat("word ", 20), Fault: &Fault{Hang: true}})
	ctx, cancel := cancelable(t)
	reason := errors.New("the operator stopped it")
	var err error
	n := 0
	for _, e := range m.Stream(ctx, model.Request{Messages: hello}) {
		if n++; n == 1 {
			cancel(reason)
		}
		if e != nil {
			err = e
		}
	}
	var e *model.Error
	if !errors.As(err, &e) || e.Code != model.CodeCanceled || e.Retryable() || !errors.Is(err, reason) {
		t.Errorf("after cancel: %v", err)
	}
	<-s.Left
	if _, err := readCtx(ctx, t, m); codeOf(err) != model.CodeCanceled {
		t.Errorf("with a dead context: %v", err)
	}
}

func conformLeave(t *testing.T, a Adapter) {
	s, m := begin(t, a, Turn{Text: strings.Repeat("word ", 20), Fault: &Fault{Hang: true}})
	for range m.Stream(t.Context(), model.Request{Messages: hello}) {
		break
	}
	<-s.Left
}

func conformUnreachable(t *testing.T, a Adapter) {
	s := a.Server(t)
	m := a.New(s.URL, Key)
	s.Close()
	_, err := read(t, m, model.Request{Messages: hello})
	var e *model.Error
	if !errors.As(err, &e) || e.Code != model.CodeUnreachable || !e.Retryable() {
		t.Errorf("with nobody there: %v", err)
	}
}
