//go:build linux

package unconfined

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"metier/sandbox"
)

// A program starts in the folder that was checked, even if another folder or a
// link takes its path a moment later. Links out of the workspace and hidden
// paths are refused.
func TestStartsInTheFolderThatWasChecked(t *testing.T) {
	t.Parallel()
	root, outside := t.TempDir(), t.TempDir()
	for _, d := range []string{"work", "runs/one"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"out": outside, "records": "runs/one", "same": "work"} {
		if err := os.Symlink(to, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	pipe := filepath.Join(root, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	held, err := os.OpenFile(pipe, os.O_RDWR, 0) // so that no open here blocks
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	ws := &sandbox.Workspace{Host: root, Writable: true, Hidden: []string{"runs"}}
	job := func(dir string) sandbox.Job {
		return sandbox.Job{Argv: []string{"/bin/pwd", "-P"}, Env: []string{}, Dir: sandbox.WorkspaceDir + dir, Workspace: ws}
	}
	h := New(&Options{Temp: t.TempDir()})
	for dir, want := range map[string]string{"/out": "escapes", "/records": "hidden", "/runs": "hidden", "/runs/one": "hidden", "/none": "no such file", "/pipe": "not a directory"} {
		if r, err := h.Run(t.Context(), job(dir)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v; want %q", dir, r.Stdout, err, want)
		}
	}
	for dir, want := range map[string]string{"": root, "/same": filepath.Join(root, "work")} {
		if r, err := h.Run(t.Context(), job(dir)); err != nil || strings.TrimSpace(string(r.Stdout)) != want {
			t.Errorf("%q: %q, %v; want %q", dir, r.Stdout, err, want)
		}
	}

	p, err := h.stage(job("/work"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.remove()
	cmd, done, err := p.command(job("/work"))
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	if err := os.Rename(filepath.Join(root, "work"), filepath.Join(root, "moved")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(root, "work")); err != nil {
		t.Fatal(err)
	}
	if b, err := cmd.Output(); err != nil || strings.TrimSpace(string(b)) != filepath.Join(root, "moved") {
		t.Errorf("it starts in %q, %v", b, err)
	}
}
