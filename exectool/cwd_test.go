package exectool_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/policy"
)

// A pattern with relative paths must not allow the same words in another folder.
func TestAllowRules_CoverTheWorkingFolder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cwd   string
		allow []string
		asks  bool
	}{
		"the workspace":           {"", []string{"Bash(rm build/*)"}, false},
		"the workspace by name":   {".", []string{"Bash(rm build/*)"}, false},
		"another folder":          {"sub", []string{"Bash(rm build/*)"}, true},
		"another folder, allowed": {"sub", []string{"Bash(rm build/*)", "Bash(cd sub)"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, setup{grants: func(g *policy.Grants) {
				for _, p := range c.allow {
					g.Rules = append(g.Rules, policy.Rule{Effect: policy.RuleAllow, Pattern: p})
				}
			}}, map[string]string{"build/a": "a\n", "sub/build/a": "a\n"})
			args := map[string]any{"command": "rm build/a"}
			if c.cwd != "" {
				args["cwd"] = c.cwd
			}
			_, asks := w.call("bash", args)
			if diff := cmp.Diff(c.asks, asks != nil); diff != "" {
				t.Errorf("whether the user is asked: %s", diff)
			}
		})
	}
}
