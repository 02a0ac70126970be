package atomicfile

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"metier/internal/testenv"
)

func TestPut_FollowsSymlinks(t *testing.T) {
	t.Parallel()
	for _, exists := range []bool{true, false} {
		dir := t.TempDir()
		target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
		if exists {
			if err := os.WriteFile(target, []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink("target", link); err != nil {
			testenv.Skip(t, "symlinks need a privilege here: "+err.Error())
		}
		if err := Put(link, []byte("new"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := read(t, target); got != "new" {
			t.Errorf("target = %q, want %q", got, "new")
		}
		if _, err := os.Readlink(link); err != nil {
			t.Errorf("the link was replaced: %v", err)
		}
	}
}

func TestPutIn_ReplacesSymlinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	if err := os.WriteFile(target, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("target", link); err != nil {
		testenv.Skip(t, "symlinks need a privilege here: "+err.Error())
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := PutIn(root, "link", []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := read(t, target); got != "old" {
		t.Errorf("target = %q, want %q", got, "old")
	}
	if got := read(t, link); got != "new" {
		t.Errorf("file = %q, want %q", got, "new")
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := PutIn(root, "folder", nil, 0o600); err == nil {
		t.Error("a folder was written")
	}
}

func TestPut_RefusesFolder(t *testing.T) {
	t.Parallel()
	if err := Put(t.TempDir(), nil, 0o600); err == nil {
		t.Error("wrote a folder")
	}
}

func TestPut_RefusesMissingFolder(t *testing.T) {
	t.Parallel()
	if err := Put(filepath.Join(t.TempDir(), "no", "file"), nil, 0o600); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("err = %v, want ErrNotExist", err)
	}
}

func TestPut_RefusesLinkCycle(t *testing.T) {
	t.Parallel()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("link", link); err != nil {
		testenv.Skip(t, "symlinks need a privilege here: "+err.Error())
	}
	if err := Put(link, nil, 0o600); err == nil {
		t.Error("wrote to a link cycle")
	}
}

func TestPut_WritesToDevice(t *testing.T) {
	t.Parallel()
	if err := Put(os.DevNull, []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().IsRegular() {
		t.Error("the device is a regular file now")
	}
}

func TestPut_WritesToPipe(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := exec.Command(testenv.NeedTool(t, "mkfifo", "coreutils"), path).Run(); err != nil {
		t.Fatal(err)
	}
	if err := Put(path, []byte("x"), 0o600); !errors.Is(err, ErrNoReader) {
		t.Fatalf("without a reader: %v, want ErrNoReader", err)
	}
	r, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	data := bytes.Repeat([]byte("x"), 1<<18) // more than a pipe holds
	done := make(chan error, 1)
	go func() { done <- Put(path, data, 0o600) }()
	got := make([]byte, len(data))
	for n := 0; n < len(got); {
		m, err := r.Read(got[n:])
		if err != nil && err != io.EOF { // EOF: not opened for writing yet
			t.Fatal(err)
		}
		n += m
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, data) {
		t.Error("the reader got other bytes")
	}
}
