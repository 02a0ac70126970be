package engine

import (
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

// Git at the top of a repository uses the .git of its submodules, so these are protected, even if
// the workspace is a folder of the repository.
func TestProtected_HasSubmodules(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	for name, b := range map[string][]byte{
		".git/index":                  testenv.GitIndex(2, 20, testenv.GitEntry{Mode: 0o160000, Name: "pkg/sub"}),
		"pkg/sub/.git":                []byte("gitdir: ../../.git/modules/pkg/sub\n"),
		".git/modules/pkg/sub/config": []byte("[core]\n"),
		".git/modules/pkg/sub/index":  testenv.GitIndex(2, 20, testenv.GitEntry{Mode: 0o160000, Name: "deep"}),
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
	index := string(testenv.GitIndex(2, 20, testenv.GitEntry{Mode: 0o160000, Name: "sub"}))
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
		var entries []testenv.GitEntry
		for i := range n {
			entries = append(entries, testenv.GitEntry{Mode: 0o160000, Name: fmt.Sprintf("s%04d", i)})
		}
		if err := errors.Join(os.Mkdir(filepath.Join(dir, ".git"), 0o755), os.WriteFile(filepath.Join(dir, ".git", "index"), testenv.GitIndex(2, 20, entries...), 0o600)); err != nil {
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
