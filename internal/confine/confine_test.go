package confine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/internal/testenv"
)

// each runs f with both ways to open; systems without openat2 have only one.
func each(t *testing.T, f func(t *testing.T, open func(string) *Dir)) {
	t.Helper()
	t.Parallel()
	for name, open := range map[string]func(string) (*Dir, error){
		"native": OpenDir,
		"os.Root": func(path string) (*Dir, error) {
			b, err := openRoot(path)
			if err != nil {
				return nil, wrap("open", path, err)
			}
			return &Dir{b}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			f(t, func(path string) *Dir {
				t.Helper()
				d, err := open(path)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { d.Close() })
				return d
			})
		})
	}
}

func resolved(t *testing.T, dir string) string {
	t.Helper()
	real, err := Resolve(dir)
	if err != nil {
		t.Fatal(err)
	}
	return real
}

func put(t *testing.T, root, rel, content string) string {
	t.Helper()
	path := filepath.Join(root, filepath.FromSlash(rel))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		if runtime.GOOS == "windows" {
			testenv.Skip(t, fmt.Sprintf("symlinks need a privilege here: %v", err))
		}
		t.Fatal(err)
	}
}

const secret = "the secret outside"

func TestReadsAPlainFile(t *testing.T) {
	each(t, func(t *testing.T, open func(string) *Dir) {
		root := resolved(t, t.TempDir())
		path := put(t, root, "a/b.txt", "content")
		d := open(root)
		got, info, err := d.ReadFile("./a/b.txt", 7)
		if err != nil || string(got) != "content" {
			t.Fatalf("ReadFile = %q, %v", got, err)
		}
		fi, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size != 7 || !info.Mtime.Equal(fi.ModTime()) || info.Nlink != 1 || info.Exec() {
			t.Errorf("Info = %+v", info)
		}
		if runtime.GOOS != "windows" && (info.Ino == 0 || info.Dev == 0) {
			t.Errorf("no inode or device: %+v", info)
		}
		f, err := d.Open("a/b.txt")
		if err != nil {
			t.Fatal(err)
		}
		streamed, err := io.ReadAll(f)
		if err != nil || string(streamed) != "content" || f.Check() != nil {
			t.Errorf("stream = %q, %v, %v", streamed, err, f.Check())
		}
		if diff := cmp.Diff(info, f.Info()); diff != "" {
			t.Error(diff)
		}
		f.Close()
		if head, info, err := d.ReadHead("a/b.txt", 4); err != nil || string(head) != "cont" || info.Size != 7 {
			t.Errorf("ReadHead = %q, %+v, %v", head, info, err)
		}
		if out, _, err := d.Append([]byte("> "), "a/b.txt", 99); err != nil || string(out) != "> content" {
			t.Errorf("Append = %q, %v", out, err)
		}
		put(t, root, "empty", "")
		if got, _, err := d.ReadFile("empty", 0); err != nil || len(got) != 0 {
			t.Errorf("empty file: %q, %v", got, err)
		}
	})
}

// The table of paths and file kinds, with the numbers of the attack cases that
// it covers.
func TestRefuses(t *testing.T) {
	each(t, func(t *testing.T, open func(string) *Dir) {
		base := resolved(t, t.TempDir())
		root := filepath.Join(base, "root")
		outside := put(t, base, "outside/secret", secret)
		put(t, root, "dir/file", "inside")
		put(t, root, "SKILL.md", "upper")
		put(t, root, "%2e%2e/x", "a name like any other")
		link(t, outside, filepath.Join(root, "abs-out"))
		link(t, "../outside/secret", filepath.Join(root, "rel-out"))
		link(t, "dir/file", filepath.Join(root, "rel-in"))
		link(t, filepath.Join(root, "dir/file"), filepath.Join(root, "abs-in"))
		link(t, filepath.Dir(outside), filepath.Join(root, "dirlink"))
		link(t, "dir", filepath.Join(root, "dirlink-in"))
		link(t, "nowhere", filepath.Join(root, "dangling"))
		link(t, "loop-b", filepath.Join(root, "loop-a"))
		link(t, "loop-a", filepath.Join(root, "loop-b"))
		for i := range 41 {
			link(t, fmt.Sprintf("chain%d", i+1), filepath.Join(root, fmt.Sprintf("chain%d", i)))
		}
		put(t, root, "chain41", "end of the chain")
		d := open(root)
		for _, tc := range []struct {
			name, path string
			want       Code
		}{
			{"1 parent", "../outside/secret", PathInvalid},
			{"2 parent inside", "dir/../../outside/secret", PathInvalid},
			{"3 absolute", filepath.ToSlash(outside), PathInvalid},
			{"4 slash at the end of a link", "dirlink/", PathInvalid},
			{"4 two slashes", "//dir/file", PathInvalid},
			{"5 empty", "", PathInvalid},
			{"5 dot", ".", PathInvalid},
			{"6 NUL", "dir/file\x00", PathInvalid},
			{"7 back-slash", `dir\file`, PathInvalid},
			{"7 drive", "C:/x", PathInvalid},
			{"8 encoded dots are a name", "%2e%2e/outside/secret", NotFound},
			{"9 too long", strings.Repeat("x", 300), PathInvalid},
			{"10 not UTF-8", "dir/\xff", PathInvalid},
			{"16 parent", "..", PathInvalid},
			{"17 link out, absolute", "abs-out", Outside},
			{"17 link out, relative", "rel-out", Outside},
			{"17 link in, relative", "rel-in", Outside},
			{"17 link in, absolute", "abs-in", Outside},
			{"18 linked folder", "dirlink/secret", Outside},
			{"18 linked folder inside", "dirlink-in/file", Outside},
			{"19 dangling", "dangling", Outside},
			{"19 loop", "loop-a", Outside},
			{"19 chain of 41", "chain0", Outside},
			{"25 folder", "dir", IsDir},
			{"missing", "dir/none", NotFound},
			{"file as folder", "dir/file/x", NotFound},
		} {
			got, _, err := d.ReadFile(tc.path, 1<<20)
			if CodeOf(err) != tc.want || len(got) != 0 {
				t.Errorf("%s: ReadFile(%.40q) = %q, %v, want %s", tc.name, tc.path, got, err, tc.want)
			}
			var e *Error
			if errors.As(err, &e) && e.Path != tc.path {
				t.Errorf("%s: error names %q", tc.name, e.Path)
			}
			if f, err := d.Open(tc.path); CodeOf(err) != tc.want {
				t.Errorf("%s: Open = %v, %v, want %s", tc.name, f, err, tc.want)
			}
			if _, _, err := d.ReadHead(tc.path, 10); CodeOf(err) != tc.want {
				t.Errorf("%s: ReadHead = %v, want %s", tc.name, err, tc.want)
			}
		}
		for path, want := range map[string]Code{
			"dirlink": Outside, "dirlink-in": Outside, "dir/file": NotRegular, "none": NotFound, "..": PathInvalid,
		} {
			if _, err := d.Sub(path); CodeOf(err) != want {
				t.Errorf("Sub(%q) = %v, want %s", path, err, want)
			}
			if _, _, err := d.ReadDir(path, 10); CodeOf(err) != want {
				t.Errorf("ReadDir(%q) = %v, want %s", path, err, want)
			}
		}
		if _, err := d.Stat("dirlink/secret"); CodeOf(err) != Outside {
			t.Errorf("Stat through a link = %v", err)
		}
		if info, err := d.Stat("abs-out"); err != nil || info.Mode&fs.ModeSymlink == 0 || info.Size == int64(len(secret)) {
			t.Errorf("Stat of a link = %+v, %v", info, err)
		}
	})
}

func TestErrorsMatchTheSystemOnes(t *testing.T) {
	each(t, func(t *testing.T, open func(string) *Dir) {
		d := open(resolved(t, t.TempDir()))
		_, _, err := d.ReadFile("none", 1)
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("missing file: %v", err)
		}
	})
}

func TestRootItselfMustBeResolved(t *testing.T) {
	each(t, func(t *testing.T, _ func(string) *Dir) {
		base := resolved(t, t.TempDir())
		put(t, base, "real/file", "x")
		link(t, "real", filepath.Join(base, "link"))
		for _, open := range []func(string) error{
			func(p string) error { d, err := OpenDir(p); closeIf(d); return err },
			func(p string) error { _, err := openRoot(p); return wrap("open", p, err) },
			func(p string) error { _, err := OpenRoot(p); return err },
		} {
			for path, want := range map[string]Code{
				"link": Outside, "none": NotFound, "real/file": NotRegular,
			} {
				if err := open(filepath.Join(base, path)); CodeOf(err) != want {
					t.Errorf("open %s = %v, want %s", path, err, want)
				}
			}
		}
		real, err := Resolve(filepath.Join(base, "link"))
		if err != nil || real != filepath.Join(base, "real") {
			t.Errorf("Resolve = %q, %v", real, err)
		}
		if _, err := Resolve(filepath.Join(base, "none")); CodeOf(err) != NotFound {
			t.Errorf("Resolve of nothing = %v", err)
		}
	})
}

func closeIf(d *Dir) {
	if d != nil {
		d.Close()
	}
}

func TestTooBig(t *testing.T) {
	each(t, func(t *testing.T, open func(string) *Dir) {
		root := resolved(t, t.TempDir())
		put(t, root, "ten", "0123456789")
		d := open(root)
		if _, info, err := d.ReadFile("ten", 9); CodeOf(err) != TooBig || info.Size != 10 {
			t.Errorf("9 of 10: %+v, %v", info, err)
		}
		if got, _, err := d.ReadFile("ten", 10); err != nil || len(got) != 10 {
			t.Errorf("10 of 10: %q, %v", got, err)
		}
		// 28: a sparse file is refused by its declared size, not by reading it.
		path := put(t, root, "sparse", "")
		if err := os.Truncate(path, 1<<40); err != nil {
			testenv.Skip(t, fmt.Sprintf("no sparse file of 1 TiB here: %v", err))
		}
		if _, _, err := d.ReadFile("sparse", 1<<20); CodeOf(err) != TooBig {
			t.Errorf("sparse: %v", err)
		}
		if head, info, err := d.ReadHead("sparse", 16); err != nil || len(head) != 16 || info.Size != 1<<40 {
			t.Errorf("head of sparse: %d bytes, %+v, %v", len(head), info, err)
		}
	})
}

func TestReadDirIsSortedTypedAndBounded(t *testing.T) {
	each(t, func(t *testing.T, open func(string) *Dir) {
		root := resolved(t, t.TempDir())
		for i := range 3000 {
			put(t, root, fmt.Sprintf("many/%04d", (i*7)%3000), "")
		}
		put(t, root, "mix/b/x", "")
		put(t, root, "mix/B", "")
		put(t, root, "mix/a", "")
		link(t, "a", filepath.Join(root, "mix/l"))
		d := open(root)
		list, more, err := d.ReadDir("mix", 10)
		want := []Entry{{"B", 0}, {"a", 0}, {"b", fs.ModeDir}, {"l", fs.ModeSymlink}}
		if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
			want[0].Name = list[0].Name // "b" and "B" may be one name
		}
		if diff := cmp.Diff(want, list); diff != "" || more || err != nil {
			t.Errorf("mix: more=%v err=%v\n%s", more, err, diff)
		}
		for limit, wantMore := range map[int]bool{0: true, 5: true, 2999: true, 3000: false, 9999: false} {
			list, more, err := d.ReadDir("many", limit)
			if err != nil || more != wantMore || len(list) != min(limit, 3000) {
				t.Errorf("limit %d: %d names, more=%v, %v", limit, len(list), more, err)
			}
			for i, e := range list {
				if e.Name != fmt.Sprintf("%04d", i) {
					t.Fatalf("limit %d: name %d is %q", limit, i, e.Name)
				}
			}
		}
		self, _, err := d.ReadDir(".", 10)
		if err != nil || len(self) != 2 {
			t.Errorf("self: %v, %v", self, err)
		}
		sub, err := d.Sub("mix")
		if err != nil {
			t.Fatal(err)
		}
		defer sub.Close()
		if list, _, err := sub.ReadDir("b", 10); err != nil || len(list) != 1 {
			t.Errorf("sub: %v, %v", list, err)
		}
	})
}

// 29: a file that grows or shrinks during a read never yields bytes of a state
// that did not exist: the read is repeated, or refused as Changed.
func TestGrowingFile(t *testing.T) {
	each(t, func(t *testing.T, open func(string) *Dir) {
		root := resolved(t, t.TempDir())
		path := put(t, root, "log", strings.Repeat("0", 100))
		d := open(root)
		f, err := d.Open("log")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := f.Check(); err != nil {
			t.Errorf("untouched: %v", err)
		}
		w, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		if _, err := w.WriteString("1"); err != nil {
			t.Fatal(err)
		}
		if err := f.Check(); CodeOf(err) != Changed {
			t.Errorf("grown: %v", err)
		}

		grow := &disturbed{backend: d.b, do: func() { w.WriteString(strings.Repeat("1", 64<<10)) }}
		if got, _, err := (&Dir{grow}).ReadFile("log", 1<<30); CodeOf(err) != Changed || got != nil {
			t.Errorf("always growing: %d bytes, %v", len(got), err)
		}
		if grow.opens != maxTries {
			t.Errorf("%d tries, want %d", grow.opens, maxTries)
		}
		if _, _, err := (&Dir{grow}).ReadFile("log", 1<<18); CodeOf(err) != TooBig {
			t.Errorf("growing over the cap: %v", err)
		}
		shrink := &disturbed{backend: d.b, do: sync.OnceFunc(func() { os.Truncate(path, 3) })}
		got, info, err := (&Dir{shrink}).ReadFile("log", 1<<30)
		if err != nil || info.Size != 3 || len(got) != 3 {
			t.Errorf("shrunk once: %q, %+v, %v", got, info, err)
		}
	})
}

// disturbed changes the file after each open, before its first read.
type disturbed struct {
	backend
	do    func()
	opens int
}

func (d *disturbed) open(rel string) (handle, Info, error) {
	h, info, err := d.backend.open(rel)
	d.opens++
	d.do()
	return h, info, err
}

// 33: a handle keeps referring to the folder that it was opened on.
func TestFolderReplacedAfterOpen(t *testing.T) {
	each(t, func(t *testing.T, open func(string) *Dir) {
		if runtime.GOOS == "windows" {
			testenv.Skip(t, "an open folder cannot be renamed on Windows")
		}
		base := resolved(t, t.TempDir())
		put(t, base, "skill/file", "old")
		put(t, base, "evil/file", "new")
		d := open(filepath.Join(base, "skill"))
		if err := os.Rename(filepath.Join(base, "skill"), filepath.Join(base, "gone")); err != nil {
			t.Fatal(err)
		}
		link(t, "evil", filepath.Join(base, "skill"))
		if got, _, err := d.ReadFile("file", 10); err != nil || !bytes.Equal(got, []byte("old")) {
			t.Errorf("ReadFile = %q, %v", got, err)
		}
	})
}

func BenchmarkRead4K(b *testing.B) {
	root, err := Resolve(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	for _, rel := range []string{"file", "a/b/c/file"} {
		path := filepath.Join(root, rel)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(path, make([]byte, 4096), 0o600); err != nil {
			b.Fatal(err)
		}
		d, err := OpenDir(root)
		if err != nil {
			b.Fatal(err)
		}
		buf := make([]byte, 0, 8192)
		b.Run("confine.ReadFile/"+rel, func(b *testing.B) {
			for b.Loop() {
				if _, _, err := d.ReadFile(rel, 1<<20); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("confine.Append/"+rel, func(b *testing.B) {
			for b.Loop() {
				if _, _, err := d.Append(buf, rel, 1<<20); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("confine.AppendHead/"+rel, func(b *testing.B) {
			for b.Loop() {
				if _, _, err := d.AppendHead(buf, rel, 4096); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("os.ReadFile/"+rel, func(b *testing.B) {
			for b.Loop() {
				if _, err := os.ReadFile(path); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("os.Open+Read+Close/"+rel, func(b *testing.B) {
			for b.Loop() {
				f, err := os.Open(path)
				if err != nil {
					b.Fatal(err)
				}
				f.Read(buf[:4096])
				f.Close()
			}
		})
		d.Close()
	}
}
