package run_test

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/event"
	"metier/record"
	"metier/run"
)

// asking creates a run with an open question. Its checkpoint is written.
func asking(t *testing.T, root, id string, o *run.Options) *run.Folder {
	t.Helper()
	f, a := create(t, root, id, o)
	a.open("cli-preload")
	a.begin()
	a.add(event.ApprovalRequested{Call: "t1.c1", ID: "q", Code: "c", Scopes: []string{"once"}, Text: a.text("?")}, event.RunWaiting{Run: id, Asks: []string{"q"}})
	ok(t, f.Project(t.Context()))
	ok(t, f.Close())
	return f
}

// reported replaces members of a run's checkpoint.
func reported(t *testing.T, f *run.Folder, change map[string]any) {
	t.Helper()
	s := readJSON[map[string]any](t, f, run.FileState)
	for k, v := range change {
		s[k] = v
	}
	ok(t, os.WriteFile(f.Path(run.FileState), must[[]byte](t)(json.Marshal(s)), 0o600))
}

// What a program can do to the record of a run, without access to its recorded heads.
var tampering = map[string]func(t *testing.T, f *run.Folder){
	"a changed checkpoint": func(t *testing.T, f *run.Folder) {
		reported(t, f, map[string]any{"openQuestions": []any{}, "status": run.StatusOpen})
	},
	"an answer without a head": func(t *testing.T, f *run.Folder) {
		forged(t, f.Dir(), event.ApprovalAnswered{ID: "q", Call: "t1.c1", Scope: "once"})
	},
	"a cut log": func(t *testing.T, f *run.Folder) { cut(t, f, 3) },
	"an unreadable log and a changed checkpoint": func(t *testing.T, f *run.Folder) {
		reported(t, f, map[string]any{"openQuestions": []any{}, "status": run.StatusDone})
		ok(t, os.WriteFile(f.Path(run.FileLog), []byte("{}\n{}\n"), 0o600))
	},
	"no log and no checkpoint": func(t *testing.T, f *run.Folder) {
		ok(t, os.Remove(f.Path(run.FileLog)))
		ok(t, os.Remove(f.Path(run.FileState)))
	},
}

// cut leaves the first n entries of a log.
func cut(t *testing.T, f *run.Folder, n int) {
	t.Helper()
	var lines []byte
	for line := range bytes.Lines(must[[]byte](t)(os.ReadFile(f.Path(run.FileLog)))) {
		if n--; n >= 0 {
			lines = append(lines, line...)
		}
	}
	ok(t, os.WriteFile(f.Path(run.FileLog), lines, 0o600))
}

func TestFindToAnswer_FailsIfARunThatAskedWasChanged(t *testing.T) {
	t.Parallel()
	for name, change := range tampering {
		root, o := t.TempDir(), withHeads(t)
		asking(t, root, "older", o())
		change(t, asking(t, root, "newer", o()))
		_, id, err := run.FindToAnswer(t.Context(), root, "latest", o())
		if code := metier.CodeOf(err); code != run.CodeAmbiguous {
			t.Errorf("%s: latest is %q, and the code %q, want %s", name, id, code, run.CodeAmbiguous)
		}
	}
}

func TestFindWaiting_TakesARunThatWasChanged(t *testing.T) {
	t.Parallel()
	for name, change := range tampering {
		root, o := t.TempDir(), withHeads(t)
		asking(t, root, "older", o())
		change(t, asking(t, root, "newer", o()))
		if _, id, err := run.FindWaiting(t.Context(), root, "latest", o()); id != "newer" || err != nil {
			t.Errorf("%s: latest is %q, want newer (%v)", name, id, err)
		}
	}
}

func TestFindAgent_TakesARunThatWasChanged(t *testing.T) {
	t.Parallel()
	for name, change := range tampering {
		root, o := t.TempDir(), withHeads(t)
		asking(t, root, "older", o())
		change(t, asking(t, root, "newer", o()))
		if _, id, err := run.FindAgent(t.Context(), root, "latest", o()); id != "newer" || err != nil {
			t.Errorf("%s: latest is %q, want newer (%v)", name, id, err)
		}
	}
}

func TestFindAgent_IgnoresTimesThatNoHeadCovers(t *testing.T) {
	t.Parallel()
	root, o := t.TempDir(), withHeads(t)
	older := asking(t, root, "older", o())
	asking(t, root, "newer", o())
	l := must[*record.FileLog](t)(record.OpenFile(older.Path(run.FileLog), nil))
	en := must[record.Entry](t)(event.New(event.Note{Code: "strange"}, "forged", "ada", time.Date(2032, 1, 1, 0, 0, 0, 0, time.UTC)))
	must[record.Head](t)(l.Append(t.Context(), must[record.Head](t)(l.Head(t.Context())), en))
	ok(t, l.Close())
	_, id, err := run.FindAgent(t.Context(), root, "latest", o())
	if diff := cmp.Diff("newer", id); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// A finished run whose log is damaged later has no open question.
func TestFindToAnswer_PassesOverADamagedRunThatEnded(t *testing.T) {
	t.Parallel()
	root, o := t.TempDir(), withHeads(t)
	asking(t, root, "asks", o())
	f, a := create(t, root, "ended", o())
	a.open("cli-preload")
	a.begin()
	a.add(event.RunEnded{Status: run.StatusDone})
	ok(t, f.Close())
	cut(t, f, 3)
	_, id, err := run.FindToAnswer(t.Context(), root, "latest", o())
	if diff := cmp.Diff("asks", id); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestCount_IgnoresWhatNoHeadCovers(t *testing.T) {
	t.Parallel()
	use := event.SkillActivated{Call: "l2", SkillID: "skills:alpha", Name: "alpha", Hash: "h"}
	root, o := t.TempDir(), withHeads(t)
	f := asking(t, root, "r", o())
	count := func() run.Stats {
		return must[run.Stats](t)(run.Count(t.Context(), root, run.StatsOptions{Options: o()}))
	}
	uses := func() int { return count().Skills[0].Uses }
	if diff := cmp.Diff(1, uses()); diff != "" {
		t.Fatal(diff)
	}
	forged(t, f.Dir(), use)
	if diff := cmp.Diff(1, uses()); diff != "" {
		t.Errorf("uses, with a forged entry: %s", diff)
	}
	if diff := cmp.Diff([]string{run.CodeUnanchored}, uncounted(count())); diff != "" {
		t.Errorf("problems, with a forged entry: %s", diff)
	}
	child, a := create(t, f.Children(), "t1.c9", nil)
	a.add(use)
	ok(t, child.Close())
	if diff := cmp.Diff(1, uses()); diff != "" {
		t.Errorf("uses, with a forged subagent: %s", diff)
	}
}

func TestCount_ReportsACutLog(t *testing.T) {
	t.Parallel()
	root, o := t.TempDir(), withHeads(t)
	cut(t, asking(t, root, "r", o()), 3)
	got := must[run.Stats](t)(run.Count(t.Context(), root, run.StatsOptions{Options: o()}))
	if diff := cmp.Diff([]string{run.CodeHeads}, uncounted(got)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(0, got.Runs); diff != "" {
		t.Errorf("runs: %s", diff)
	}
}

func uncounted(s run.Stats) (codes []string) {
	for _, p := range s.Problems {
		codes = append(codes, p.Code)
	}
	return codes
}

// withHeads returns options for runs with recorded heads, of which each starts an hour after the one
// before.
func withHeads(t *testing.T) func() *run.Options {
	state, later := t.TempDir(), laterStarts()
	return func() *run.Options {
		o := later()
		o.StateDir = state
		return o
	}
}
