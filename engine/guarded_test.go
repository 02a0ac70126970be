package engine

import (
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"metier/config"
	"metier/internal/confine"
	"metier/internal/testenv"
	"metier/settings"
)

// Projects that no longer exist are forgotten, and a read error is reported once.
func TestRemember_ForgetsProjectsThatAreGone(t *testing.T) {
	t.Parallel()
	var said []Notice
	state, gone, here := t.TempDir(), filepath.Join(t.TempDir(), "gone"), t.TempDir()
	e := New(config.NewEnv([]string{"HOME=" + state, "XDG_STATE_HOME=" + state}, ""), Options{Notify: func(n Notice) { said = append(said, n) }})
	if err := os.Mkdir(gone, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := e.remember(knownProjects, gone); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	if err := e.remember(knownProjects, here); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{here}, slices.Collect(maps.Values(e.projects()))); diff != "" {
		t.Errorf("projects (-want +got):\n%s", diff)
	}
	if err := os.Mkdir(filepath.Join(e.Env.StateDir(), "projects", strings.Repeat("a", 64)), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if diff := cmp.Diff([]string{here}, slices.Collect(maps.Values(e.projects()))); diff != "" {
			t.Errorf("projects (-want +got):\n%s", diff)
		}
	}
	if len(said) != 1 || said[0].Code != "projects_unreadable" {
		t.Errorf("notices: %v", said)
	}
}

// The files that commands were given last are remembered, if they are in a workspace.
func TestRememberSources_ForgetsTheFirst(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	e := New(config.NewEnv([]string{"HOME=" + t.TempDir()}, ""), Options{})
	l := Launch{Workspace: ws, Sources: []string{filepath.Join(t.TempDir(), "elsewhere.yaml")}}
	for i := range mostSources + 3 {
		file := filepath.Join(ws, strconv.Itoa(i)+".yaml")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		l.Sources = append(l.Sources, file)
	}
	if err := e.rememberSources(l); err != nil {
		t.Fatal(err)
	}
	got := e.sources(ws)
	if diff := cmp.Diff(mostSources, len(got)); diff != "" {
		t.Errorf("sources (-want +got):\n%s", diff)
	}
	if last := l.Sources[len(l.Sources)-1]; !slices.Contains(got, last) {
		t.Errorf("%s is not among %v", last, got)
	}
	if elsewhere := l.Sources[0]; slices.Contains(got, elsewhere) {
		t.Errorf("%s is among %v", elsewhere, got)
	}
}

func TestKnown_ReportsEachListThatCannotBeReadOnce(t *testing.T) {
	t.Parallel()
	var said []string
	e := New(config.NewEnv([]string{"HOME=" + t.TempDir()}, t.TempDir()), Options{Notify: func(n Notice) { said = append(said, n.Text) }})
	for range 2 {
		for _, list := range []string{knownProjects, knownRecords} {
			if err := os.MkdirAll(filepath.Join(e.Env.StateDir(), list, strings.Repeat("a", 64)), 0o700); err != nil {
				t.Fatal(err)
			}
			e.known(list)
		}
	}
	if len(said) != 2 || !strings.HasPrefix(said[0], "the list of projects ") || !strings.HasPrefix(said[1], "the list of records ") {
		t.Errorf("notices: %q", said)
	}
}

// A program in the workspace that runs outside of the sandbox next time cannot be replaced.
func TestProtected_HasProgramsThatRunOutsideOfTheSandbox(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(exe)
	var op config.Operator
	op.Sandbox.Runsc = filepath.Join(dir, "runsc")
	e := New(config.NewEnv([]string{"HOME=" + t.TempDir()}, dir), Options{})
	l := Launch{Workspace: dir}
	w := e.sandboxed(l, e.protected(l, op, settings.Discover{MaxDirs: 100}, nil), nil)
	for _, name := range []string{filepath.Base(exe), "pagehand", "runsc"} {
		if !slices.Contains(w.ReadOnly, name) {
			t.Errorf("%s can be replaced", name)
		}
	}
}

func TestHomesIn_HasThoseOfTheSystem(t *testing.T) {
	t.Parallel()
	own, err := user.LookupId(strconv.Itoa(os.Geteuid()))
	if err != nil {
		testenv.Skip(t, "this user has no entry in the list of users")
	}
	other, err := user.Lookup("daemon")
	if err != nil {
		testenv.Skip(t, "there is no other user")
	}
	home, elsewhere := confine.RealPathOfExisting(own.HomeDir), t.TempDir()
	for name, c := range map[string]struct {
		vars      []string
		workspace string
		want      []string
	}{
		"without HOME":      {nil, home, []string{home}},
		"with another HOME": {[]string{"HOME=" + elsewhere}, home, []string{home}},
		"HOME itself":       {[]string{"HOME=" + elsewhere}, elsewhere, []string{elsewhere}},
		"called with sudo":  {[]string{"SUDO_UID=" + other.Uid}, other.HomeDir, []string{confine.RealPathOfExisting(other.HomeDir)}},
		"in a home":         {nil, filepath.Join(home, "project"), nil},
	} {
		got := New(config.NewEnv(c.vars, ""), Options{}).homesIn(c.workspace)
		if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: homes (-want +got):\n%s", name, diff)
		}
	}
}

func TestNotices_OnceSkipsAKnownCode(t *testing.T) {
	t.Parallel()
	var got []string
	n := &notices{to: func(n Notice) { got = append(got, n.Code+" "+n.Text) }}
	n.once(Notice{"a", Warning, "first"})
	n.once(Notice{"b", Warning, "other"})
	n.once(Notice{"a", Warning, "second"})
	if diff := cmp.Diff([]string{"a first", "b other"}, got); diff != "" {
		t.Error(diff)
	}
}
