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

// nobody is the user and group id of an ordinary user that owns nothing.
const nobody = "65534"

// OrdinaryUser says whether the test may go on: true for an ordinary user of a
// unix. For root, whom no mode of a file stops, it runs the same test again in
// a process of nobody, fails if that fails, and returns false. The test then
// has TMPDIR to write to and a working folder of its own, so it must not read
// its package's testdata. Elsewhere it skips the test.
func OrdinaryUser(t *testing.T) bool {
	t.Helper()
	if runtime.GOOS == "windows" || runtime.GOOS == "plan9" {
		Skip(t, "modes of files stop nobody on "+runtime.GOOS)
	}
	if os.Geteuid() != 0 {
		return true
	}
	setpriv := NeedTool(t, "setpriv", "util-linux")
	// Neither the folder of the test binary nor t.TempDir can be entered by
	// others.
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

// WriteProgram makes a file that can be executed at once. Another process writes
// it: while this one has it open, a process that some other test forks gets the
// descriptor, and until that one executes its program the kernel refuses to run
// the file (ETXTBSY).
func WriteProgram(t *testing.T, file string, text []byte) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), NeedTool(t, "sh", "dash"), "-c", `cat >"$1" && chmod 755 "$1"`, "sh", file)
	cmd.Stdin = bytes.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("write the program %s: %v\n%s", file, err, out)
	}
}

// Shared is a folder for temporary files that every user can reach: that of
// this process, unless a folder above it is closed to others.
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

// Pattern returns the value of -test.run that runs this test alone.
func Pattern(t *testing.T) string {
	parts := strings.Split(t.Name(), "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}
