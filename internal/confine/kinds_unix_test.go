//go:build unix

package confine

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"metier/internal/testenv"
)

// within fails the test when f hangs; the bound is far above any real duration.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatalf("%s: no answer", what)
	}
}

func TestRefusesWhatIsNoFile(t *testing.T) {
	each(t, func(t *testing.T, open func(string) *Dir) {
		// A socket's path must be short; that of t.TempDir may not be.
		root, err := os.MkdirTemp("", "c")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(root) })
		root = resolved(t, root)
		if err := unix.Mkfifo(filepath.Join(root, "fifo"), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("unix", filepath.Join(root, "socket"))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		d := open(root)
		for _, path := range []string{"fifo", "socket"} {
			within(t, path, func() {
				for what, err := range map[string]error{
					"ReadFile": second(d.ReadFile(path, 10)),
					"ReadHead": second(d.ReadHead(path, 10)),
				} {
					if CodeOf(err) != NotRegular {
						t.Errorf("22, 24: %s(%s) = %v", what, path, err)
					}
				}
				if _, err := d.Sub(path); CodeOf(err) != NotRegular {
					t.Errorf("Sub(%s) = %v", path, err)
				}
				if info, err := d.Stat(path); err != nil || info.Mode.IsRegular() {
					t.Errorf("Stat(%s) = %+v, %v", path, info, err)
				}
			})
		}
		list, _, err := d.ReadDir(".", 10)
		if err != nil || len(list) != 2 || list[0].Type != fs.ModeNamedPipe || list[1].Type != fs.ModeSocket {
			t.Errorf("ReadDir = %v, %v", list, err)
		}
	})
}

func second(_ []byte, _ Info, err error) error { return err }

// 23: /dev is a folder with devices that every test machine has.
func TestRefusesDevices(t *testing.T) {
	each(t, func(t *testing.T, open func(string) *Dir) {
		d := open("/dev")
		for _, name := range []string{"zero", "null", "tty"} {
			within(t, name, func() {
				_, _, err := d.ReadFile(name, 1<<20)
				if c := CodeOf(err); c != NotRegular && c != Outside { // where /dev holds bind mounts
					t.Errorf("ReadFile(/dev/%s) = %v", name, err)
				}
			})
		}
	})
}

// 21: a hard link cannot be told from the file, but its link count shows it.
func TestHardLinkIsVisible(t *testing.T) {
	each(t, func(t *testing.T, open func(string) *Dir) {
		base := resolved(t, t.TempDir())
		outside := put(t, base, "secret", secret)
		put(t, base, "root/plain", "x")
		if err := os.Link(outside, filepath.Join(base, "root", "hard")); err != nil {
			t.Fatal(err)
		}
		d := open(filepath.Join(base, "root"))
		if _, info, err := d.ReadFile("hard", 99); err != nil || info.Nlink != 2 {
			t.Errorf("hard link: %+v, %v", info, err)
		}
		if _, info, err := d.ReadFile("plain", 99); err != nil || info.Nlink != 1 {
			t.Errorf("plain: %+v, %v", info, err)
		}
	})
}

func TestExecBit(t *testing.T) {
	each(t, func(t *testing.T, open func(string) *Dir) {
		root := resolved(t, t.TempDir())
		if err := os.Chmod(put(t, root, "run", "x"), 0o710); err != nil {
			t.Fatal(err)
		}
		if _, info, err := open(root).ReadFile("run", 9); err != nil || !info.Exec() {
			t.Errorf("%+v, %v", info, err)
		}
	})
}

// 27: as an ordinary user; root can read everything.
func TestUnreadable(t *testing.T) {
	if !testenv.OrdinaryUser(t) {
		return
	}
	each(t, func(t *testing.T, open func(string) *Dir) {
		root := resolved(t, t.TempDir())
		if err := os.Chmod(put(t, root, "locked", "x"), 0); err != nil {
			t.Fatal(err)
		}
		_, _, err := open(root).ReadFile("locked", 9)
		if CodeOf(err) != Permission || !errors.Is(err, fs.ErrPermission) {
			t.Errorf("err = %v", err)
		}
	})
}
