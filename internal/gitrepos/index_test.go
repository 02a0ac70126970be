package gitrepos_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/internal/gitrepos"
	"metier/internal/testenv"
)

func TestSubmodules_OfEachVersion(t *testing.T) {
	t.Parallel()
	const file, link = 0o100644, 0o160000
	plain := []testenv.GitEntry{{Mode: file, Name: "a"}, {Mode: link, Name: "lib/one"}, {Mode: file, Name: "lib/s"}, {Mode: link, Name: "two"}, {Mode: link, Name: "../out"}}
	want := []string{"lib/one", "two"}
	for name, b := range map[string][]byte{
		"2": testenv.GitIndex(2, 20, plain...),
		"3": testenv.GitIndex(3, 20, append([]testenv.GitEntry{{Mode: file, Name: "0", Extended: true}}, plain...)...),
		"4": testenv.GitIndex(4, 20, testenv.GitEntry{Mode: file, Name: "a"}, testenv.GitEntry{Mode: link, Name: "lib/one", Cut: 1}, testenv.GitEntry{Mode: file, Name: "s", Cut: 3}, testenv.GitEntry{Mode: link, Name: "two", Cut: 5}),
	} {
		dir := t.TempDir()
		write(t, dir, map[string]string{"index": string(b)})
		got, whole := gitrepos.Submodules(dir)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("version %s: %s", name, diff)
		}
		if !whole {
			t.Errorf("version %s: not whole", name)
		}
	}
}

// The size of the hashes is not in an index, and what a configuration says about it can be a name.
func TestSubmodules_OfBothHashes(t *testing.T) {
	t.Parallel()
	for _, hash := range []int{20, 32} {
		for n := 1; n < 4; n++ {
			dir := t.TempDir()
			b := testenv.GitIndex(2, hash, []testenv.GitEntry{{Mode: 0o160000, Name: "lib/one"}, {Mode: 0o100644, Name: "lib/s"}, {Mode: 0o160000, Name: "two"}}[:n]...)
			for name, b := range map[string][]byte{"index": b, "config": []byte("[submodule \"sha256\"]\n")} {
				if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, _ := gitrepos.Submodules(dir)
			for _, want := range []string{"lib/one", "lib/one", "two"}[:n] {
				if !slices.Contains(got, want) {
					t.Errorf("hash of %d bytes, %d entries: %q, want %s", hash, n, got, want)
				}
			}
		}
	}
}

// Git checks the names in an index only when it adds them.
func TestUnsafe_NamesIndexesThatGitDoesNotWrite(t *testing.T) {
	t.Parallel()
	const file, path, form = 0o100644, "its index contains a path that git does not add", "its index is not as git writes it"
	index := func(version uint32, names ...string) string {
		var entries []testenv.GitEntry
		for _, name := range names {
			entries = append(entries, testenv.GitEntry{Mode: file, Name: name})
		}
		return string(testenv.GitIndex(version, 20, entries...))
	}
	config := func(hash string) string { return "[extensions]\n\tobjectformat = " + hash + "\n" }
	good := index(2, "a", "b/.gitignore", "b/c d", "\xff")
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"ordinary":                  {map[string]string{"index": good}, ""},
		"version 4":                 {map[string]string{"index": index(4, "a", "b/c")}, ""},
		"a hook":                    {map[string]string{"index": index(2, ".git/hooks/x")}, path},
		"a hook below":              {map[string]string{"index": index(3, "a/.GIT/hooks/x")}, path},
		"in parts":                  {map[string]string{"index": string(testenv.GitIndex(4, 20, testenv.GitEntry{Mode: file, Name: ".gita"}, testenv.GitEntry{Mode: file, Name: "/hooks/x", Cut: 1}))}, path},
		"up":                        {map[string]string{"index": index(2, "../x")}, path},
		"absolute":                  {map[string]string{"index": index(2, "/etc/x")}, path},
		"an empty part":             {map[string]string{"index": index(2, "a//x")}, path},
		"a control character":       {map[string]string{"index": index(2, "a\rb")}, path},
		"another file system":       {map[string]string{"index": index(2, "a\\.g\u200cit . :x/b")}, path},
		"a short name":              {map[string]string{"index": index(2, "GIT~1/x")}, path},
		"a shared index":            {map[string]string{"index": good, "sharedindex.1": index(2, "../x")}, "its sharedindex.1 contains a path that git does not add"},
		"of a worktree":             {map[string]string{"index": good, "worktrees/a/HEAD": "", "worktrees/a/commondir": "../..\n", "worktrees/a/index": index(2, "../x")}, path},
		"of another repository":     {map[string]string{"index": good, "worktrees/a/HEAD": "", "worktrees/a/commondir": "../../objects\n", "objects/x": ""}, "its .git contains a worktree of another repository"},
		"an unknown name":           {map[string]string{"index": index(2, "", "a")}, form},
		"a part":                    {map[string]string{"index": good[:60]}, form},
		"another length":            {map[string]string{"index": strings.Replace(good, "\x00\x01a", "\x00\x02a", 1)}, form},
		"offsets":                   {map[string]string{"index": strings.Replace(good, "TREE", "IEOT", 1)}, form},
		"a longer name than a path": {map[string]string{"index": index(4, strings.Repeat("a/", 2050))}, form},
		"another hash":              {map[string]string{"index": good, "config": config("sha256")}, form},
		"the other hash":            {map[string]string{"index": string(testenv.GitIndex(2, 32, testenv.GitEntry{Mode: file, Name: "a"})), "config": config("sha256")}, ""},
	} {
		dir := t.TempDir()
		for file, text := range c.files {
			write(t, filepath.Join(dir, ".git"), map[string]string{file: text})
		}
		if diff := cmp.Diff(c.want, unsafe(t, dir, dir)); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

// What git itself writes is accepted.
func TestUnsafe_AcceptsIndexesOfGit(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"version 4": {"--index-version", "4"}, "split": {"--split-index"}, "untracked cache": {"--force-untracked-cache"}, "skipped": {"--skip-worktree", "b/c"}} {
		dir := t.TempDir()
		git(t, dir, "init", "-q")
		write(t, dir, map[string]string{"a": "", "b/c": "", "b/d": strings.Repeat("x", 5000)})
		git(t, dir, "add", "-A")
		git(t, dir, append([]string{"update-index"}, args...)...)
		write(t, dir, map[string]string{"a": "changed", "g": ""})
		git(t, dir, "add", "a", "g")
		if diff := cmp.Diff("", unsafe(t, dir, dir)); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

func FuzzSubmodules(f *testing.F) {
	f.Add(testenv.GitIndex(2, 20, testenv.GitEntry{Mode: 0o160000, Name: "a"}))
	f.Add(testenv.GitIndex(4, 20, testenv.GitEntry{Mode: 0o160000, Name: "a"}))
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		write(t, dir, map[string]string{"index": string(b)})
		_, _ = gitrepos.Submodules(dir)
	})
}
