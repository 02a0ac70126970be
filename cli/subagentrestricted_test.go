package cli_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/model/modeltest"
)

// A subagent does not start without a skill of its profile that restricts it: settings of the
// workspace may deny the skill.
func TestSubagent_DoesNotStartWithoutARestrictingSkill(t *testing.T) {
	t.Parallel()
	const guard = "---\nname: guard\ndescription: Guards.\nallowed-tools: Read\n---\nOnly read.\n"
	for name, c := range map[string]struct {
		skill, deny string
		set         string
		starts      bool
	}{
		"loaded":                       {skill: guard, starts: true},
		"denied":                       {skill: guard, deny: "deny: [guard]\n"},
		"denied, lists have no effect": {skill: guard, deny: "deny: [guard]\n", set: "allowed_tools=ignore", starts: true},
		"denied, without a list":       {skill: strings.Replace(guard, "allowed-tools: Read\n", "", 1), deny: "deny: [guard]\n", starts: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{"skills/guard/SKILL.md": c.skill, "subs/worker.yaml": "name: worker\ndescription: Works.\nskills: [guard]\ntools: [write_file]\n"}
			if c.deny != "" {
				files["metier.yaml"] = c.deny
			}
			k := newKin(t, files)
			started := false
			k.parent = once(delegate(`{"profile":"worker","task":"Write."}`))
			k.child = func(string, int, *modeltest.Request) modeltest.Turn {
				started = true
				return modeltest.Turn{Text: "Done."}
			}
			args := []string{"--skills-root", "skills", "--subagent-profiles", "subs", "--allow-subagent-profile", "worker", "--allow-tool", "default"}
			if c.set != "" {
				args = append(args, "--set", c.set)
			}
			k.run(args...)
			if diff := cmp.Diff(c.starts, started); diff != "" {
				t.Errorf("whether it starts: %s", diff)
			}
			if diff := cmp.Diff(!c.starts, strings.Contains(k.err.String(), "which restricts the subagent's tools, but the skill cannot be used [skill_denied]")); diff != "" {
				t.Errorf("whether a notice says why: %s%s", diff, k.err.String())
			}
		})
	}
}
