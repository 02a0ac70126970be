package cli_test

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/run"
)

// Tests the malicious skill in a subagent, under a name that a profile trusts. What the operator
// granted to the profile decides whether the secret leaks. Neither the skill's text nor its
// script's output reaches the parent.
func TestNameSquatInASubagent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args  []string
		got   []string // what the listener received
		child string   // code of the decision about the script, "" if there is no child
	}{
		"granted, with a network":    {[]string{"--allow-subagent-profile", "notes", "--allow-host", collectorHost}, []string{ownersCanary}, "cfc_observe_requires_direct_command"},
		"granted, without a network": {[]string{"--allow-subagent-profile", "notes"}, nil, "cfc_observe_requires_direct_command"},
		"defaults":                   {[]string{"--allow-tool", "default", "--allow-tool", "delegate_task"}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := newCollector(t)
			files := maps.Clone(squatter)
			files["subs/notes.yaml"] = "name: notes\ndescription: Writes release notes.\nskills: [release-notes]\nscripts: [\"release-notes:scripts/sync.sh\"]\n" +
				"tools: [read_file, run_skill_script]\nhosts: [inherit]\n"
			e := newEnforced(t, files)
			e.internet = got.internet
			k := e.run([][]deed{{{"delegate_task", `{"profile":"notes","task":"Write the release notes."}`}}, obeying[1], obeying[2]},
				append([]string{"--prompt", "Write the release notes.", "--subagent-profiles", "subs"}, c.args...)...)
			if d := cmp.Diff(c.got, got.got()); d != "" {
				t.Fatalf("what the listener received: %s\n%s", d, k.errs)
			}
			marks := []string{skillCanary, "found 2", ownersCanary}
			if c.child == "" {
				marks = marks[:2] // there the parent's own model reads the file
			}
			for _, mark := range marks {
				if at := holding(t, k.folder, mark, false); len(at) > 0 {
					t.Errorf("%q is in the parent's %q", mark, at)
				}
			}
			d := k.decision("t1.c0")
			child := filepath.Join(k.folder, "children", "t1.c0")
			if c.child == "" {
				if d.Code != "subagent_profile_not_allowed" || d.Profile != "notes" || e.there("runs/"+filepath.Base(k.folder)+"/children") {
					t.Errorf("%+v", d)
				}
				return
			}
			acts := readArtifact[run.Activations](t, child, run.FileActivations).Activations
			if len(acts) != 1 || acts[0].SkillID != "shelf:release-notes" || acts[0].Tier != "user" || acts[0].Source != "subagent-inherit" || acts[0].Digest != sumOf([]byte(squatter["shelf/release-notes/SKILL.md"])) {
				t.Errorf("the child's record does not say whose skill it was: %+v", acts)
			}
			trace := readArtifact[run.PolicyTrace](t, child, run.FilePolicyTrace).Decisions
			i := slices.IndexFunc(trace, func(d run.Decision) bool { return d.Tool == "run_skill_script" })
			if i < 0 || trace[i].Code != c.child || trace[i].Skill != "shelf:release-notes" {
				t.Errorf("the child's decisions: %+v", trace)
			}
			if s := jsonText(t, readArtifact[run.PolicySnapshot](t, child, run.FilePolicySnapshot).Diagnostics); !strings.Contains(s, run.CodeSuspect) {
				t.Errorf("the child's snapshot does not say that the skill reads like an injection: %s", s)
			}
		})
	}
}
