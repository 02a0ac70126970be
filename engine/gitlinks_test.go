package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/config"
	"metier/internal/testenv"
	"metier/settings"
)

// gitEntry is one entry of a git index: its mode, name, and in version 4 how
// many bytes of the previous name are removed.
type gitEntry struct {
	mode     uint32
	name     string
	cut      byte
	extended bool
}

func gitIndex(version uint32, hash int, entries ...gitEntry) []byte {
	b := binary.BigEndian.AppendUint32([]byte("DIRC"), version)
	b = binary.BigEndian.AppendUint32(b, uint32(len(entries)))
	for _, e := range entries {
		head := make([]byte, 42+hash)
		binary.BigEndian.PutUint32(head[24:], e.mode)
		if e.extended {
			head[len(head)-2] = 0x40
			head = append(head, 0, 0)
		}
		if version == 4 {
			b = append(append(append(append(b, head...), e.cut), e.name...), 0)
			continue
		}
		head = append(head, e.name...)
		b = append(append(b, head...), make([]byte, 8-len(head)%8)...)
	}
	b = append(append(b, "TREE\x00\x00\x00\x03abc"...), make([]byte, hash)...)
	return b
}

func TestGitlinks_OfEachVersion(t *testing.T) {
	t.Parallel()
	const file, link = 0o100644, 0o160000
	plain := []gitEntry{{mode: file, name: "a"}, {mode: link, name: "lib/one"}, {mode: file, name: "lib/s"}, {mode: link, name: "two"}, {mode: link, name: "../out"}}
	want := []string{"lib/one", "two"}
	for name, b := range map[string][]byte{
		"2": gitIndex(2, 20, plain...),
		"3": gitIndex(3, 20, append([]gitEntry{{mode: file, name: "0", extended: true}}, plain...)...),
		"4": gitIndex(4, 20, gitEntry{mode: file, name: "a"}, gitEntry{mode: link, name: "lib/one", cut: 1}, gitEntry{mode: file, name: "s", cut: 3}, gitEntry{mode: link, name: "two", cut: 5}),
	} {
		got, whole := gitlinks(b, 20)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("version %s: %s", name, diff)
		}
		if !whole {
			t.Errorf("version %s: not whole", name)
		}
		for cut := range b { // a truncated index is read as far as possible
			_, _ = gitlinks(b[:cut], 20)
		}
	}
}

// The size of the hashes is not in an index, and what a configuration says about it can be a name.
func TestSubmodules_OfBothHashes(t *testing.T) {
	t.Parallel()
	for _, hash := range []int{20, 32} {
		for n := 1; n < 4; n++ {
			dir := t.TempDir()
			b := gitIndex(2, hash, []gitEntry{{mode: 0o160000, name: "lib/one"}, {mode: 0o100644, name: "lib/s"}, {mode: 0o160000, name: "two"}}[:n]...)
			for name, b := range map[string][]byte{"index": b, "config": []byte("[submodule \"sha256\"]\n")} {
				if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, _ := submodules(dir)
			for _, want := range []string{"lib/one", "lib/one", "two"}[:n] {
				if !slices.Contains(got, want) {
					t.Errorf("hash of %d bytes, %d entries: %q, want %s", hash, n, got, want)
				}
			}
		}
	}
}

// Git at the top of a repository uses the .git of its submodules, so these are protected, even if
// the workspace is a folder of the repository.
func TestProtected_HasSubmodules(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	for name, b := range map[string][]byte{
		".git/index":                  gitIndex(2, 20, gitEntry{mode: 0o160000, name: "pkg/sub"}),
		"pkg/sub/.git":                []byte("gitdir: ../../.git/modules/pkg/sub\n"),
		".git/modules/pkg/sub/config": []byte("[core]\n"),
		".git/modules/pkg/sub/index":  gitIndex(2, 20, gitEntry{mode: 0o160000, name: "deep"}),
	} {
		p := filepath.Join(top, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	own := filepath.Join(top, ".git", "modules", "pkg", "sub")
	want := []string{filepath.Join(top, "pkg", "sub", ".git"), own, filepath.Join(top, "pkg", "sub", "deep", ".git")}
	for _, dir := range []string{top, filepath.Join(top, "pkg")} {
		got, partial := repositories(dir, userGitConfig(config.Env{}))
		if partial {
			t.Error("there are more")
		}
		got = slices.DeleteFunc(got, func(p string) bool { return !slices.Contains(want, p) })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", dir, diff)
		}
	}
}

// What is a link for git is one for metier.
func TestProtected_FollowsGitsLinks(t *testing.T) {
	t.Parallel()
	index := string(gitIndex(2, 20, gitEntry{mode: 0o160000, name: "sub"}))
	for name, files := range map[string]map[string]string{
		"folder":  {".git": "-> store", "store/index": index},
		"outside": {".git": "-> $OUT", "$OUT/index": index},
		"index":   {".git/index": "-> ../idx", "idx": index},
		"file":    {".git": "-> gitfile", "gitfile": "gitdir: store\n", "store/index": index},
	} {
		dir, outside := t.TempDir(), t.TempDir()
		at := func(p string) string {
			if rest, is := strings.CutPrefix(p, "$OUT"); is {
				return outside + rest
			}
			return filepath.Join(dir, filepath.FromSlash(p))
		}
		for p, text := range files {
			err := os.MkdirAll(filepath.Dir(at(p)), 0o755)
			if target, link := strings.CutPrefix(text, "-> "); link {
				err = errors.Join(err, os.Symlink(strings.ReplaceAll(target, "$OUT", outside), at(p)))
			} else {
				err = errors.Join(err, os.WriteFile(at(p), []byte(text), 0o644))
			}
			if err != nil {
				testenv.Skip(t, fmt.Sprintf("this system lets us make no links: %v", err))
			}
		}
		got, partial := repositories(dir, userGitConfig(config.Env{}))
		if partial || !slices.Contains(got, filepath.Join(dir, "sub", ".git")) {
			t.Errorf("%s: %q, partial %v", name, got, partial)
		}
	}
}

// Where not all submodules can be protected, programs write nothing.
func TestProtected_TooManySubmodules(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]bool{mostLinked: true, mostLinked + 1: false} {
		dir := t.TempDir()
		var entries []gitEntry
		for i := range n {
			entries = append(entries, gitEntry{mode: 0o160000, name: fmt.Sprintf("s%04d", i)})
		}
		if err := errors.Join(os.Mkdir(filepath.Join(dir, ".git"), 0o755), os.WriteFile(filepath.Join(dir, ".git", "index"), gitIndex(2, 20, entries...), 0o600)); err != nil {
			t.Fatal(err)
		}
		e := New(config.NewEnv([]string{"HOME=" + t.TempDir()}, dir), Options{})
		l := Launch{Workspace: dir}
		w := e.sandboxed(l, e.protected(l, config.Operator{}, settings.Discover{MaxDirs: 100}, nil), nil)
		if diff := cmp.Diff(want, w.Writable); diff != "" {
			t.Errorf("%d submodules: writable (-want +got):\n%s", n, diff)
		}
	}
}

// The same holds where links to skills may be left out.
func TestProtected_TooManySkillFolders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		if err := os.MkdirAll(filepath.Join(dir, ".claude", "skills", name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	e := New(config.NewEnv([]string{"HOME=" + t.TempDir()}, dir), Options{})
	l := Launch{Workspace: dir}
	for most, want := range map[int]bool{3: false, 4: true} {
		w := e.sandboxed(l, e.protected(l, config.Operator{}, settings.Discover{MaxDirs: most}, nil), nil)
		if diff := cmp.Diff(want, w.Writable); diff != "" {
			t.Errorf("max_dirs %d: writable (-want +got):\n%s", most, diff)
		}
	}
}

// Git also obeys what its configuration and hooks lead to.
func TestProtected_HasWhatGitIsLedTo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"conf/git": "[core]\n\thooksPath = my/hooks\n[include]\n\tpath = ../conf/more\n", "conf/more": "", "my/hooks/keep": "", "tools/lint": ""} {
		p := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	err := errors.Join(os.MkdirAll(filepath.Join(dir, ".git", "hooks"), 0o755), os.Symlink("../conf/git", filepath.Join(dir, ".git", "config")), os.Symlink("../list", filepath.Join(dir, ".git", "index")),
		os.Symlink("../../tools/lint", filepath.Join(dir, ".git", "hooks", "pre-commit")), os.Symlink("../../tools/other", filepath.Join(dir, "my", "hooks", "pre-push")))
	if err != nil {
		testenv.Skip(t, fmt.Sprintf("this system lets us make no links: %v", err))
	}
	e := New(config.NewEnv([]string{"HOME=" + t.TempDir()}, dir), Options{})
	l := Launch{Workspace: dir}
	w := e.sandboxed(l, e.protected(l, config.Operator{}, settings.Discover{MaxDirs: 100}, nil), nil)
	for _, p := range []string{"conf/git", "conf/more", "my/hooks", "tools/lint", "tools/other", "list"} {
		if !slices.Contains(w.ReadOnly, p) {
			t.Errorf("%s can be changed", p)
		}
	}
}

func FuzzGitlinks(f *testing.F) {
	f.Add(gitIndex(2, 20, gitEntry{mode: 0o160000, name: "a"}))
	f.Add(gitIndex(4, 20, gitEntry{mode: 0o160000, name: "a"}))
	f.Fuzz(func(_ *testing.T, b []byte) { _, _ = gitlinks(b, 20) })
}
