package engine

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/config"
	"metier/internal/testenv"
)

// Other users must not be able to put packages above a script that runs on the host.
func TestStaging_IsWhereNoOtherUserWrites(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		testenv.Skip(t, "folders of the system differ")
	}
	shared := filepath.Join(t.TempDir(), "shared")
	if err := os.Mkdir(shared, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(shared, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ runtime, state, workspace, want string }{
		"runtime folder":                    {"/usr/lib", "/usr/share", "", "/usr/lib/metier-host"},
		"no runtime folder":                 {"", "/usr/share", "", "/usr/share/metier/metier-host"},
		"shared runtime folder":             {shared, "/usr/share", "", "/usr/share/metier/metier-host"},
		"below a shared folder":             {filepath.Join(shared, "own"), filepath.Join(shared, "state"), "", ""},
		"state folder in the workspace":     {"", "/usr/share", "/usr", ""},
		"state folder beside the workspace": {"", "/usr/share", "/usr/sh", "/usr/share/metier/metier-host"},
	} {
		e := &Engine{Env: config.Env{Vars: map[string]string{"XDG_RUNTIME_DIR": c.runtime, "XDG_STATE_HOME": c.state}}}
		if diff := cmp.Diff(c.want, e.staging(c.workspace)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
