package agentdirs_test

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"metier/internal/agentdirs"

	"github.com/google/go-cmp/cmp"
)

func TestAll_EachFolderBelongsToOneAgent(t *testing.T) {
	t.Parallel()
	names, project, home := map[string]bool{}, map[string]string{}, map[string]string{}
	once := func(seen map[string]string, agent string, folders []string) {
		for _, f := range folders {
			if f != path.Clean(f) || path.IsAbs(f) || strings.HasPrefix(f, "..") {
				t.Errorf("%s: %q is not a clean relative path", agent, f)
			}
			if other, ok := seen[f]; ok {
				t.Errorf("%s is listed for %s and %s", f, other, agent)
			}
			seen[f] = agent
		}
	}
	for _, a := range agentdirs.All() {
		if names[a.Name] {
			t.Errorf("%s is listed twice", a.Name)
		}
		names[a.Name] = true
		once(project, a.Name, a.Project)
		once(home, a.Name, a.Home)
		for _, f := range a.Project {
			if plain := !strings.HasPrefix(f, "."); plain != a.Plain {
				t.Errorf("%s: %q: Plain is %t", a.Name, f, a.Plain)
			}
		}
	}
}

func TestProjectFolders_LeavesOutOrdinaryNames(t *testing.T) {
	t.Parallel()
	got := agentdirs.ProjectFolders()
	for _, want := range []string{".agents/skills", ".claude/skills", ".codex/skills", ".cursor/skills", ".gemini/skills", ".github/skills", ".opencode/skill", ".agent/skills"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is missing", want)
		}
	}
	if slices.Contains(got, "skills") {
		t.Error("skills is an ordinary folder name and must not be listed")
	}
}

func TestHomeFolders(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	for name, tc := range map[string]struct {
		agent, home string
		env         map[string]string
		want        []string
	}{
		"home":             {"claude", home, nil, []string{filepath.Join(home, ".claude/skills")}},
		"moved":            {"codex", home, map[string]string{"CODEX_HOME": filepath.Join(home, "c")}, []string{filepath.Join(home, "c/skills"), filepath.Join(home, ".codex/skills")}},
		"moved to default": {"codex", home, map[string]string{"CODEX_HOME": filepath.Join(home, ".codex")}, []string{filepath.Join(home, ".codex/skills")}},
		"moved, relative":  {"codex", home, map[string]string{"CODEX_HOME": "c"}, []string{filepath.Join(home, ".codex/skills")}},
		"configuration":    {"goose", home, map[string]string{"XDG_CONFIG_HOME": filepath.Join(home, "x")}, []string{filepath.Join(home, "x/goose/skills")}},
		"no folder":        {"eve", home, nil, nil},
		"no home":          {"claude", "", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := slices.Index(agentdirs.Names(), tc.agent)
			if i < 0 {
				t.Fatalf("no agent %q", tc.agent)
			}
			if diff := cmp.Diff(tc.want, agentdirs.All()[i].HomeFolders(tc.home, func(k string) string { return tc.env[k] })); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
