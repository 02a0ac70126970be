package cli

import (
	"bytes"
	"strings"
	"testing"

	"metier/engine"
)

// With --json, warnings during a run are printed to standard error, and notes are not.
func TestWatcher_NoticePrintsWarningsWithJSON(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	a := newApp(nil, IO{Out: &out, Err: &errs, Dir: t.TempDir()})
	a.json = true
	w := a.watcher()
	w.live = true
	w.notice(engine.Notice{Severity: engine.Note, Text: "a note"})
	w.notice(engine.Notice{Code: engine.CodeDrift, Severity: engine.Warning, Text: "count changed"})
	if got := errs.String(); strings.TrimSpace(got) != "drift: count changed" || out.Len() > 0 {
		t.Errorf("standard error: %q, standard output: %q", got, out.String())
	}
}
