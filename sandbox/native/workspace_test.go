//go:build linux && (amd64 || arm64)

package native_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/sandbox"
)

// folder creates a workspace with files, owned by an ordinary user if the test
// runs as root.
func folder(t *testing.T, owner int, files map[string]string) string {
	t.Helper()
	dir := t.TempDir() // only its owner can enter the folders above it
	for p, text := range files {
		p = filepath.Join(dir, p)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if to, ok := strings.CutPrefix(text, "-> "); ok {
			if err := os.Symlink(to, p); err != nil {
				t.Fatal(err)
			}
		} else if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if os.Geteuid() == 0 {
		err := filepath.WalkDir(dir, func(p string, _ os.DirEntry, err error) error {
			return errors.Join(err, os.Lchown(p, owner, owner))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func owner(t *testing.T, path string) int {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return int(info.Sys().(*syscall.Stat_t).Uid)
}

// list returns the content of a folder by path; a folder's value is "/".
func list(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		if d.IsDir() {
			all[rel] = "/"
			return nil
		}
		b, err := os.ReadFile(p)
		all[rel] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestAWorkspaceBelongsToItsOwner(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, id := range []int{0, 4321} {
		id := id
		if os.Geteuid() != 0 {
			id = os.Geteuid()
		}
		dir := folder(t, id, map[string]string{"a": "old"})
		j := shell("pwd; cat a; echo new > a; mkdir d; echo b > d/b; chmod +s d/b; ls -ln | tail -n +2 | tr -s ' ' | cut -d' ' -f3,4,9; exit 0")
		j.Workspace = &sandbox.Workspace{Host: dir, Writable: true}
		if got := says(t, s, j); got != "/workspace\nold1000 1000 a\n1000 1000 d\n" {
			t.Errorf("%q", got)
		}
		if diff := cmp.Diff(map[string]string{"a": "new\n", "d": "/", "d/b": "b\n"}, list(t, dir)); diff != "" {
			t.Error(diff)
		}
		info, err := os.Stat(filepath.Join(dir, "d/b"))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != 0o644 || owner(t, filepath.Join(dir, "d/b")) != id || owner(t, filepath.Join(dir, "d")) != id {
			t.Errorf("mode %v, owner %d; want owner %d", info.Mode(), owner(t, filepath.Join(dir, "d/b")), id)
		}
		j = shell("cat a; echo no > a; echo no > c; rm d/b; true")
		j.Workspace = &sandbox.Workspace{Host: dir}
		if got := says(t, s, j); got != "new\n" {
			t.Errorf("read-only: %q", got)
		}
		if diff := cmp.Diff(map[string]string{"a": "new\n", "d": "/", "d/b": "b\n"}, list(t, dir)); diff != "" {
			t.Error("read-only:", diff)
		}
	}
}

// attempts are ways to change a path p of the workspace.
const attempts = `
try() { p=$1
	echo no > $p; echo no > $p/x; mkdir -p $p/y; rm -rf $p; mv $p moved; ln -s /tmp $p
	d=$(dirname $p)
	if [ $d != . ]; then mv $d elsewhere; cp -r elsewhere $d; rm -rf $d; mkdir -p $p; echo no > $p/x; fi
	chmod 777 $p; true
}
`

func TestGuardedPathsStay(t *testing.T) {
	t.Parallel()
	s := open(t)
	files := map[string]string{".git/hooks/pre-commit": "hook", ".git/config": "config", "AGENTS.md": "agents", ".metier/state": "secret", ".env": "secret", "src/a": "a"}
	dir := folder(t, 0, files)
	before := list(t, dir)
	j := shell(attempts + `for p in .git/hooks .git/config AGENTS.md .metier .env; do try $p; done 2>/dev/null
		cat .git/hooks/pre-commit .git/config AGENTS.md; echo; ls -A .metier; cat .env; rm -rf moved elsewhere; echo ok > src/a; echo more > .git/index`)
	j.Workspace = &sandbox.Workspace{Host: dir, Writable: true, ReadOnly: []string{".git/hooks", ".git/config", "AGENTS.md", "none", "deep/none"}, Hidden: []string{".metier", ".env"}}
	if got := says(t, s, j); got != "hookconfigagents\n" {
		t.Errorf("%q", got)
	}
	before["src/a"], before[".git/index"] = "ok\n", "more\n"
	if diff := cmp.Diff(before, list(t, dir)); diff != "" {
		t.Error(diff)
	}
}

func TestHiddenPathsLookEmpty(t *testing.T) {
	t.Parallel()
	dir := folder(t, 0, map[string]string{".metier/deep/state": "secret", ".env": "secret", "a": "a"})
	j := shell("ls -A .metier; cat .env a; ls -A")
	j.Workspace = &sandbox.Workspace{Host: dir, Hidden: []string{".metier", ".env", "none", ".metier/deep"}}
	if got := says(t, open(t), j); got != "a.env\n.metier\na\n" {
		t.Errorf("%q", got)
	}
}

// A link at a guarded path could point anywhere by the time it is used.
func TestLinksAtGuardedPathsAreRefused(t *testing.T) {
	t.Parallel()
	s := open(t)
	victim := folder(t, 0, map[string]string{"v": "v"})
	dir := folder(t, 0, map[string]string{".git": "-> " + victim, "in": "-> real", "real/x": "x"})
	for _, w := range []sandbox.Workspace{
		{Host: dir, Writable: true, ReadOnly: []string{".git"}},
		{Host: dir, Writable: true, ReadOnly: []string{".git/hooks"}},
		{Host: dir, Writable: true, Hidden: []string{"in/x"}},
		{Host: dir, Hidden: []string{"in"}},
	} {
		j := shell("echo ran > /workspace/canary")
		j.Workspace = &w
		if _, err := s.Run(t.Context(), j); err == nil || !strings.Contains(err.Error(), "symbolic link") {
			t.Errorf("%+v: %v", w, err)
		}
	}
	if got := list(t, victim); len(got) != 1 {
		t.Errorf("%v", got)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{link, filepath.Join(dir, "none"), filepath.Join(dir, "real/x")} {
		j := shell("true")
		j.Workspace = &sandbox.Workspace{Host: host}
		if _, err := s.Run(t.Context(), j); err == nil || !strings.Contains(err.Error(), host) {
			t.Errorf("%s: %v", host, err)
		}
	}
}
