//go:build linux && (amd64 || arm64)

package quarantine_test

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"metier/sandbox"
	"metier/sandbox/native"
	"metier/sandbox/quarantine"
)

// workspace creates a folder with files. A text "-> x" is a link to x, and a
// name that ends with "/" is a folder.
func workspace(t *testing.T, files map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		target, link := strings.CutPrefix(text, "-> ")
		switch {
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(p, 0o755)
		case link:
			err = os.Symlink(strings.ReplaceAll(target, "$WS", dir), p)
		default:
			err = os.WriteFile(p, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// list returns the content of a folder: file contents, "/" for folders, and
// link targets.
func list(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, p) // p is below dir
		switch {
		case err != nil || p == dir:
		case d.IsDir():
			all[rel] = "/"
		case d.Type()&fs.ModeSymlink != 0:
			var target string
			target, err = os.Readlink(p)
			all[rel] = "-> " + target
		default:
			var b []byte
			b, err = os.ReadFile(p)
			all[rel] = string(b)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func open(t *testing.T, j *quarantine.Journal) *quarantine.Sandbox {
	t.Helper()
	inner, err := native.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := quarantine.New(inner, j)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func shell(dir, script string, protected ...string) sandbox.Job {
	return sandbox.Job{Argv: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin"}, MinLevel: sandbox.L2,
		Workspace: &sandbox.Workspace{Host: dir, Writable: true, ReadOnly: protected}}
}

func TestRun_MovesAsideWhatAppears(t *testing.T) {
	t.Parallel()
	// wait keeps the program running until it is killed.
	const wait = "; sleep 100"
	for name, tc := range map[string]struct {
		files  map[string]string
		script string
		moved  []sandbox.Quarantined
		absent []string // paths that must not exist afterwards
	}{
		"folder":           {nil, "mkdir -p .agents/skills/x" + wait, []sandbox.Quarantined{{Path: ".agents/skills", To: ".agents/skills.quarantined"}}, []string{".agents/skills"}},
		"at the end":       {nil, "mkdir -p .agents/skills/x", []sandbox.Quarantined{{Path: ".agents/skills", To: ".agents/skills.quarantined"}}, []string{".agents/skills"}},
		"file":             {nil, "echo 'gitdir: x' > .git" + wait, []sandbox.Quarantined{{Path: ".git", To: ".git.quarantined"}}, []string{".git"}},
		"rename":           {nil, "mkdir x; mv x .git" + wait, []sandbox.Quarantined{{Path: ".git", To: ".git.quarantined"}}, []string{".git"}},
		"hard link":        {map[string]string{"a": "a"}, "ln a .git" + wait, []sandbox.Quarantined{{Path: ".git", To: ".git.quarantined"}}, []string{".git"}},
		"renamed parent":   {nil, "mkdir -p x/skills/y; mv x .agents" + wait, []sandbox.Quarantined{{Path: ".agents/skills", To: ".agents/skills.quarantined"}}, []string{".agents/skills"}},
		"replaced parent":  {map[string]string{".agents/a": "a"}, "mv .agents old; mkdir -p .agents/skills" + wait, []sandbox.Quarantined{{Path: ".agents/skills", To: ".agents/skills.quarantined"}}, []string{".agents/skills"}},
		"link":             {nil, "mkdir x; ln -s x .git" + wait, []sandbox.Quarantined{{Path: ".git", To: ".git.quarantined"}}, []string{".git"}},
		"linked parent":    {nil, "mkdir -p x/skills; ln -s x .agents" + wait, []sandbox.Quarantined{{Path: ".agents", To: ".agents.quarantined"}}, []string{".agents"}},
		"linked existing":  {map[string]string{".agents/a": "a"}, "mv .agents old; mkdir old/skills; ln -s old .agents" + wait, []sandbox.Quarantined{{Path: ".agents", To: ".agents.quarantined"}}, []string{".agents"}},
		"link outside":     {nil, "ln -s /etc .agents" + wait, []sandbox.Quarantined{{Path: ".agents", To: ".agents.quarantined"}}, []string{".agents"}},
		"read-only":        {nil, "mkdir -p .agents/skills/x; chmod 500 .agents", []sandbox.Quarantined{{Path: ".agents/skills", To: ".agents/skills.quarantined"}}, []string{".agents/skills"}},
		"no access":        {nil, "mkdir -p .agents/skills/x; chmod 0 .agents", []sandbox.Quarantined{{Path: ".agents/skills", To: ".agents/skills.quarantined"}}, []string{".agents/skills"}},
		"no access at all": {nil, "mkdir -p .agents/skills/x; chmod 0 .", []sandbox.Quarantined{{Path: ".agents/skills", To: ".agents/skills.quarantined"}}, []string{".agents/skills"}},
		"access changes":   {nil, "mkdir .agents; while :; do chmod 0 .agents; chmod 700 .agents; done & until mkdir .agents/skills 2>/dev/null; do :; done" + wait, []sandbox.Quarantined{{Path: ".agents/skills", To: ".agents/skills.quarantined"}}, []string{".agents/skills"}},
		"write alone":      {nil, "mkdir .agents; chmod 300 .agents; mkdir -p .agents/skills/x" + wait, []sandbox.Quarantined{{Path: ".agents/skills", To: ".agents/skills.quarantined"}}, []string{".agents/skills"}},
		"taken name":       {nil, "mkdir -p .git.quarantined/a; mkdir .git" + wait, []sandbox.Quarantined{{Path: ".git", To: ".git.quarantined-2"}}, []string{".git"}},
		"target of a link": {map[string]string{".git": "-> none/deep"}, "mkdir -p none/deep/hooks" + wait, []sandbox.Quarantined{{Path: "none/deep", To: "none/deep.quarantined"}}, []string{"none/deep"}},
		"absolute link":    {map[string]string{".git": "-> $WS/none"}, "mkdir none" + wait, []sandbox.Quarantined{{Path: "none", To: "none.quarantined"}}, []string{"none"}},
		"file in the way":  {map[string]string{".agents": "a"}, "rm .agents; mkdir -p .agents/skills" + wait, []sandbox.Quarantined{{Path: ".agents/skills", To: ".agents/skills.quarantined"}}, []string{".agents/skills"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := workspace(t, tc.files)
			res, err := open(t, quarantine.NewJournal(t.TempDir())).Run(t.Context(), shell(dir, tc.script, ".agents/skills", ".git"))
			for _, p := range []string{dir, filepath.Join(dir, ".agents")} {
				_ = os.Chmod(p, 0o700) // so that the folder can be removed
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.moved, res.Quarantined); diff != "" {
				t.Errorf("moved (-want +got):\n%s", diff)
			}
			if res.Limit != sandbox.LimitProtectedPath {
				t.Errorf("limit %q", res.Limit)
			}
			for _, p := range tc.absent {
				if _, err := os.Lstat(filepath.Join(dir, p)); err == nil {
					t.Errorf("%s is there", p)
				}
			}
		})
	}
}

// creator is a sandbox whose program creates a file in the workspace.
type creator struct {
	sandbox.Sandbox
	name string
}

func (s creator) Run(_ context.Context, j sandbox.Job) (sandbox.Result, error) {
	return sandbox.Result{Stdout: []byte("done")}, os.WriteFile(filepath.Join(j.Workspace.Host, s.name), nil, 0o600)
}

// A program that ran has run, even if the protected paths cannot be checked afterwards.
func TestRun_ReportsProgramsThatRanAsLost(t *testing.T) {
	t.Parallel()
	name := strings.Repeat("a", 250) // too long to be moved aside
	s := quarantine.New(creator{name: name}, nil)
	res, err := s.Run(t.Context(), shell(workspace(t, nil), "", name))
	if _, is := errors.AsType[*sandbox.Lost](err); !is {
		t.Errorf("error %v, want *sandbox.Lost", err)
	}
	if _, is := errors.AsType[*sandbox.Unavailable](err); is {
		t.Errorf("error %v, want none that means that nothing ran", err)
	}
	if diff := cmp.Diff("done", string(res.Stdout)); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

// The permissions of folders above protected paths decide whether later commands find what is in
// them, and trust it.
func TestRun_RestoresPermissions(t *testing.T) {
	t.Parallel()
	for script, want := range map[string][]string{
		"chmod 0 .claude":            {".claude"},
		"chmod 777 .":                {"."},
		"chmod 770 packages .claude": {".claude", "packages"},
		"chmod 500 packages/app":     {"packages/app"},
		"chmod 711 .claude":          nil, // the user has all access, and others have none to write
		"chmod 777 packages/other":   nil,
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			dir := workspace(t, map[string]string{".claude/skills/a": "a", "packages/app/.claude/skills/b": "b", "packages/other/c": "c"})
			for _, p := range []string{".", ".claude", "packages", "packages/app"} {
				if err := os.Chmod(filepath.Join(dir, p), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			res, err := open(t, quarantine.NewJournal(t.TempDir())).Run(t.Context(), shell(dir, script, ".claude/skills", "packages/app/.claude/skills", ".git"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, slices.Sorted(slices.Values(res.Restored))); diff != "" {
				t.Errorf("restored (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(0, res.Exit); diff != "" {
				t.Errorf("exit (-want +got):\n%s", diff)
			}
			for _, p := range want {
				info, err := os.Stat(filepath.Join(dir, p))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(os.FileMode(0o755), info.Mode().Perm()); diff != "" {
					t.Errorf("permissions of %s (-want +got):\n%s", p, diff)
				}
			}
		})
	}
}

func TestRun_RefusesPathsThatLeaveTheWorkspace(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	for _, p := range []string{"../x", "/etc", ".", "a/../../x"} {
		if res, err := s.Run(t.Context(), shell(workspace(t, nil), "true", p)); err == nil {
			t.Errorf("%q: no error, %+v", p, res)
		}
	}
}

func TestRun_RestoresLinks(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"removed":  "rm .claude/skills",
		"parent":   "mv .claude x; rm -r x",
		"replaced": "rm .claude/skills; mkdir -p .claude/skills/x; sleep 100",
		"changed":  "ln -sfn ../evil .claude/skills; sleep 100",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := workspace(t, map[string]string{".claude/skills": "-> ../.agents/skills", ".agents/skills/a": "a", "evil/": ""})
			res, err := open(t, nil).Run(t.Context(), shell(dir, script+"; echo no > .agents/skills/b", ".claude/skills"))
			if err != nil {
				t.Fatal(err)
			}
			if len(res.Quarantined) != 1 || res.Quarantined[0].Path != ".claude/skills" {
				t.Errorf("moved %+v", res.Quarantined)
			}
			want := map[string]string{".claude": "/", ".claude/skills": "-> ../.agents/skills", ".agents": "/", ".agents/skills": "/", ".agents/skills/a": "a", "evil": "/"}
			got := list(t, dir)
			for p := range got {
				if strings.HasPrefix(p, ".claude/skills.quarantined") || strings.HasPrefix(p, "x") { // the program may end before it removes it
					delete(got, p)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// What replaces an existing protected path on the host is not covered in the sandbox: the kernel
// removes the mount.
func TestRun_EndsWhenProtectedPathsAreReplaced(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		hidden, readable bool
		path             string // that is protected
		change           func(dir string) error
		to               string
		after            map[string]string // of the path, and of to
	}{
		"file": {path: "metier.yaml", to: "metier.yaml.quarantined", after: map[string]string{"metier.yaml.quarantined": "new"},
			change: func(dir string) error { return os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "metier.yaml")) }},
		"folder": {path: "skills", to: "skills.quarantined", after: map[string]string{"skills.quarantined": "/"},
			change: func(dir string) error {
				return unix.Renameat2(unix.AT_FDCWD, filepath.Join(dir, "skills"), unix.AT_FDCWD, filepath.Join(dir, "above"), unix.RENAME_EXCHANGE)
			}},
		"parent": {path: "above/skills", after: map[string]string{},
			change: func(dir string) error { return os.Rename(filepath.Join(dir, "above"), filepath.Join(dir, "gone")) }},
		"removed": {path: "metier.yaml", after: map[string]string{},
			change: func(dir string) error { return os.Remove(filepath.Join(dir, "metier.yaml")) }},
		"secret": {hidden: true, path: "token", after: map[string]string{"token": "new"},
			change: func(dir string) error { return os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "token")) }},
		"secret for reading": {hidden: true, readable: true, path: "token", after: map[string]string{"token": "new"},
			change: func(dir string) error { return os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "token")) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := workspace(t, map[string]string{"metier.yaml": "old", "token": "old", "new": "new", "skills/a": "a", "above/skills/a": "a"})
			j := shell(dir, "echo ready; while :; do read line || sleep 100; done")
			if j.Workspace.Writable = !tc.readable; tc.hidden {
				j.Workspace.Hidden = []string{tc.path}
			} else {
				j.Workspace.ReadOnly = []string{tc.path}
			}
			p := begin(t, open(t, quarantine.NewJournal(t.TempDir())), j)
			if err := tc.change(dir); err != nil {
				t.Fatal(err)
			}
			res := <-p.done
			if diff := cmp.Diff([]sandbox.Quarantined{{Path: tc.path, To: tc.to, Replaced: true}}, res.Quarantined); diff != "" {
				t.Errorf("quarantined (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(sandbox.LimitProtectedPath, res.Limit); diff != "" {
				t.Errorf("limit (-want +got):\n%s", diff)
			}
			got := list(t, dir)
			maps.DeleteFunc(got, func(p, _ string) bool { return p != tc.path && p != tc.path+".quarantined" })
			if diff := cmp.Diff(tc.after, got); diff != "" {
				t.Errorf("afterwards (-want +got):\n%s", diff)
			}
		})
	}
}

// A harmless program sees and leaves an ordinary workspace. Other processes see
// an ordinary workspace while it runs.
func TestRun_LeavesNothing(t *testing.T) {
	t.Parallel()
	before := map[string]string{"a": "a", ".agents": "/", ".agents/notes": "n", ".claude": "/", ".claude/skills": "-> ../shared", "shared": "/", "shared/s": "s"}
	dir := workspace(t, map[string]string{"a": "a", ".agents/notes": "n", ".claude/skills": "-> ../shared", "shared/s": "s"})
	journal := t.TempDir()
	s := open(t, quarantine.NewJournal(journal))
	p := start(t, s, dir, "echo new > .agents/more; mkdir .github; cat .claude/skills/s", ".agents/skills", ".claude/skills", ".git", ".github/skills")
	if diff := cmp.Diff(before, list(t, dir)); diff != "" {
		t.Errorf("while it runs (-want +got):\n%s", diff)
	}
	res := p.goOn()
	if diff := cmp.Diff("ready\ns", string(res.Stdout)); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	if res.Limit != "" {
		t.Errorf("limit %q, %+v", res.Limit, res.Quarantined)
	}
	before[".agents/more"], before[".github"] = "new\n", "/"
	if diff := cmp.Diff(before, list(t, dir)); diff != "" {
		t.Errorf("afterwards (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"lock": ""}, list(t, journal)); diff != "" {
		t.Errorf("the journal (-want +got):\n%s", diff)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
