package gitrepos_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"metier/internal/gitrepos"
)

// write creates files below dir.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	var err error
	for name, text := range files {
		p := filepath.Join(dir, filepath.FromSlash(name))
		err = errors.Join(err, os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(text), 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// git runs git without the user's configuration.
func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "protocol.file.allow=always"}, args...)...)
	c.Dir, c.Env = dir, append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
}

// unsafe checks one repository below root.
func unsafe(t *testing.T, root, dir string) string {
	t.Helper()
	why, err := gitrepos.NewCheck(root).Unsafe(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return why
}

func TestFind_SeesWhatChanged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{".git/HEAD": "", "a/b/.git": "gitdir: x", "c.git/HEAD": "", "c.git/objects/x": "", "d/HEAD": "", "node_modules/e/.git/HEAD": "", "g/.metier/h/.git/HEAD": "", "k\\l/m:\xff/.git": "", "c:/.git": "", ".metier/i/.git/HEAD": ""})
	old := time.Now().Add(-time.Hour)
	var f gitrepos.Finder
	for range 2 {
		got, whole := f.Find(t.Context(), dir, 100)
		if diff := cmp.Diff([]string{"a/b", "c.git", "c:", "g/.metier/h", "k\\l/m:\xff", "node_modules/e"}, got); diff != "" || !whole {
			t.Errorf("whole %v:\n%s", whole, diff)
		}
	}
	write(t, dir, map[string]string{"a/f/.git/HEAD": ""})
	if err := errors.Join(os.RemoveAll(filepath.Join(dir, "c.git")), os.Chtimes(filepath.Join(dir, "a"), old, old)); err != nil { // a program can change this time
		t.Fatal(err)
	}
	got, _ := f.Find(t.Context(), dir, 100)
	if diff := cmp.Diff([]string{"a/b", "a/f", "c:", "g/.metier/h", "k\\l/m:\xff", "node_modules/e"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestFind_ReportsItsLimit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{"a/x": "", "b/x": ""})
	var f gitrepos.Finder
	for most, want := range map[int]bool{2: false, 3: true} {
		if _, whole := f.Find(t.Context(), dir, most); whole != want {
			t.Errorf("with at most %d folders: whole %v", most, whole)
		}
	}
}

// What ordinary commands create is not unsafe.
func TestUnsafe_AcceptsOrdinaryRepositories(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	git(t, dir, "init", "-q", "one")
	git(t, dir, "init", "-q", "two")
	one := filepath.Join(dir, "one")
	git(t, one, "commit", "-q", "--allow-empty", "-m", "x")
	git(t, one, "config", "user.email", "a@example.com")
	git(t, filepath.Join(dir, "two"), "submodule", "-q", "add", one, "sub")
	git(t, filepath.Join(dir, "two"), "commit", "-q", "-m", "x")
	git(t, dir, "clone", "-q", "--recurse-submodules", filepath.Join(dir, "two"), "three")
	git(t, one, "worktree", "add", "-q", filepath.Join(dir, "tree"))
	git(t, one, "remote", "add", "other", "../two")
	for _, name := range []string{"one", "two", "three", "three/sub", "tree"} {
		if diff := cmp.Diff("", unsafe(t, dir, filepath.Join(dir, name))); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

// All repositories that one Check checks share its limits.
func TestUnsafe_LimitsTheFilesOfAllRepositories(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{"a/.git/HEAD": "", "b/.git/HEAD": ""})
	for i := range 125 {
		write(t, dir, map[string]string{"a/.git/objects/" + strconv.Itoa(i): ""})
	}
	c := gitrepos.NewCheck(dir)
	for i := range 2000 {
		if why, err := c.Unsafe(t.Context(), filepath.Join(dir, "a")); err != nil || why != "" {
			if diff := cmp.Diff("its .git has too many files", why); diff != "" || err != nil || i < 100 {
				t.Errorf("%d times, %v:\n%s", i, err, diff)
			}
			break
		}
	}
	why, err := c.Unsafe(t.Context(), filepath.Join(dir, "b"))
	if diff := cmp.Diff("its .git has too many files", why); diff != "" || err != nil {
		t.Errorf("the next, %v:\n%s", err, diff)
	}
}

func TestUnsafe_LimitsTheConfigurationsOfAllRepositories(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{".git/config": strings.Repeat("[user]\n", 2<<10)})
	c, n := gitrepos.NewCheck(dir), 0
	for ; n < 1000; n++ {
		if why, err := c.Unsafe(t.Context(), dir); err != nil || why != "" {
			if diff := cmp.Diff("its config cannot be read", why); diff != "" || err != nil {
				t.Errorf("%v:\n%s", err, diff)
			}
			break
		}
	}
	if diff := cmp.Diff((4<<20)/(7*2<<10), n); diff != "" {
		t.Error(diff)
	}
}

func TestUnsafe_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{".git/HEAD": ""})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if why, err := gitrepos.NewCheck(dir).Unsafe(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("%q, %v", why, err)
	}
	var f gitrepos.Finder
	if _, whole := f.Find(ctx, dir, 10); whole {
		t.Error("the search is whole")
	}
}

func TestUnsafe_NamesWhatRunsPrograms(t *testing.T) {
	t.Parallel()
	const notSubmodule = "its core.worktree is not the folder of a submodule"
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"a setting":                   {map[string]string{"r/.git/config": "[core]\n\tbare = false\n\tfsmonitor = x\n"}, "it sets core.fsmonitor"},
		"a filter":                    {map[string]string{"r/.git/config": "[filter \"a\"]\n\tclean = x"}, "it sets filter.a.clean"},
		"an included file":            {map[string]string{"r/.git/config": "[include]\npath = x\n"}, "it sets include.path"},
		"a command of a submodule":    {map[string]string{"r/.git/config": "[submodule \"a\"]\nupdate = !x\n"}, "it sets submodule.a.update"},
		"a server of missing objects": {map[string]string{"r/.git/config": "[remote \"a\"]\n\tpromisor = true\n"}, "it sets remote.a.promisor"},
		"an extension for it":         {map[string]string{"r/.git/config": "[extensions]\n\tpartialClone = a\n"}, "it sets extensions.partialclone"},
		"a proxy of a remote":         {map[string]string{"r/.git/config": "[remote \"a.url\"]\nproxy = x\n"}, "it sets remote.a.url.proxy"},
		"a worktree's setting":        {map[string]string{"r/.git/config.worktree": "[core]\nhooksPath = x\n"}, "it sets core.hookspath"},
		"a hook":                      {map[string]string{"r/.git/hooks/pre-commit": "", "r/.git/hooks/a.sample": ""}, "it has the hook pre-commit"},
		"a .git file":                 {map[string]string{"r/.git": "gitdir: ../o/.git/modules/g\n", "o/.git/modules/g/config": "[core]\n\tsshCommand = x\n"}, "it sets core.sshcommand"},
		"a common folder":             {map[string]string{"r/.git": "gitdir: ../.git/g\n", ".git/g/commondir": "../h\n", ".git/h/hooks/post-checkout": ""}, "it has the hook post-checkout"},
		"a .git file to a folder that file tools can write": {map[string]string{"r/.git": "gitdir: ../g\n", "g/config": "[core]\n"}, "its .git leads to a folder that is not in a .git"},
		"a common folder that file tools can write":         {map[string]string{"r/.git/commondir": "../../g\n", "g/config": "[core]\n"}, "its commondir leads to a folder that is not in a .git"},
		"a working tree outside":                            {map[string]string{"r/.git/config": "[core]\n\tworktree = ../../..\n"}, notSubmodule},
		"a working tree outside, by its path":               {map[string]string{"r/.git/config": "[core]\n\tworktree = \"/etc\"\n"}, notSubmodule},
		"a working tree that is the git folder":             {map[string]string{"r/.git/config": "[core]\n\tworktree = .\n"}, notSubmodule},
		"a working tree of another repository":              {map[string]string{"r/.git/config": "[core]\n", "r/.git/modules/a/HEAD": "", "r/.git/modules/a/objects/x": "", "r/.git/modules/a/config": "[core]\n\tworktree = ../../../../o\n", "o/x": ""}, notSubmodule},
		"a submodule in a git folder":                       {map[string]string{"r/.git/config": "[core]\n", "r/.git/modules/a/HEAD": "", "r/.git/modules/a/objects/x": "", "r/.git/modules/a/config": "[core]\n\tworktree = ../../../s/.git\n"}, notSubmodule},
		"a linked log":                                      {map[string]string{"r/.git/config": "[core]\n", "r/.git/logs/x": "link"}, "its logs/x is a symbolic link"},
		"a linked log of a submodule":                       {map[string]string{"r/.git/config": "[core]\n", "r/.git/modules/a/logs/x": "link"}, "its modules/a/logs/x is a symbolic link"},
		"a rebase":                                          {map[string]string{"r/.git/config": "[core]\n", "r/.git/rebase-merge/strategy": "x/e\n"}, "its rebase-merge is not finished"},
		"a rebase by git":                                   {map[string]string{"r/.git/config": "[core]\n", "r/.git/rebase-apply/next": "1\n"}, "its rebase-apply is not finished"},
		"cherry-picks":                                      {map[string]string{"r/.git/config": "[core]\n", "r/.git/sequencer/opts": "[options]\n\tstrategy = x/e\n"}, "its sequencer is not finished"},
		"a linked configuration":                            {map[string]string{"r/.git/config": "link"}, "its config is a symbolic link"},
		"a .git file that leads out":                        {map[string]string{"r/.git": "gitdir: /\n"}, "its .git leads out of the workspace"},
		"a .git file that goes up from a link":              {map[string]string{"r/.git": "gitdir: ../link/../.git/g\n", ".git/g/config": "[core]\n", "deep/.git/g/config": "[core]\n\tfsmonitor = x\n", "deep/er/x": ""}, "it sets core.fsmonitor"},
		"a submodule without a working tree":                {map[string]string{"r/.git/config": "[core]\n", "r/.git/modules/a/b/HEAD": "", "r/.git/modules/a/b/objects/x": "", "r/.git/modules/a/b/config": "[core]\n\tsshCommand = x\n"}, "it sets core.sshcommand"},
		"a return before a subsection":                      {map[string]string{"r/.git/config": "[includeIf\r\"gitdir:/**\"] path = x\n"}, "its config is not as git writes it"},
		"a tab in a value":                                  {map[string]string{"r/.git/config": "[core]\n\tworktree = a\tb\n"}, "its config is not as git writes it"},
		"a line that continues":                             {map[string]string{"r/.git/config": "[core] # \\\n"}, "its config is not as git writes it"},
		"a variable after its section":                      {map[string]string{"r/.git/config": "[core] bare = true\n"}, "its config is not as git writes it"},
		"a large configuration":                             {map[string]string{"r/.git/config": strings.Repeat("[user]\n", 3<<10)}, "its config cannot be read"},
		"a bare repository":                                 {map[string]string{"r/HEAD": "", "r/objects/x": "", "r/hooks/pre-receive": ""}, "it has the hook pre-receive"},
		"a bare repository in a git folder":                 {map[string]string{"r/.git/config": "[core]\n", "r/.git/x/y/HEAD": "", "r/.git/x/y/objects/x": "", "r/.git/x/y/hooks/pre-receive": ""}, "it has the hook pre-receive"},
	} {
		dir := t.TempDir()
		write(t, dir, c.files)
		err := os.Symlink(filepath.Join("deep", "er"), filepath.Join(dir, "link"))
		for file, text := range c.files {
			if text == "link" {
				err = errors.Join(err, os.Remove(filepath.Join(dir, file)), os.Symlink("../../c", filepath.Join(dir, file)))
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, unsafe(t, dir, filepath.Join(dir, "r"))); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

func TestUnsafe_NamesRepositoriesThatEveryUserCanWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	git := filepath.Join(dir, "r", ".git")
	if err := os.MkdirAll(git, 0o755); err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[os.FileMode]string{0o775: "", 0o777: "every user can write its .git"} {
		if err := os.Chmod(git, mode); err != nil {
			t.Fatal(err)
		}
		got, err := gitrepos.NewCheck(dir).Unsafe(t.Context(), filepath.Join(dir, "r"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%o (-want +got):\n%s", mode, diff)
		}
	}
}
