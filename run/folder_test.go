package run_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/event"
	"metier/internal/atomicfile"
	"metier/internal/testenv"
	"metier/record"
	"metier/run"
)

func TestIDsFollowTheRule(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"a", "A.b_c-9", "...", ".hidden", strings.Repeat("x", 128)} {
		if err := run.CheckID(id); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
	for _, id := range []string{"", ".", "..", "a/b", `a\b`, "a b", "ä", "a\x00", strings.Repeat("x", 129)} {
		wantCode(t, run.CheckID(id), run.CodeIDInvalid, metier.Invalid)
		_, err := run.Create(t.TempDir(), id, nil)
		wantCode(t, err, run.CodeIDInvalid, metier.Invalid)
	}
}

func TestCreateRefusesARunThatIsThere(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	create(t, root, "one", nil)
	_, err := run.Create(root, "one", nil)
	wantCode(t, err, run.CodeExists, metier.Conflict)
	_, err = run.Open(root, "two", nil)
	wantCode(t, err, run.CodeNotFound, metier.NotFound)
}

func TestSecondWriterIsToldWhoHolds(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	f, a := create(t, root, "held", nil)
	a.open("cli-preload")
	_, err := run.Open(root, "held", nil)
	e := wantCode(t, err, run.CodeLocked, metier.Conflict)
	if !strings.Contains(e.Error(), fmt.Sprintf("process %d on ", os.Getpid())) {
		t.Errorf("the error does not name the holder: %v", e)
	}
	look := must[*run.Folder](t)(run.Look(root, "held", nil))
	if st := must[run.Report](t)(run.Show(t.Context(), look)); st.Status != run.StatusOpen {
		t.Errorf("a reader sees status %s", st.Status)
	}
	ok(t, look.Close())
	ok(t, f.Close())
	again := must[*run.Folder](t)(run.Open(root, "held", nil))
	ok(t, again.Close())
}

func TestOfManyOpenersOneGetsTheRun(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	f, _ := create(t, root, "race", nil)
	ok(t, f.Close())
	var wg sync.WaitGroup
	var mu sync.Mutex
	var won []*run.Folder
	for range 8 {
		wg.Go(func() {
			f, err := run.Open(root, "race", nil)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won = append(won, f)
			} else if metier.CodeOf(err) != run.CodeLocked {
				t.Errorf("loser got %v", err)
			}
		})
	}
	wg.Wait()
	if len(won) != 1 {
		t.Fatalf("%d openers got the run", len(won))
	}
	ok(t, won[0].Close())
}

func TestFindTakesWhatPeopleWrite(t *testing.T) {
	t.Parallel()
	root, startedLater := t.TempDir(), laterStarts()
	for _, id := range []string{"2031-a", "other", "2031-b"} {
		f, a := create(t, root, id, startedLater())
		a.open("cli-preload")
		ok(t, f.Project(t.Context()))
		ok(t, f.Close())
	}
	ok(t, os.Chtimes(filepath.Join(root, "2031-a", "events.jsonl"), time.Time{}, time.Now().Add(time.Hour))) // anyone can do this
	for what, want := range map[string]string{"other": "other", "oth": "other", "latest": "2031-b", "2031-a": "2031-a",
		filepath.Join(root, "2031-a"): "2031-a", filepath.Join(root, "2031-b", "run-state.json"): "2031-b"} {
		gotRoot, id, err := run.Find(root, what)
		ok(t, err)
		if id != want || gotRoot != root {
			t.Errorf("Find(%q) = %s %s, want %s", what, gotRoot, id, want)
		}
	}
	_, _, err := run.Find(root, "2031")
	wantCode(t, err, run.CodeAmbiguous, metier.Invalid)
	for _, what := range []string{"nobody", filepath.Join(root, "nothing", "run-state.json"), root} {
		_, _, err = run.Find(root, what)
		wantCode(t, err, run.CodeNotFound, metier.NotFound)
	}
	_, _, err = run.Find(filepath.Join(root, "none"), "latest")
	wantCode(t, err, run.CodeNotFound, metier.NotFound)
}

// laterStarts returns options for runs of which each starts an hour after the one before.
func laterStarts() func() *run.Options {
	at := time.Date(2031, 5, 4, 10, 0, 0, 0, time.UTC)
	return func() *run.Options {
		at = at.Add(time.Hour)
		now := at
		return &run.Options{Now: func() time.Time { now = now.Add(time.Second); return now }}
	}
}

func TestLatest_DoesNotPassOverADamagedRun(t *testing.T) {
	t.Parallel()
	find := map[string]func(root string) (string, string, error){
		"Find":        func(root string) (string, string, error) { return run.Find(root, "latest") },
		"FindAgent":   func(root string) (string, string, error) { return run.FindAgent(t.Context(), root, "latest", nil) },
		"FindWaiting": func(root string) (string, string, error) { return run.FindWaiting(t.Context(), root, "latest", nil) },
	}
	for _, tt := range []struct {
		name, last string
		state      bool
	}{{"with its state", "b", true}, {"with a time in its ID", "20310504-130000-b", false}} {
		root, startedLater := t.TempDir(), laterStarts()
		for _, id := range []string{"a", tt.last} {
			f, a := create(t, root, id, startedLater())
			a.open("cli-preload")
			a.begin()
			a.add(event.ApprovalRequested{Call: "t1.c1", ID: "q", Code: "c", Scopes: []string{"once"}, Text: a.text("?")}, event.RunWaiting{Run: id, Asks: []string{"q"}})
			if tt.state {
				ok(t, f.Project(t.Context()))
			}
			ok(t, f.Close())
		}
		ok(t, os.Mkdir(filepath.Join(root, "no-run"), 0o700))
		ok(t, os.Remove(filepath.Join(root, tt.last, run.FileLog)))
		for by, find := range find {
			if _, id, err := find(root); id != tt.last || err != nil {
				t.Errorf("%s, %s: latest is %q, want %q (%v)", tt.name, by, id, tt.last, err)
			}
		}
		list := must[[]run.Summary](t)(run.List(t.Context(), root, nil))
		run.NewestFirst(list)
		if list[0].ID != tt.last || list[2].ID != "no-run" {
			t.Errorf("%s: listed as %s, %s, %s", tt.name, list[0].ID, list[1].ID, list[2].ID)
		}
	}
}

func TestFindAgent_TakesTheRunThatChangedLast(t *testing.T) {
	t.Parallel()
	root, startedLater := t.TempDir(), laterStarts()
	var first *author
	for _, id := range []string{"z", "a"} {
		_, a := create(t, root, id, startedLater())
		a.open("cli-preload")
		a.begin()
		if first == nil {
			first = a
		}
	}
	want := func(id string) {
		t.Helper()
		if _, got, err := run.FindAgent(t.Context(), root, "latest", nil); got != id || err != nil {
			t.Errorf("latest is %q, want %q (%v)", got, id, err)
		}
	}
	want("a")
	first.now = func() time.Time { return time.Date(2031, 5, 5, 0, 0, 0, 0, time.UTC) }
	first.turn(1)
	want("z")
	if _, got, err := run.Find(root, "latest"); got != "a" || err != nil {
		t.Errorf("the run started last is %q, want a (%v)", got, err)
	}
}

func TestFindWaiting_TakesTheNewestQuestion(t *testing.T) {
	t.Parallel()
	root, at := t.TempDir(), time.Time{}
	waiting := func(id string, asked time.Duration) {
		at = time.Date(2031, 5, 4, 10, 0, 0, 0, time.UTC)
		f, a := create(t, root, id, &run.Options{Now: func() time.Time { return at }})
		a.open("cli-preload")
		a.begin()
		at = at.Add(asked)
		a.add(event.ApprovalRequested{Call: "t1.c1", ID: "q", Code: "c", Scopes: []string{"once"}, Text: a.text("?")}, event.RunWaiting{Run: id, Asks: []string{"q"}})
		ok(t, f.Close())
	}
	waiting("a", 5100*time.Millisecond)
	waiting("b", 5*time.Second)
	_, id, err := run.FindWaiting(t.Context(), root, "latest", nil)
	if diff := cmp.Diff("a", id); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func needsLinks(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" {
		testenv.Skip(t, "symlinks need a privilege on windows")
	}
}

func TestLinksInAFolderAreRefused(t *testing.T) {
	t.Parallel()
	needsLinks(t)
	root, outside := t.TempDir(), t.TempDir()
	f, a := create(t, root, "real", nil)
	a.open("cli-preload")
	ok(t, f.Close())
	ok(t, os.Symlink(filepath.Join(root, "real"), filepath.Join(root, "linked")))
	_, err := run.Open(root, "linked", nil)
	wantCode(t, err, run.CodeFolderBad, metier.Denied)
	ok(t, os.WriteFile(filepath.Join(outside, "victim"), nil, 0o600))
	ok(t, os.Remove(f.Path("lock")))
	ok(t, os.Symlink(filepath.Join(outside, "victim"), f.Path("lock")))
	_, err = run.Open(root, "real", nil)
	wantCode(t, err, run.CodeFolderBad, metier.Denied)
	ok(t, os.Remove(f.Path("lock")))
	ok(t, os.Symlink(outside, f.Children()))
	_, err = run.Open(root, "real", nil)
	wantCode(t, err, run.CodeFolderBad, metier.Denied)
	ok(t, os.Remove(f.Children()))
	ok(t, os.Symlink(outside, f.Path("blobs/00")))
	_, err = run.Open(root, "real", nil)
	wantCode(t, err, run.CodeFolderBad, metier.Denied)
	ok(t, os.Remove(f.Path("blobs/00")))
	ok(t, os.Symlink(outside, f.Path("tool-outputs")))
	f = must[*run.Folder](t)(run.Open(root, "real", nil))
	defer f.Close()
	wantCode(t, f.Project(t.Context()), run.CodeFolderBad, metier.Denied)
	if entries := must[[]os.DirEntry](t)(os.ReadDir(outside)); len(entries) != 1 {
		t.Errorf("something was written through the link: %v", entries)
	}
}

// A link that takes the place of a run's folder does not lead to the heads of another run, which
// would be removed with it.
func TestKnown_DoesNotFollowLinks(t *testing.T) {
	t.Parallel()
	needsLinks(t)
	root, o := t.TempDir(), &run.Options{StateDir: t.TempDir()}
	f, a := create(t, root, "victim", o)
	a.open("cli-preload")
	ok(t, f.Close())
	ok(t, os.Symlink("victim", filepath.Join(root, "planted")))
	if run.Known(root, "planted", o) {
		t.Error("the link has the heads of what it leads to")
	}
	if !run.Known(root, "victim", o) {
		t.Error("the run has no heads")
	}
}

// A link between the folder of a run and Top, which may have been made after a check, leads nowhere.
func TestOpen_NoLinkLeadsOutOfTop(t *testing.T) {
	t.Parallel()
	needsLinks(t)
	root, elsewhere := t.TempDir(), t.TempDir()
	parent, a := create(t, root, "parent", nil)
	a.open("cli-preload")
	child, b := create(t, elsewhere, "child", nil)
	b.open("cli-preload")
	ok(t, child.Close())
	ok(t, os.Symlink(elsewhere, parent.Children()))
	o := &run.Options{Top: parent.Top()}
	for what, open := range map[string]func() (*run.Folder, error){
		"create": func() (*run.Folder, error) { return run.Create(parent.Children(), "new", o) },
		"open":   func() (*run.Folder, error) { return run.Open(parent.Children(), "child", o) },
		"look":   func() (*run.Folder, error) { return run.Look(parent.Children(), "child", o) },
	} {
		if f, err := open(); err == nil {
			t.Errorf("%s followed the link", what)
			ok(t, f.Close())
		}
	}
	if err := parent.RemoveChild("child"); err == nil {
		t.Error("a child was removed through the link")
	}
	if diff := cmp.Diff([]string{"child"}, names(t, elsewhere)); diff != "" {
		t.Errorf("elsewhere (-want +got):\n%s", diff)
	}
	ok(t, parent.Close())
}

func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	for _, e := range must[[]os.DirEntry](t)(os.ReadDir(dir)) {
		out = append(out, e.Name())
	}
	return out
}

func TestReadOnlyFolderCanBeLookedAt(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 || runtime.GOOS == "windows" {
		readOnlyByFlag(t)
		return
	}
	root := t.TempDir()
	f, a := create(t, root, "ro", nil)
	a.open("cli-preload")
	ok(t, f.Project(t.Context()))
	ok(t, f.Close())
	for _, p := range []string{f.Path("tool-outputs"), f.Path("blobs"), f.Dir()} {
		ok(t, os.Chmod(p, 0o500))
		t.Cleanup(func() { _ = os.Chmod(p, 0o700) })
	}
	f = must[*run.Folder](t)(run.Look(root, "ro", nil))
	defer f.Close()
	if rep := must[run.VerifyReport](t)(run.Verify(t.Context(), f)); !rep.OK {
		t.Errorf("%+v", rep.Problems)
	}
	w := must[*run.Folder](t)(run.Open(root, "ro", nil))
	defer w.Close()
	(&author{t: t, f: w, now: clock()}).add(event.Note{Code: "changed"})
	wantCode(t, w.Project(t.Context()), "read_only", metier.Unavailable)
}

// readOnlyByFlag is the same if permissions are not enforced: a folder opened
// for reading is not written.
func readOnlyByFlag(t *testing.T) {
	root := t.TempDir()
	f, a := create(t, root, "ro", nil)
	a.open("cli-preload")
	ok(t, f.Project(t.Context()))
	ok(t, f.Close())
	before := tree(t, root)
	f = must[*run.Folder](t)(run.Look(root, "ro", nil))
	defer f.Close()
	if rep := must[run.VerifyReport](t)(run.Verify(t.Context(), f)); !rep.OK {
		t.Errorf("%+v", rep.Problems)
	}
	wantCode(t, f.Project(t.Context()), "read_only", metier.Invalid)
	_, err := f.Log().Append(t.Context(), record.Head{}, record.Entry{ID: "x", Type: "note"})
	if record.CodeOf(err) != record.CodeReadOnly {
		t.Errorf("append to a run that is looked at: %v", err)
	}
	if d := cmp.Diff(before, tree(t, root)); d != "" {
		t.Errorf("looking changed the folder: %s", d)
	}
}

// tree returns every file of a folder with its content.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	ok(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		out[path] = string(b)
		return err
	}))
	return out
}

// Not parallel: the hook applies to the whole process.
func TestFullDiskLeavesOldArtifactsWhole(t *testing.T) {
	f, a := create(t, t.TempDir(), "full", nil)
	a.open("cli-preload")
	a.begin()
	ok(t, f.Project(t.Context()))
	before := files(t, f)
	a.turn(1)
	undo := atomicfile.SetHook(func(stage, _ string) error {
		if stage == atomicfile.AfterWrite {
			return syscall.ENOSPC
		}
		return nil
	})
	err := f.Project(t.Context())
	undo()
	wantCode(t, err, "disk_full", metier.Unavailable)
	if d := cmp.Diff(before, files(t, f)); d != "" {
		t.Errorf("a full disk changed artifacts: %s", d)
	}
	noTemporaries(t, f.Dir())
	ok(t, f.Project(t.Context()))
	if rep := must[run.VerifyReport](t)(run.Verify(t.Context(), f)); !rep.OK || rep.Artifacts[run.FileTranscript] != "equal" {
		t.Errorf("after the disk has room again: %+v", rep)
	}
}

// A run has the artifacts that a resume reads from the start. Once it has others, all are from one part
// of the log.
func TestProjectStart_WritesWhatAResumeReads(t *testing.T) {
	t.Parallel()
	f, a := create(t, t.TempDir(), "begin", nil)
	a.open("cli-preload")
	a.begin()
	ok(t, f.ProjectStart(t.Context()))
	start := files(t, f)
	want := []string{run.FileState, run.FileActivations, run.FileRegistry}
	if d := cmp.Diff(want, slices.Sorted(maps.Keys(start))); d != "" {
		t.Error(d)
	}
	if rep := must[run.VerifyReport](t)(run.Verify(t.Context(), f)); !rep.OK || rep.Artifacts[run.FileTranscript] != "missing" {
		t.Errorf("%+v", rep)
	}
	ok(t, f.Project(t.Context()))
	all := files(t, f)
	for name, b := range start {
		if string(all[name]) != string(b) {
			t.Errorf("%s differs from that of Project", name)
		}
	}
	a.turn(1)
	ok(t, f.ProjectStart(t.Context()))
	artifactsAreEqual(t, f)
	noTemporaries(t, f.Dir())
	must[run.Restored](t)(f.Restore(t.Context()))
}

func noTemporaries(t *testing.T, dir string) {
	t.Helper()
	for path := range tree(t, dir) {
		if strings.HasSuffix(path, ".tmp") {
			t.Errorf("%s was left behind", path)
		}
	}
}

const crashEnv = "METIER_RUN_CRASH" // root of the run that the child projects

// TestMain also implements the process that is killed between writing the temporary file and
// renaming it.
func TestMain(m *testing.M) {
	if root := os.Getenv(crashEnv); root != "" {
		fmt.Fprintln(os.Stderr, crash(root))
		os.Exit(1) // it should be dead by now
	}
	os.Exit(m.Run())
}

// crash kills the process right before the fourth rename of Project.
func crash(root string) error {
	f, err := run.Open(root, "crash", &run.Options{Now: clock()})
	if err != nil {
		return err
	}
	n := 0
	atomicfile.SetHook(func(stage, _ string) error {
		if stage == atomicfile.BeforeRename {
			n++
		}
		if n < 4 {
			return nil
		}
		testenv.Die("the fourth rename")
		return nil
	})
	return f.Project(context.Background())
}

// req: A-153
func TestKillBetweenTempAndRenameLeavesArtifactsWhole(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	f, a := create(t, root, "crash", nil)
	a.open("cli-preload")
	a.begin()
	ok(t, f.Project(t.Context()))
	old := files(t, f)
	a.turn(1)
	ok(t, f.Close())
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashEnv+"="+root)
	out, err := cmd.CombinedOutput()
	if !testenv.DiedAt(cmd.ProcessState, out, "the fourth rename") {
		t.Fatalf("the child was not killed: %v\n%s", err, out)
	}
	f = must[*run.Folder](t)(run.Open(root, "crash", &run.Options{Now: clock()}))
	defer f.Close()
	now := files(t, f)
	changed := 0
	for name, b := range now {
		valid(t, name, b)
		if string(old[name]) != string(b) {
			changed++
		}
	}
	if changed != 3 {
		t.Errorf("%d artifacts are new, want the 3 that were renamed before the kill", changed)
	}
	if string(now[run.FileState]) != string(old[run.FileState]) {
		t.Error("the checkpoint was renamed before the others")
	}
	rep := must[run.VerifyReport](t)(run.Verify(t.Context(), f))
	if !rep.OK {
		t.Errorf("old and new artifacts side by side speak against the record: %+v", rep.Problems)
	}
	ok(t, f.Project(t.Context()))
	noTemporaries(t, f.Dir())
	artifactsAreEqual(t, f)
}

// artifactsAreEqual checks that the record has no problems and that all its artifacts match it.
func artifactsAreEqual(t *testing.T, f *run.Folder) {
	t.Helper()
	want := map[string]string{}
	for name := range files(t, f) {
		want[name] = "equal"
	}
	if len(want) == 0 {
		t.Fatal("there are no artifacts")
	}
	r := must[run.VerifyReport](t)(run.Verify(t.Context(), f))
	if d := cmp.Diff(want, r.Artifacts); d != "" {
		t.Errorf("artifacts (-want +got):\n%s", d)
	}
	if !r.OK {
		t.Errorf("the record has problems: %+v", r.Problems)
	}
}

func TestConcurrentProjectsLeaveTheNewestWhole(t *testing.T) {
	t.Parallel()
	f, a := create(t, t.TempDir(), "many", nil)
	a.open("cli-preload")
	a.begin()
	var wg sync.WaitGroup
	for i := range 6 {
		a.turn(i + 1)
		wg.Go(func() {
			if err := f.Project(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	ok(t, f.Project(t.Context()))
	artifactsAreEqual(t, f)
}

func TestTornTailIsRecordedWithWhatWasLost(t *testing.T) {
	t.Parallel()
	root, state := t.TempDir(), t.TempDir()
	opt := func() *run.Options { return &run.Options{Now: clock(), NewID: counter("n"), StateDir: state} }
	f, a := create(t, root, "torn", opt())
	a.open("cli-preload")
	ok(t, f.Close())
	path := f.Path("events.jsonl")
	b := must[[]byte](t)(os.ReadFile(path))
	ok(t, os.WriteFile(path, b[:len(b)-7], 0o600))
	f = must[*run.Folder](t)(run.Open(root, "torn", opt()))
	var rec event.RecordRecovered
	for en, err := range f.Log().Read(t.Context(), 1) {
		ok(t, err)
		if e, err := event.Decode(en); err == nil {
			if r, isRec := e.(event.RecordRecovered); isRec {
				rec = r
			}
		}
	}
	if rec.LostType != "call.returned" || rec.LostID == "" || rec.Bytes == 0 || rec.Digest == "" {
		t.Errorf("recovered: %+v", rec)
	}
	rep := must[run.Report](t)(run.Show(t.Context(), f))
	if len(rep.Problems) == 0 || rep.Problems[0].Code != run.CodeRecovered || !strings.Contains(rep.Problems[0].Detail, "call.returned") {
		t.Errorf("problems: %+v", rep.Problems)
	}
	ok(t, f.Close())
	f = must[*run.Folder](t)(run.Open(root, "torn", opt()))
	ok(t, f.Close())
}

func TestCutOrRewrittenLogIsFoundByItsHeads(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(lines []string) []string{
		"the last entry is cut off":        func(l []string) []string { return l[:len(l)-2] },
		"nothing but the first entry left": func(l []string) []string { return l[:1] },
	} {
		root, state := t.TempDir(), t.TempDir()
		f, a := create(t, root, "cut", &run.Options{StateDir: state})
		a.open("cli-preload")
		ok(t, f.Close())
		path := f.Path("events.jsonl")
		lines := strings.SplitAfter(string(must[[]byte](t)(os.ReadFile(path))), "\n")
		ok(t, os.WriteFile(path, []byte(strings.Join(damage(lines), "")), 0o600))
		_, err := run.Open(root, "cut", &run.Options{StateDir: state})
		wantCode(t, err, run.CodeHeads, metier.Drift)
		look := must[*run.Folder](t)(run.Look(root, "cut", &run.Options{StateDir: state}))
		if rep := must[run.VerifyReport](t)(run.Verify(t.Context(), look)); rep.OK {
			t.Errorf("%s: the record verifies", name)
		}
		ok(t, look.Close())
	}
	// Completely rewritten: another log replaces the first.
	root, state := t.TempDir(), t.TempDir()
	f, a := create(t, root, "anew", &run.Options{StateDir: state})
	a.open("cli-preload")
	ok(t, f.Close())
	ok(t, os.RemoveAll(f.Dir()))
	f, a = create(t, root, "anew", nil) // a forger has no state folder
	a.open("model-tool")
	a.begin()
	ok(t, f.Close())
	_, err := run.Open(root, "anew", &run.Options{StateDir: state})
	wantCode(t, err, run.CodeHeads, metier.Drift)
}

func TestARunMadeAgainInTheSamePlaceHasItsOwnHeads(t *testing.T) {
	t.Parallel()
	root, state := t.TempDir(), t.TempDir()
	for range 2 {
		f, a := create(t, root, "again", &run.Options{StateDir: state})
		a.open("cli-preload")
		ok(t, f.Close())
		if r := must[run.VerifyReport](t)(run.VerifyAt(t.Context(), root, "again", &run.Options{StateDir: state})); !r.HasHeads {
			t.Error("the heads are gone")
		}
		ok(t, os.RemoveAll(f.Dir()))
	}
}

func TestADamagedHeadIsNamed(t *testing.T) {
	t.Parallel()
	root, state := t.TempDir(), t.TempDir()
	f, a := create(t, root, "run", &run.Options{StateDir: state})
	a.open("cli-preload")
	ok(t, f.Close())
	files := must[[]string](t)(filepath.Glob(filepath.Join(state, "heads", "*.jsonl")))
	if len(files) != 1 {
		t.Fatalf("files of heads: %q", files)
	}
	ok(t, os.WriteFile(files[0], append(must[[]byte](t)(os.ReadFile(files[0])), "no head\n"...), 0o600))
	r := must[run.VerifyReport](t)(run.VerifyAt(t.Context(), root, "run", &run.Options{StateDir: state}))
	named := slices.ContainsFunc(r.Warnings, func(p run.Problem) bool { return p.Code == run.CodeHeadsBad })
	if !r.HasHeads || !named {
		t.Errorf("witnessed %v, warnings %+v", r.HasHeads, r.Warnings)
	}
}

func TestSecretsDoNotReachTheFolder(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	f, a := create(t, t.TempDir(), "secret", &run.Options{Logger: slog.New(slog.NewTextHandler(&logged, nil)),
		Secrets: []record.Secret{{Name: "KEY", Value: "sk-very-secret-value"}, {Name: "PIN", Value: "1234"}}})
	a.open("cli-preload")
	a.begin()
	a.add(event.Input{ID: "s", Content: a.json(map[string]any{"role": "user", "parts": []any{map[string]string{"kind": "text", "text": "use sk-very-secret-value"}}})})
	ok(t, f.Project(t.Context()))
	for path, b := range tree(t, f.Dir()) {
		if strings.Contains(b, "sk-very-secret-value") {
			t.Errorf("%s holds the secret", path)
		}
	}
	if !strings.Contains(logged.String(), "name=PIN") {
		t.Errorf("a secret that is not looked for was not named: %s", logged.String())
	}
}

// A link that takes the place of the log of an open folder does not put another file into an export.
func TestExport_FollowsNoLinkToALog(t *testing.T) {
	t.Parallel()
	needsLinks(t)
	root, secret := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	ok(t, os.WriteFile(secret, []byte("secret"), 0o600))
	f, a := create(t, root, "real", nil)
	a.open("cli-preload")
	ok(t, f.Close())
	f = must[*run.Folder](t)(run.Look(root, "real", nil))
	defer f.Close()
	ok(t, os.Remove(f.Path(run.FileLog)))
	ok(t, os.Symlink(secret, f.Path(run.FileLog)))
	_, err := f.Collected(t.Context(), run.FileLog)
	wantCode(t, err, run.CodeFolderBad, metier.Denied)
}
