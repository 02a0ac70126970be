package modeltest

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"metier/model"
)

// canned responds to every request with the same bytes.
type canned []byte

func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(bytes.NewReader(c))}, nil
}

// Spoil sends n corrupted variants of valid replies in the given protocol to an adapter, always the
// same ones. None may panic or end without done or a *model.Error. It needs no instrumented build.
func Spoil(t *testing.T, protocol string, n int, adapter func(*http.Client) model.Model) {
	t.Helper()
	s, err := New(protocol)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		frames, _ := s.proto.frames([]Turn{
			{Text: "some words"},
			{Thinking: "hm", Redacted: "x", Text: "a", Interleave: true, Calls: []Call{{"list", `{"a":1}`}, {"read_file", `{}`}}},
		}[i%2], Request{Model: "m"}, 1)
		b := spoiled(rnd, frames)
		_, err := read(t, adapter(&http.Client{Transport: canned(b)}), model.Request{Messages: hello, Tools: tools})
		if e := (*model.Error)(nil); err != nil && !errors.As(err, &e) {
			t.Errorf("%v is not a *model.Error, after\n%s", err, b)
		}
		if t.Failed() {
			t.Fatalf("reply %d:\n%s", i, b)
		}
	}
}

var values = []string{`null`, `"x"`, `-1`, `1e99`, `[]`, `{}`, `[null]`, `{"a":[1]}`, `true`, `""`}

// spoiled drops, duplicates, or swaps frames, changes the types of values in them, or flips bytes.
func spoiled(rnd *rand.Rand, frames []string) []byte {
	for range 1 + rnd.IntN(3) {
		i, j := rnd.IntN(len(frames)), rnd.IntN(len(frames))
		switch rnd.IntN(5) {
		case 0:
			frames[i], frames[j] = frames[j], frames[i]
		case 1:
			frames[i] += frames[j]
		case 2:
			frames[i] = ""
		case 3:
			b := []byte(frames[i])
			if len(b) > 0 {
				b[rnd.IntN(len(b))] = byte(rnd.IntN(256))
			}
			frames[i] = string(b)
		case 4:
			if at := strings.Split(frames[i], ":"); len(at) > 2 {
				k := 2 + rnd.IntN(len(at)-2)
				end := strings.IndexAny(at[k], ",}")
				at[k] = values[rnd.IntN(len(values))] + at[k][max(end, 0):]
				frames[i] = strings.Join(at, ":")
			}
		}
	}
	return []byte(strings.Join(frames, ""))
}
