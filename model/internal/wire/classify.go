package wire

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"metier/model"
)

// fault is the error JSON of all providers.
type fault struct {
	status  int
	kinds   string // type, code and status words, lower case
	message string
	retry   time.Duration
}

func hasError(b []byte) bool {
	var o map[string]json.RawMessage
	return json.Unmarshal(b, &o) == nil && len(o["error"]) > 0 && string(o["error"]) != "null"
}

// parse accepts {"error":{...}}, {"type":"error","error":{...}}, {"error":"..."}, [{"error":{...}}]
// and {"message":...}.
func parse(b []byte) (f fault) {
	b = bytes.TrimSpace(b)
	var list []json.RawMessage
	if json.Unmarshal(b, &list) == nil && len(list) > 0 {
		b = list[0]
	}
	var outer struct{ Error json.RawMessage }
	if json.Unmarshal(b, &outer) != nil {
		return f
	}
	inner := outer.Error
	if len(inner) == 0 {
		inner = b
	}
	if json.Unmarshal(inner, &f.message) == nil {
		return f
	}
	var e struct {
		Message, Detail, Type, Status, Code json.RawMessage
		Details                             []struct{ Reason, RetryDelay string }
		Metadata                            struct{ Raw json.RawMessage }
	}
	if json.Unmarshal(inner, &e) != nil {
		return f
	}
	word := func(raw json.RawMessage) (s string) {
		if json.Unmarshal(raw, &s) != nil {
			s = string(raw)
		}
		return s
	}
	if f.message = word(e.Message); f.message == "" {
		f.message = word(e.Detail)
	}
	kinds := []string{word(e.Type), word(e.Status), word(e.Code)}
	f.status, _ = strconv.Atoi(kinds[2])
	for _, d := range e.Details {
		kinds = append(kinds, d.Reason)
		if r, err := time.ParseDuration(d.RetryDelay); err == nil && r > 0 {
			f.retry = r
		}
	}
	f.kinds = strings.ToLower(strings.Join(kinds, " "))
	return f
}

// overflow are the phrases with which providers report that the conversation is too long. Few have
// a code for it.
var overflow = []string{"context_length", "context length", "context window", "context limit", "prompt is too long",
	"input is too long", "maximum number of tokens", "exceeds the available context", "request_too_large"}

func contains(s string, words ...string) bool {
	for _, w := range words {
		if strings.Contains(s, w) {
			return true
		}
	}
	return false
}

// classify finds the code of a failed reply. status is 0 for an error inside a stream.
func (c *Client) classify(status int, header http.Header, body []byte) *model.Error {
	f := parse(body)
	e := &model.Error{Provider: c.provider, Status: status, RetryAfter: f.retry, Message: c.clean(f.message)}
	if r := c.retryAfter(header); r > 0 {
		e.RetryAfter = r
	}
	if status == 0 {
		status = f.status
	}
	e.Code = code(status, f)
	if e.Message == "" {
		e.Message = cmp.Or(http.StatusText(status), "the provider reported an error without a message")
	}
	return e
}

func code(status int, f fault) model.Code {
	text := f.kinds + " " + strings.ToLower(f.message)
	switch {
	case (status == 0 || status == 400 || status == 413 || status == 422) && contains(text, overflow...):
		return model.CodeContextOverflow
	case contains(f.kinds, "insufficient_quota", "billing"):
		return model.CodeForbidden // waiting does not help
	case contains(f.kinds, "content_filter", "content_policy"):
		return model.CodeRefused
	case contains(f.kinds, "api_key_invalid"):
		return model.CodeAuth // gemini says 400
	}
	switch status {
	case 400, 405, 409, 413, 415, 422:
		return model.CodeBadRequest
	case 401:
		return model.CodeAuth
	case 402, 403, 451:
		return model.CodeForbidden
	case 404, 410:
		return model.CodeNotFound
	case 429:
		return model.CodeRateLimited
	case 503, 529:
		return model.CodeOverloaded
	}
	if status >= 500 || status == 408 || status == 425 {
		return model.CodeServer
	}
	if status >= 400 {
		return model.CodeBadRequest
	}
	for _, k := range []struct {
		word string
		code model.Code
	}{
		{"rate_limit", model.CodeRateLimited}, {"resource_exhausted", model.CodeRateLimited},
		{"overloaded", model.CodeOverloaded}, {"unavailable", model.CodeOverloaded},
		{"authentication", model.CodeAuth}, {"unauthenticated", model.CodeAuth}, {"invalid_api_key", model.CodeAuth},
		{"permission", model.CodeForbidden}, {"not_found", model.CodeNotFound},
		{"invalid", model.CodeBadRequest},
	} {
		if contains(f.kinds, k.word) {
			return k.code
		}
	}
	return model.CodeServer // an error in a stream without a kind is the server's
}

// retryAfter reads Retry-After as seconds or as a date (RFC 9110 10.2.3), and the millisecond form
// that some providers add.
func (c *Client) retryAfter(h http.Header) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 && ms < 1e9 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	v := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(v, 64); err == nil {
		if s > 0 && s < 1e6 {
			return time.Duration(s * float64(time.Second))
		}
		return 0
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(0, at.Sub(c.now()))
	}
	return 0
}

const maxMessage = 500

// clean returns one line of limited length without secrets. Providers echo keys, sometimes partly
// masked with asterisks.
func (c *Client) clean(s string) string {
	for _, k := range c.secrets {
		s = strings.ReplaceAll(s, k, "[secret]")
	}
	words := strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })
	for i, w := range words {
		bare := strings.TrimLeft(w, "\"'`(:=")
		if strings.Contains(w, "***") || strings.HasPrefix(bare, "sk-") || strings.HasPrefix(bare, "AIza") {
			words[i] = "[secret]"
		}
	}
	s = strings.ToValidUTF8(strings.Join(words, " "), "\uFFFD")
	if len(s) <= maxMessage {
		return s
	}
	return strings.ToValidUTF8(s[:maxMessage], "") + "…"
}
