package confine

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"metier/internal/confine/confinetest"
)

// 20: a magic link leads anywhere without a path.
func TestRefusesMagicLinks(t *testing.T) {
	each(t, func(t *testing.T, open func(string) *Dir) {
		d := open("/proc/" + pid(t))
		for _, path := range []string{"root/etc/passwd", "cwd/confine.go", "exe", "fd/0"} {
			if _, _, err := d.ReadFile(path, 1<<20); CodeOf(err) != Outside {
				t.Errorf("ReadFile(%s) = %v", path, err)
			}
		}
	})
}

func pid(t *testing.T) string {
	t.Helper()
	self, err := os.Readlink("/proc/self")
	if err != nil {
		t.Fatal(err)
	}
	return self
}

// 30: files in /proc report 0 bytes but have content.
func TestRefusesFilesThatLieAboutTheirSize(t *testing.T) {
	each(t, func(t *testing.T, open func(string) *Dir) {
		d := open("/proc/" + pid(t))
		if _, _, err := d.ReadFile("status", 1<<20); CodeOf(err) != Changed {
			t.Errorf("status: %v", err)
		}
		if _, _, err := d.ReadFile("status", 10); CodeOf(err) != TooBig {
			t.Errorf("status over the cap: %v", err)
		}
	})
}

// 26: the test calls itself in a mount namespace, where it may bind-mount.
func TestRefusesOtherMounts(t *testing.T) {
	t.Parallel()
	if !confinetest.Cage(t) {
		return
	}
	base := resolved(t, t.TempDir())
	outside := filepath.Dir(put(t, base, "outside/secret", secret))
	inside := filepath.Dir(put(t, base, "root/mnt/file", "x"))
	filemount := put(t, base, "root/filemnt", "x")
	for from, to := range map[string]string{outside: inside, outside + "/secret": filemount} {
		confinetest.Bind(t, from, to)
	}
	d, err := OpenDir(filepath.Join(base, "root"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"mnt/secret", "filemnt"} {
		if b, _, err := d.ReadFile(path, 99); CodeOf(err) != Outside {
			t.Errorf("ReadFile(%s) = %q, %v", path, b, err)
		}
		if info, err := d.Glance(path); CodeOf(err) != Outside {
			t.Errorf("Glance(%s) = %+v, %v", path, info, err)
		}
	}
	if _, err := d.Sub("mnt"); CodeOf(err) != Outside {
		t.Errorf("Sub = %v", err)
	}
}

// 31, 32: an attacker exchanges a file and a link, and a folder and a linked
// folder, as fast as it can. A reader that checks and then opens loses; ours
// never returns a byte from outside.
func TestRaceNeverEscapes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, good, evil, read string }{
		{"31 file", "file", "evil-file", "file"},
		{"32 folder", "dir", "evil-dir", "dir/secret"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			base := resolved(t, t.TempDir())
			root := filepath.Join(base, "root")
			put(t, base, "outside/secret", secret)
			put(t, root, "file", "inside")
			put(t, root, "dir/secret", "inside")
			link(t, "../outside/secret", filepath.Join(root, "evil-file"))
			link(t, "../outside", filepath.Join(root, "evil-dir"))
			stop := confinetest.Swap(t, filepath.Join(root, tc.good), filepath.Join(root, tc.evil))
			defer stop()

			native, err := OpenDir(root)
			if err != nil {
				t.Fatal(err)
			}
			defer native.Close()
			b, err := openRoot(root)
			if err != nil {
				t.Fatal(err)
			}
			portable := &Dir{b}
			defer portable.Close()

			// Continue until the naive reader has lost and ours has been tried
			// often, or the bounds are reached.
			naive, good := 0, 0
			deadline := time.Now().Add(20 * time.Second)
			for i := 0; i < 2_000_000 && (naive == 0 || i < 20_000 || good == 0); i++ {
				if i%1000 == 0 && time.Now().After(deadline) {
					break
				}
				if got, err := confinetest.NaiveRead(root, tc.read); err == nil && string(got) == secret {
					naive++
				}
				for _, d := range []*Dir{native, portable} {
					got, _, err := d.ReadFile(tc.read, 1<<10)
					switch {
					case err == nil && string(got) == "inside":
						good++
					case err == nil:
						t.Fatalf("escaped: %q", got)
					}
				}
			}
			if naive == 0 || good == 0 {
				t.Errorf("the race did not happen: naive reader lost %d times, ours read %d times", naive, good)
			}
			t.Logf("naive reader lost %d times, ours read %d times and escaped 0 times", naive, good)
		})
	}
}

// No call leaves a descriptor open, whatever it finds.
func TestNoDescriptorLeaks(t *testing.T) {
	// Not parallel: it counts the descriptors of the process.
	root := resolved(t, t.TempDir())
	put(t, root, "dir/file", "x")
	link(t, "dir", filepath.Join(root, "link"))
	if err := unix.Mkfifo(filepath.Join(root, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	work := func() {
		d, err := OpenDir(root)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		for _, p := range []string{"dir/file", "dir", "link/file", "link", "fifo", "none", "dir/file/x"} {
			d.ReadFile(p, 0)
			d.ReadFile(p, 9)
			d.ReadHead(p, 9)
			d.Stat(p)
			d.ReadDir(p, 9)
			if f, err := d.Open(p); err == nil {
				f.Close()
			}
			if s, err := d.Sub(p); err == nil {
				s.Close()
			}
		}
	}
	work()
	before := openFDs(t)
	for range 20 {
		work()
	}
	if after := openFDs(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func openFDs(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// A glance returns the same as a stat, except behind a link in the path. It may
// follow the link, and then has another key.
func TestGlanceTellsWhatStatTells(t *testing.T) {
	each(t, func(t *testing.T, open func(string) *Dir) {
		base := resolved(t, t.TempDir())
		put(t, base, "root/a/file", "x")
		put(t, base, "outside/file", "x")
		root := filepath.Join(base, "root")
		for name, target := range map[string]string{"link": "a", "out": "../outside", "none": "nothing"} {
			if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
				t.Fatal(err)
			}
		}
		d := open(root)
		for _, rel := range []string{".", "a", "a/file", "link", "out", "none", "missing", "a/missing", "a/file/x", "../outside", "/etc", "a//b"} {
			want, werr := d.Stat(rel)
			got, gerr := d.Glance(rel)
			if CodeOf(werr) != CodeOf(gerr) || want != got {
				t.Errorf("%s: %+v %v, Stat says %+v %v", rel, got, gerr, want, werr)
			}
		}
		inside, _ := d.Stat("a/file")
		key, ok := inside.Key()
		if !ok || key.Ino == 0 || key.Size != 1 || key.Ctime == 0 {
			t.Errorf("key %+v %t", key, ok)
		}
		if info, err := d.Glance("out/file"); err == nil {
			if k, _ := info.Key(); k == key {
				t.Error("a file outside has the key of one inside")
			}
		}
		if info, err := d.Glance("../root/a/file"); err == nil {
			t.Errorf("left the folder: %+v", info)
		}
	})
}
