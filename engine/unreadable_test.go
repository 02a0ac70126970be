package engine_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/config"
	"metier/engine"
	"metier/internal/testenv"
)

// Without the skills of a folder that cannot be read, their names would be free for less trusted
// ones. Programs can only hide folders from an ordinary user: root reads all.
func TestPlan_RefusesRootsWithoutAccess(t *testing.T) {
	if !testenv.OrdinaryUser(t) {
		return
	}
	ws := t.TempDir()
	write(t, filepath.Join(ws, ".claude/skills/deploy/SKILL.md"), "---\nname: deploy\ndescription: Deploys. Use when asked.\n---\nDeploy.\n")
	e := engine.New(config.NewEnv([]string{"HOME=" + t.TempDir()}, ws), engine.Options{})
	plan := func() string {
		_, err := e.Plan(t.Context(), engine.Request{Prompt: "Go.", Batch: true, Custom: engine.Custom{Model: replay("turns: [{say: Done.}]")}})
		if _, _, tools := e.PlanTools(t.Context(), engine.Request{Batch: true}); metier.CodeOf(tools) != metier.CodeOf(err) {
			t.Errorf("a run: %v; a program that calls tools: %v", err, tools)
		}
		if err == nil {
			return ""
		}
		return metier.CodeOf(err)
	}
	for _, dir := range []string{".claude", ".claude/skills"} {
		for mode, want := range map[os.FileMode]string{0: "skills_root_unreadable", 0o700: ""} {
			if err := os.Chmod(filepath.Join(ws, dir), mode); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, plan()); diff != "" {
				t.Errorf("%s with mode %o (-want +got):\n%s", dir, mode, diff)
			}
		}
		if err := os.Chmod(filepath.Join(ws, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
}
