package server_test

import (
	"bufio"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Batches with notifications are answered, and one with the ID of an open batch does not end the session.
func TestServe_AnswersBatches(t *testing.T) {
	t.Parallel()
	w := start(t, library)
	in, theirs := io.Pipe()
	ours, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- w.server.Serve(t.Context(), in, out) }()
	answers := bufio.NewReader(ours)
	exchange := func(line string) string {
		t.Helper()
		if _, err := io.WriteString(theirs, line+"\n"); err != nil {
			t.Fatal(err)
		}
		answer, err := answers.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(answer)
	}
	if got := exchange(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`); !strings.Contains(got, `"result"`) {
		t.Fatal(got)
	}
	const batch = `[{"jsonrpc":"2.0","id":2,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/initialized"}]`
	for range 2 { // an ID may come again once it is answered
		if diff := cmp.Diff(`[{"jsonrpc":"2.0","id":2,"result":{}}]`, exchange(batch)); diff != "" {
			t.Error(diff)
		}
	}
	if diff := cmp.Diff(`{"jsonrpc":"2.0","id":3,"result":{}}`, exchange(`{"jsonrpc":"2.0","id":3,"method":"ping"}`)); diff != "" {
		t.Error(diff)
	}
	if err := theirs.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
