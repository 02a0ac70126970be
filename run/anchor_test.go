package run_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/event"
	"metier/internal/digest"
	"metier/policy"
	"metier/record"
	"metier/run"
)

// forged appends an event to the log of a folder, as a program does that cannot
// record heads.
func forged(t *testing.T, dir string, e event.Event) {
	t.Helper()
	l := must[*record.FileLog](t)(record.OpenFile(filepath.Join(dir, run.FileLog), nil))
	head := must[record.Head](t)(l.Head(t.Context()))
	en := must[record.Entry](t)(event.New(e, "forged:"+e.Type(), "ada", clock()()))
	_, err := l.Append(t.Context(), head, en)
	ok(t, err)
	ok(t, l.Close())
}

// codes returns the codes of problems, each once.
func codes(list []run.Problem) []string {
	out := []string{}
	for _, p := range list {
		if !slices.Contains(out, p.Code) {
			out = append(out, p.Code)
		}
	}
	return out
}

func verified(t *testing.T, root, id, state string) run.VerifyReport {
	t.Helper()
	return must[run.VerifyReport](t)(run.VerifyAt(t.Context(), root, id, &run.Options{StateDir: state}))
}

func answered(call string) event.ApprovalAnswered {
	return event.ApprovalAnswered{ID: "q-1", Call: call, Binds: "b", Allow: true, Scope: policy.ScopeOnce, By: "ada"}
}

// openRun is the folder of a run in progress, closed.
func openRun(t *testing.T, root, id, state string) *run.Folder {
	t.Helper()
	f, a := create(t, root, id, &run.Options{StateDir: state, NewID: counter(id)})
	a.open("cli-preload")
	a.begin()
	ok(t, f.Project(t.Context()))
	ok(t, f.Close())
	return f
}

func TestOpen_SetsAsideEntriesWithoutHead(t *testing.T) {
	t.Parallel()
	root, state := t.TempDir(), t.TempDir()
	f := openRun(t, root, "r", state)
	whole := string(must[[]byte](t)(os.ReadFile(f.Path(run.FileLog))))
	forged(t, f.Dir(), answered("t1.c0"))
	if diff := cmp.Diff([]string{run.CodeUnanchored}, codes(verified(t, root, "r", state).Problems)); diff != "" {
		t.Error(diff)
	}
	f = must[*run.Folder](t)(run.Open(root, "r", &run.Options{StateDir: state, RequireHead: true}))
	var rec event.RecordRecovered
	for en, err := range f.Log().Read(t.Context(), 1) {
		ok(t, err)
		switch e := must[event.Event](t)(event.Decode(en)).(type) {
		case event.RecordRecovered:
			rec = e
		case event.ApprovalAnswered:
			t.Error("the forged answer is in the log")
		}
	}
	kept := string(must[[]byte](t)(os.ReadFile(f.Path(rec.Kept))))
	want := event.RecordRecovered{Seq: uint64(strings.Count(whole, "\n")), Bytes: len(kept), Digest: digest.Bytes([]byte(kept)), Unanchored: 1, Kept: rec.Kept}
	if diff := cmp.Diff(want, rec); diff != "" {
		t.Error(diff)
	}
	ok(t, f.Close())
	if diff := cmp.Diff([]string{}, codes(verified(t, root, "r", state).Problems)); diff != "" {
		t.Error(diff)
	}
}

// A claim in the tail of a log may have been executed, so its call must not be repeated.
func TestOpen_CountsClaimsWithoutHeadAsLost(t *testing.T) {
	t.Parallel()
	root, state := t.TempDir(), t.TempDir()
	f := openRun(t, root, "r", state)
	forged(t, f.Dir(), event.ToolCallStarted{ID: "t1.c9", Tool: "write_file", Effect: policy.Write})
	f = must[*run.Folder](t)(run.Open(root, "r", &run.Options{StateDir: state, RequireHead: true}))
	rep := must[run.Report](t)(run.Show(t.Context(), f))
	i := slices.IndexFunc(rep.Problems, func(p run.Problem) bool { return p.Code == run.CodeUnanchored })
	if i < 0 || !strings.Contains(rep.Problems[i].Detail, "lost: call.started") {
		t.Errorf("problems: %+v", rep.Problems)
	}
	ok(t, f.Close())
}

func TestOpen_TakesEntriesWithoutHeadWhenTrusted(t *testing.T) {
	t.Parallel()
	root, state := t.TempDir(), t.TempDir()
	f := openRun(t, root, "r", state)
	forged(t, f.Dir(), answered("t1.c0"))
	ok(t, must[*run.Folder](t)(run.Open(root, "r", &run.Options{StateDir: state})).Close())
	if diff := cmp.Diff([]string{}, codes(verified(t, root, "r", state).Problems)); diff != "" {
		t.Error(diff)
	}
}

// A process killed between recording the head and writing the entries leaves a head of entries that
// do not exist.
func TestOpen_ResumesAfterKillBetweenHeadAndAppend(t *testing.T) {
	t.Parallel()
	root, state := t.TempDir(), t.TempDir()
	openRun(t, root, "r", state)
	heads := must[[]string](t)(filepath.Glob(filepath.Join(state, "heads", "*.jsonl")))
	h := must[*record.Heads](t)(record.OpenHeads(heads[0], nil))
	newest, _ := h.Newest("r")
	ok(t, h.Announce("r", record.Head{Seq: newest.Seq + 2, Hash: digest.Bytes([]byte("never written"))}))
	ok(t, h.Close())
	if diff := cmp.Diff([]string{}, codes(verified(t, root, "r", state).Problems)); diff != "" {
		t.Error(diff)
	}
	f := must[*run.Folder](t)(run.Open(root, "r", &run.Options{StateDir: state, RequireHead: true}))
	if head := must[record.Head](t)(f.Log().Head(t.Context())); head.Seq != newest.Seq {
		t.Errorf("the log ends at %d, want %d", head.Seq, newest.Seq)
	}
	ok(t, f.Close())
}

// A process is killed before the first sync: only pending heads cover the log.
func TestOpen_ResumesWithPendingHeadsOnly(t *testing.T) {
	t.Parallel()
	root, state := t.TempDir(), t.TempDir()
	f := openRun(t, root, "r", state)
	heads := must[[]string](t)(filepath.Glob(filepath.Join(state, "heads", "*.jsonl")))
	var pending []string
	for line := range strings.Lines(string(must[[]byte](t)(os.ReadFile(heads[0])))) {
		if strings.Contains(line, `"pending":true`) {
			pending = append(pending, line)
		}
	}
	ok(t, os.WriteFile(heads[0], []byte(strings.Join(pending, "")), 0o600))
	if r := verified(t, root, "r", state); !r.OK || !r.HasHeads {
		t.Errorf("ok %v, witnessed %v: %+v", r.OK, r.HasHeads, r.Problems)
	}
	forged(t, f.Dir(), answered("t1.c0"))
	if diff := cmp.Diff([]string{run.CodeUnanchored}, codes(verified(t, root, "r", state).Problems)); diff != "" {
		t.Error(diff)
	}
	ok(t, must[*run.Folder](t)(run.Open(root, "r", &run.Options{StateDir: state, RequireHead: true})).Close())
}

// The folder of one run replaces that of another: both are genuine.
func TestOpen_RefusesRecordOfAnotherRun(t *testing.T) {
	t.Parallel()
	root, state := t.TempDir(), t.TempDir()
	one, two := openRun(t, root, "one", state), openRun(t, root, "two", state)
	ok(t, os.RemoveAll(one.Dir()))
	ok(t, os.Rename(two.Dir(), one.Dir()))
	_, err := run.Open(root, "one", &run.Options{StateDir: state, RequireHead: true})
	wantCode(t, err, run.CodeHeads, metier.Drift)
	if r := verified(t, root, "one", state); r.OK {
		t.Error("the record verifies")
	}
	ok(t, os.Rename(one.Dir(), filepath.Join(root, "three")))
	_, err = run.Open(root, "three", &run.Options{StateDir: state, RequireHead: true})
	wantCode(t, err, run.CodeStranger, metier.Denied)
}

// An older, once genuine state of the same run is restored.
func TestOpen_RefusesOlderStateOfTheRun(t *testing.T) {
	t.Parallel()
	root, state := t.TempDir(), t.TempDir()
	f := openRun(t, root, "r", state)
	old := must[[]byte](t)(os.ReadFile(f.Path(run.FileLog)))
	f = must[*run.Folder](t)(run.Open(root, "r", &run.Options{StateDir: state, RequireHead: true}))
	head := must[record.Head](t)(f.Log().Head(t.Context()))
	_, err := f.Log().Append(t.Context(), head, must[record.Entry](t)(event.New(answered("t1.c0"), "a", "ada", clock()())))
	ok(t, err)
	ok(t, f.Close())
	ok(t, os.WriteFile(f.Path(run.FileLog), old, 0o600))
	_, err = run.Open(root, "r", &run.Options{StateDir: state, RequireHead: true})
	wantCode(t, err, run.CodeHeads, metier.Drift)
}

// Heads in another user's folder are not trusted.
func TestOpen_RefusesWithoutOwnHeads(t *testing.T) {
	t.Parallel()
	root, state, other := t.TempDir(), t.TempDir(), t.TempDir()
	openRun(t, root, "r", state)
	for range 2 { // the first refusal leaves nothing that a second one takes for heads
		_, err := run.Open(root, "r", &run.Options{StateDir: other, RequireHead: true})
		wantCode(t, err, run.CodeStranger, metier.Denied)
	}
}

func TestVerify_FindsEntriesAfterTheEnd(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]event.Event{
		"run":     event.RunEnded{Run: "r", Status: run.StatusDone},
		"session": event.SessionEnded{Session: "r"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			f, a := create(t, root, "r", nil)
			a.open("cli-preload")
			a.begin()
			a.add(end)
			ok(t, f.Close())
			if diff := cmp.Diff([]string{}, codes(verified(t, root, "r", "").Problems)); diff != "" {
				t.Error(diff)
			}
			forged(t, f.Dir(), event.Note{Code: "strange"})
			if diff := cmp.Diff([]string{run.CodeAfterEnd}, codes(verified(t, root, "r", "").Problems)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestVerify_FindsForgedEntriesOfSubagents(t *testing.T) {
	t.Parallel()
	root, state := t.TempDir(), t.TempDir()
	o := func() *run.Options { return &run.Options{StateDir: state, NewID: counter("n")} }
	f, a := create(t, root, "r", o())
	a.open("cli-preload")
	a.begin()
	a.add(event.ToolCallStarted{ID: "t1.c5", Tool: "delegate_task", Effect: policy.SideEffect})
	k, ka := create(t, f.Children(), "t1.c5", o())
	ka.open("subagent-inherit")
	ok(t, k.Close())
	ok(t, f.Close())
	if diff := cmp.Diff([]string{}, codes(verified(t, root, "r", state).Problems)); diff != "" {
		t.Error(diff)
	}
	forged(t, k.Dir(), answered("t1.c0"))
	if diff := cmp.Diff([]string{run.CodeUnanchored}, codes(verified(t, root, "r", state).Problems)); diff != "" {
		t.Error(diff)
	}

	// It ended, and the run names its last entry.
	ok(t, must[*run.Folder](t)(run.Open(f.Children(), "t1.c5", &run.Options{StateDir: state, RequireHead: true})).Close())
	k = must[*run.Folder](t)(run.Look(f.Children(), "t1.c5", o()))
	head := must[record.Head](t)(k.Log().Head(t.Context()))
	ok(t, k.Close())
	f = must[*run.Folder](t)(run.Open(root, "r", &run.Options{StateDir: state, RequireHead: true}))
	end := must[record.Entry](t)(event.New(event.ChildEnded{ID: "t1.c5", Run: "t1.c5", Head: head}, "ce", "ada", clock()()))
	_, err := f.Log().Append(t.Context(), must[record.Head](t)(f.Log().Head(t.Context())), end)
	ok(t, err)
	ok(t, f.Close())
	if diff := cmp.Diff([]string{}, codes(verified(t, root, "r", state).Problems)); diff != "" {
		t.Error(diff)
	}
	forged(t, k.Dir(), answered("t1.c0"))
	if diff := cmp.Diff([]string{"child_unverified"}, codes(verified(t, root, "r", state).Problems)); diff != "" {
		t.Error(diff)
	}
}

func TestVerify_FindsFoldersNoCallBegan(t *testing.T) {
	t.Parallel()
	root, state := t.TempDir(), t.TempDir()
	f := openRun(t, root, "r", state)
	openRun(t, f.Children(), "t9.c0", "")
	r := verified(t, root, "r", state)
	if r.OK {
		t.Error("the record verifies")
	}
	if diff := cmp.Diff([]string{run.CodeChild}, codes(r.Problems)); diff != "" {
		t.Error(diff)
	}
}

func TestVerify_FindsEmptyLog(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	f, _ := create(t, root, "r", nil)
	ok(t, f.Close())
	if diff := cmp.Diff([]string{run.CodeEmpty}, codes(verified(t, root, "r", "").Problems)); diff != "" {
		t.Error(diff)
	}
}

// The record is from a build that recorded heads only at each sync.
func TestVerify_ReadsHeadsOfOlderBuilds(t *testing.T) {
	t.Parallel()
	root, state := t.TempDir(), t.TempDir()
	openRun(t, root, "r", state)
	heads := must[[]string](t)(filepath.Glob(filepath.Join(state, "heads", "*.jsonl")))
	var sure []string
	for line := range strings.Lines(string(must[[]byte](t)(os.ReadFile(heads[0])))) {
		var l record.HeadLine
		if json.Unmarshal([]byte(line), &l) == nil && !l.Pending {
			sure = append(sure, line)
		}
	}
	ok(t, os.WriteFile(heads[0], []byte(strings.Join(sure, "")), 0o600))
	if r := verified(t, root, "r", state); !r.OK || !r.HasHeads {
		t.Errorf("ok %v, witnessed %v: %+v", r.OK, r.HasHeads, r.Problems)
	}
	ok(t, must[*run.Folder](t)(run.Open(root, "r", &run.Options{StateDir: state, RequireHead: true})).Close())
}
