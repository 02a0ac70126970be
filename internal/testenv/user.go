package testenv

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// nobody is the user and group ID of an unprivileged user that owns nothing.
const nobody = "65534"

// OrdinaryUser reports whether the test should continue. It returns true for an unprivileged Unix
// user. As root, who is not subject to file modes, it reruns the test in a process of nobody, fails
// if that fails, and returns false. The rerun can write to TMPDIR and has its own working folder,
// so it must not read its package's testdata. On other systems, OrdinaryUser skips the test.
func OrdinaryUser(t *testing.T) bool {
	t.Helper()
	if runtime.GOOS == "windows" || runtime.GOOS == "plan9" {
		Skip(t, "modes of files stop nobody on "+runtime.GOOS)
	}
	if os.Geteuid() != 0 {
		return true
	}
	setpriv := NeedTool(t, "setpriv", "util-linux")
	// Other users cannot enter the folder of the test binary or t.TempDir.
	dir, err := os.MkdirTemp(Shared(), "metier-nobody-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "test.bin")
	WriteProgram(t, bin, text)
	cmd := exec.CommandContext(t.Context(), setpriv, "--reuid="+nobody, "--regid="+nobody, "--clear-groups", "--",
		bin, "-test.v", "-test.run="+Pattern(t))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "HOME="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("as an ordinary user: %v\n%s", err, out)
	} else if !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("as an ordinary user the test did not run:\n%s", out)
	}
	return false
}

// WriteProgram creates an executable file. Another process writes it: if this process had it open
// while another test forks, the child would inherit the descriptor, and until the child calls exec,
// the kernel would refuse to run the file (ETXTBSY).
func WriteProgram(t *testing.T, file string, text []byte) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), NeedTool(t, "sh", "dash"), "-c", `cat >"$1" && chmod 755 "$1"`, "sh", file)
	cmd.Stdin = bytes.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("write the program %s: %v\n%s", file, err, out)
	}
}

// Shared returns a folder for temporary files that every user can reach: this process's, unless a
// parent folder is closed to others.
func Shared() string {
	tmp := os.TempDir()
	for dir := tmp; ; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm()&0o001 == 0 {
			return "/tmp"
		}
		if dir == filepath.Dir(dir) {
			return tmp
		}
	}
}

// Pattern returns the value of -test.run that runs only this test.
func Pattern(t *testing.T) string {
	parts := strings.Split(t.Name(), "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}
