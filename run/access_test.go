package run_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/internal/testenv"
	"metier/run"
)

// Every folder of a run and of the recorded heads has mode 0700, every file 0600.
func TestCreate_ClosesRecordAndHeadsToOtherUsers(t *testing.T) {
	t.Parallel()
	needModes(t)
	root, state := filepath.Join(t.TempDir(), "runs"), filepath.Join(t.TempDir(), "state")
	f, a := create(t, root, "own", &run.Options{StateDir: state})
	work(t, f, skillsFolder(t), a.now, counter("id"))
	ok(t, f.Project(t.Context()))
	var open []string
	for _, dir := range []string{root, state} {
		ok(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			ok(t, err)
			if info := must[fs.FileInfo](t)(d.Info()); info.Mode().Perm()&0o077 != 0 {
				open = append(open, path+" "+info.Mode().String())
			}
			return nil
		}))
	}
	if d := cmp.Diff([]string(nil), open); d != "" {
		t.Error(d)
	}
}

func TestOpen_RefusesHeadsThatOthersCanWrite(t *testing.T) {
	t.Parallel()
	needModes(t)
	for _, name := range []string{"state", "folder", "file"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root, state := t.TempDir(), t.TempDir()
			o := &run.Options{StateDir: state}
			f, a := create(t, root, "own", o)
			work(t, f, skillsFolder(t), a.now, counter("id"))
			ok(t, f.Close())
			files := must[[]string](t)(filepath.Glob(filepath.Join(state, "heads", "*.jsonl")))
			at := map[string]string{"state": state, "folder": filepath.Join(state, "heads"), "file": files[0]}[name]
			mode := must[fs.FileInfo](t)(os.Stat(at)).Mode().Perm()
			ok(t, os.Chmod(at, mode|0o020))
			_, err := run.Look(root, "own", o)
			wantCode(t, err, run.CodeHeadsOpen, metier.Denied)
			_, err = run.Open(root, "own", o)
			wantCode(t, err, run.CodeHeadsOpen, metier.Denied)
			ok(t, os.Chmod(at, mode))
			ok(t, must[*run.Folder](t)(run.Open(root, "own", o)).Close())
		})
	}
}

func needModes(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" {
		testenv.Skip(t, "modes of files say nothing about access on Windows")
	}
}
