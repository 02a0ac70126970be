package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"metier/internal/intake"
)

// large are the methods whose parameters can be large. None of them are kept, except for their _meta.
var large = []string{"tools/call", "prompts/get"}

// keptTooMuch returns why a body cannot be kept, or "". A session keeps the messages that open it and
// some later ones, such as notifications/initialized, and a request that waits, such as
// subscriptions/listen, keeps its parameters. Which ones depends on the library, so only those that
// are known not to be kept can be large.
func keptTooMuch(body []byte, opens bool) string {
	if short(body) {
		return ""
	}
	if opens {
		return fmt.Sprintf("a request that opens a session has at most %d bytes and %d JSON values", mostKept, keptValues)
	}
	var messages []json.RawMessage
	if json.Unmarshal(body, &messages) != nil {
		messages = []json.RawMessage{body}
	}
	for _, m := range messages {
		if short(m) {
			continue
		}
		var method string
		named, twice := member(m, "method")
		if named == nil && !twice {
			continue // a response, or nothing that the library reads
		}
		params, again := member(m, "params")
		meta, thrice := member(params, "_meta")
		switch {
		case twice || again || thrice || json.Unmarshal(named, &method) != nil:
			return "a message has the same member twice, or a method that is not text"
		case !slices.Contains(large, method):
			return fmt.Sprintf("a message other than %s has at most %d bytes and %d JSON values", strings.Join(large, " and "), mostKept, keptValues)
		case !short(meta):
			return fmt.Sprintf("the _meta of a message has at most %d bytes and %d JSON values", mostKept, keptValues)
		}
	}
	return ""
}

// short reports whether a session can keep a text of JSON.
func short(text []byte) bool {
	guard := intake.Guard{Many: keptValues, Deep: mostBody}
	return len(text) <= mostKept && guard.See(text) == nil
}

// member returns a member of a JSON object, and whether there are several. Case is ignored, so that
// it does not matter how the library reads names.
func member(object json.RawMessage, name string) (value json.RawMessage, several bool) {
	dec := json.NewDecoder(bytes.NewReader(object))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, false
	}
	for dec.More() {
		key, err := dec.Token()
		var v json.RawMessage
		if err != nil || dec.Decode(&v) != nil {
			return value, several
		}
		if text, _ := key.(string); strings.EqualFold(text, name) {
			value, several = v, value != nil
		}
	}
	return value, several
}

// batched reports whether a body is a list of more than mostBatch messages, which would be handled
// at the same time.
func batched(body []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(body))
	if t, err := dec.Token(); err != nil || t != json.Delim('[') {
		return false
	}
	var message json.RawMessage
	for n := 0; dec.More() && dec.Decode(&message) == nil; n++ {
		if n == mostBatch {
			return true
		}
	}
	return false
}
