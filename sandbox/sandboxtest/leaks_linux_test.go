package sandboxtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// If the search misses a planted leak of any kind, it proves nothing. The test
// runs in its own mount namespace, where nothing else runs.
func TestLeaksAreFound(t *testing.T) {
	if os.Getenv("METIER_LEAKS") == "" {
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestLeaksAreFound$", "-test.v")
		cmd.Env = append(os.Environ(), "METIER_LEAKS=1")
		cmd.SysProcAttr = (&spec{Namespace: true}).command(t.Context()).SysProcAttr
		cmd.SysProcAttr.Pdeathsig = 0
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestLeaksAreFound") {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", "/tmp", "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		t.Fatal(err)
	}
	dir := "/tmp/watched"
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	child := func(name string) *exec.Cmd {
		cmd := exec.Command(name, "30")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	stop := make(chan struct{})
	plants := map[string]func() (undo func()){
		"descriptor": func() func() {
			f, err := os.Open("/dev/null")
			if err != nil {
				t.Fatal(err)
			}
			return func() { _ = f.Close() }
		},
		"mount": func() func() {
			if err := unix.Mount("tmpfs", "/mnt", "tmpfs", 0, ""); err != nil {
				t.Fatal(err)
			}
			return func() { _ = unix.Unmount("/mnt", 0) }
		},
		"process": func() func() {
			cmd := child("sleep")
			return func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
		},
		"zombie": func() func() {
			cmd := child("false")
			if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
				t.Fatal(err)
			}
			return func() { _ = cmd.Wait() }
		},
		"folder": func() func() {
			name := filepath.Join(dir, "left")
			if err := os.Mkdir(name, 0o755); err != nil {
				t.Fatal(err)
			}
			return func() { _ = os.Remove(name) }
		},
		"goroutine": func() func() {
			go func() { <-stop }()
			return func() { close(stop) }
		},
	}
	child("true").Wait() // let the first child create what later ones share
	for kind, plant := range plants {
		before := holdingsNow([]string{dir})
		undo := plant()
		found := leaked(before, []string{dir}, 0)
		if kind == "process" { // its handle is a descriptor too
			if len(found) == 0 || !strings.Contains(strings.Join(found, "\n"), "of kind process") {
				t.Errorf("process: found %q", found)
			}
		} else if !strings.Contains(strings.Join(found, "\n"), "1 of kind "+kind) {
			t.Errorf("%s: found %q", kind, found)
		}
		undo()
		if left := leaked(before, []string{dir}, 2e9); len(left) > 0 {
			t.Errorf("%s: after undo: %q", kind, left)
		}
	}
}
