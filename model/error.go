package model

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Code identifies why a model call failed. The list is open.
type Code string

// The error codes.
const (
	CodeAuth            Code = "model_auth"             // 401: no key or a wrong one
	CodeForbidden       Code = "model_forbidden"        // 403: the key may not do this
	CodeNotFound        Code = "model_not_found"        // 404: no such model or path
	CodeBadRequest      Code = "model_bad_request"      // 400: the provider does not take the request
	CodeContextOverflow Code = "model_context_overflow" // the conversation is longer than the model's window
	CodeRateLimited     Code = "model_rate_limited"     // 429
	CodeOverloaded      Code = "model_overloaded"       // 503, 529
	CodeServer          Code = "model_server"           // other 5xx
	CodeCut             Code = "model_cut"              // the stream ended before the reply did
	CodeBadReply        Code = "model_bad_reply"        // not what the protocol says: HTML, broken JSON
	CodeUnreachable     Code = "model_unreachable"      // no connection
	CodeRefused         Code = "model_refused"          // the provider blocked the prompt
	CodeCanceled        Code = "model_canceled"         // the caller's context ended; Err is its cause
	CodeScriptEnded     Code = "script_ended"           // a scripted model has no turn left
	CodeScriptFailed    Code = "script_turn_failed"     // a scripted turn could not be computed
)

// Error is a failed model call. It never holds a key, a header or request content.
type Error struct {
	Code       Code
	Provider   string        // the adapter
	Status     int           // of HTTP, 0 when there was none
	RetryAfter time.Duration // the provider's wish, 0 when it gave none
	Message    string        // one line, bounded
	Err        error         // the cause on our side of the wire, or nil
}

func (e *Error) Error() string {
	var b strings.Builder
	if e.Provider != "" {
		b.WriteString(e.Provider)
		b.WriteString(": ")
	}
	b.WriteString(string(e.Code))
	if e.Status != 0 {
		fmt.Fprintf(&b, " (HTTP %d)", e.Status)
	}
	switch {
	case e.Message != "":
		b.WriteString(": ")
		b.WriteString(e.Message)
	case e.Err != nil:
		b.WriteString(": ")
		b.WriteString(e.Err.Error())
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// Retryable reports whether the same request may succeed later. CodeBadReply is worth only one more
// try, see Retries.
func (e *Error) Retryable() bool {
	switch e.Code {
	case CodeRateLimited, CodeOverloaded, CodeServer, CodeCut, CodeUnreachable, CodeBadReply:
		return true
	}
	return false
}

// Retries returns how many more tries to make after the error, if the caller allows at most limit.
func (e *Error) Retries(limit int) int {
	switch {
	case !e.Retryable() || limit < 0:
		return 0
	case e.Code == CodeBadReply:
		return min(1, limit)
	}
	return limit
}

const (
	backoffBase = 500 * time.Millisecond
	backoffCap  = 60 * time.Second
)

// Backoff returns how long to wait before a retry (1 is the first): 0.5 s, doubled each time, with
// jitter between half and all of that, and at most 60 s. A longer retryAfter takes precedence, with
// the same maximum. rnd returns a number in [0, 1). If it is nil, there is no jitter.
func Backoff(try int, retryAfter time.Duration, rnd func() float64) time.Duration {
	exp := float64(backoffBase) * math.Pow(2, float64(max(0, min(try-1, 16))))
	d := min(time.Duration(exp), backoffCap)
	if rnd != nil {
		d = d/2 + time.Duration(rnd()*float64(d/2))
	}
	return min(max(d, retryAfter), backoffCap)
}
