package run_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/event"
	"metier/policy"
	"metier/record"
	"metier/run"
)

// parent is the closed folder of a run that began the subagent t1.c0, and that of the subagent.
func parent(t *testing.T, root, state string, ended bool) (f, k *run.Folder) {
	t.Helper()
	o := func() *run.Options { return &run.Options{StateDir: state, NewID: counter("n")} }
	f, a := create(t, root, "r", o())
	a.open("cli-preload")
	a.begin()
	a.add(event.ToolCallStarted{ID: "t1.c0", Tool: "delegate_task", Effect: policy.SideEffect})
	k, ka := create(t, f.Children(), "t1.c0", o())
	ka.open("subagent-inherit")
	ok(t, k.Project(t.Context()))
	head := must[record.Head](t)(k.Log().Head(t.Context()))
	ok(t, k.Close())
	if ended {
		a.add(event.ChildEnded{ID: "t1.c0", Run: "t1.c0", Head: head})
	}
	ok(t, f.Close())
	if diff := cmp.Diff([]string{}, codes(verified(t, root, "r", state).Problems)); diff != "" {
		t.Fatal(diff)
	}
	return f, k
}

func TestVerify_FindsLinksInFoldersOfSubagents(t *testing.T) {
	t.Parallel()
	for name, ended := range map[string]bool{"ended": true, "not ended": false} {
		for what, link := range map[string]func(k *run.Folder) error{
			"lock":   func(k *run.Folder) error { return os.Symlink(run.FileLog, k.Path("lock")) },
			"blobs":  func(k *run.Folder) error { return moved(t, k.Path("blobs")) },
			"folder": func(k *run.Folder) error { return moved(t, k.Dir()) },
		} {
			t.Run(name+" "+what, func(t *testing.T) {
				t.Parallel()
				root, state := t.TempDir(), t.TempDir()
				_, k := parent(t, root, state, ended)
				_ = os.Remove(k.Path("lock"))
				ok(t, link(k))
				if r := verified(t, root, "r", state); r.OK {
					t.Errorf("it verifies: %+v", r)
				}
			})
		}
	}
}

// moved moves a path elsewhere and puts a link to it in its place.
func moved(t *testing.T, path string) error {
	to := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.Rename(path, to); err != nil {
		return err
	}
	return os.Symlink(to, path)
}

func TestVerify_FindsLostRecordsOfSubagents(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lose func(k *run.Folder) error
		want []string
	}{
		"emptied":  {func(k *run.Folder) error { return os.Truncate(k.Path(run.FileLog), 0) }, []string{string(record.CodeCut)}},
		"no log":   {func(k *run.Folder) error { return os.Remove(k.Path(run.FileLog)) }, []string{run.CodeNoLog, string(record.CodeCut)}},
		"removed":  {func(k *run.Folder) error { return os.RemoveAll(k.Dir()) }, []string{run.CodeNoLog}},
		"children": {func(k *run.Folder) error { return os.RemoveAll(filepath.Dir(k.Dir())) }, []string{run.CodeNoLog}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root, state := t.TempDir(), t.TempDir()
			_, k := parent(t, root, state, false)
			ok(t, c.lose(k))
			got := codes(verified(t, root, "r", state).Problems)
			got = slices.DeleteFunc(got, func(code string) bool { return code == run.CodeArtifact }) // those of an emptied log
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestVerify_FindsLostRecordOfEndedSubagent(t *testing.T) {
	t.Parallel()
	root, state := t.TempDir(), t.TempDir()
	_, k := parent(t, root, state, true)
	ok(t, os.Remove(k.Path(run.FileLog)))
	if r := verified(t, root, "r", state); r.OK {
		t.Error("it verifies without the log")
	}
	ok(t, os.RemoveAll(k.Dir()))
	if r := verified(t, root, "r", state); r.OK {
		t.Error("it verifies without the folder")
	}
}

// A process that is killed before it writes anything leaves an empty folder, or an empty log.
func TestVerify_AcceptsSubagentsThatWroteNothing(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(k *run.Folder) error{
		"no log":    func(k *run.Folder) error { return os.MkdirAll(k.Dir(), 0o700) },
		"empty log": func(k *run.Folder) error { return os.WriteFile(k.Path(run.FileLog), nil, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root, state := t.TempDir(), t.TempDir()
			_, k := parent(t, root, state, false)
			ok(t, os.RemoveAll(k.Dir()))
			ok(t, os.MkdirAll(k.Dir(), 0o700))
			for _, h := range must[[]string](t)(filepath.Glob(filepath.Join(state, "heads", "*.jsonl"))) {
				if bytes.Contains(must[[]byte](t)(os.ReadFile(h)), []byte("t1.c0")) {
					ok(t, os.Remove(h))
				}
			}
			ok(t, leave(k))
			if diff := cmp.Diff([]string{}, codes(verified(t, root, "r", state).Problems)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
