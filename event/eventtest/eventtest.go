// Package eventtest reads logs in tests.
package eventtest

import (
	"testing"

	"metier/event"
	"metier/record"
)

// All are the events of one type in a log, in its order.
func All[E event.Event](t testing.TB, log record.Log) []E {
	t.Helper()
	var out []E
	for en, err := range log.Read(t.Context(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		e, err := event.Decode(en)
		if err != nil {
			t.Fatal(err)
		}
		if is, ok := e.(E); ok {
			out = append(out, is)
		}
	}
	return out
}
