package policy_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/policy"
)

// An enforced list refuses every use that it does not name, including reads, in
// the name of the first skill with such a list.
//
// req: C-044, C-047, C-086
func TestDecide_EnforcedListNamesTheSkill(t *testing.T) {
	t.Parallel()
	const refused = "deny allowed_tools"
	type verdict struct{ Decision, Reason string }
	says := func(skill, tool string) string {
		return `the active skill "` + skill + `" does not list this use of "` + tool + `" in allowed-tools`
	}
	for name, tt := range map[string]struct {
		request policy.Request
		want    verdict
	}{
		"listed":                  {call(active([]string{"Read"})), verdict{"allow cfc_disabled", ""}},
		"a read":                  {call(active([]string{"Write"})), verdict{refused, says("a", "read_file")}},
		"a write":                 {call(as("write_file", policy.SideEffect), active([]string{"Read"})), verdict{refused, says("a", "write_file")}},
		"a claimed write":         {call(as("write_file", policy.Write), active([]string{"Read"})), verdict{refused, says("a", "write_file")}},
		"a tool of a server":      {call(as("mcp__s__look", policy.Read), active([]string{"Read", "mcp__s__other"})), verdict{refused, says("a", "mcp__s__look")}},
		"a list of files":         {call(as("list_files", policy.Read), active([]string{"Write"})), verdict{refused, says("a", "list_files")}},
		"a search":                {call(as("search_files", policy.Read), active([]string{"Write"})), verdict{refused, says("a", "search_files")}},
		"an edit":                 {call(as("edit_file", policy.Write), active([]string{"Write"})), verdict{refused, says("a", "edit_file")}},
		"a command":               {call(as("bash", policy.SideEffect), commands("ls"), active([]string{"Read"})), verdict{refused, says("a", "bash")}},
		"another command":         {call(as("bash", policy.SideEffect), commands("ls"), active([]string{"Bash(git:*)"})), verdict{refused, says("a", "bash")}},
		"a user's call":           {call(by(policy.ByUser), active([]string{"Write"})), verdict{refused, says("a", "read_file")}},
		"the load tool":           {call(as("load_skill", policy.Read), active([]string{"Write"})), verdict{"allow cfc_disabled", ""}},
		"an empty list":           {call(active([]string{})), verdict{refused, says("a", "read_file")}},
		"the first of two":        {call(active([]string{"Write"}, []string{"Read"})), verdict{refused, says("a", "read_file")}},
		"the second of two":       {call(active([]string{"Read"}, []string{"Write"})), verdict{refused, says("b", "read_file")}},
		"both":                    {call(active([]string{"Write"}, []string{"Bash"})), verdict{refused, says("a", "read_file")}},
		"the second without list": {call(active([]string{"Read"}, nil)), verdict{"allow cfc_disabled", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := open()
			g.Narrow, g.Tools = policy.NarrowEnforce, append(g.Tools, "mcp__s__look", "list_files", "search_files", "edit_file", "run_skill_script")
			d := policy.Decide(&g, tt.request)
			got := verdict{Decision: string(d.Outcome) + " " + d.Code}
			if d.Outcome == policy.Deny {
				got.Reason = d.Reason
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A list counts whether its skill is active or was only read, under each merge rule; advising
// reports the same uses.
//
// req
func TestDecide_EachListCounts(t *testing.T) {
	t.Parallel()
	read := func(list ...string) func(*policy.Request) {
		return func(r *policy.Request) {
			r.Told = []policy.Subject{{ID: "s:t", Name: "t", Tier: policy.User, Declared: true, AllowedTools: list}}
		}
	}
	for name, tt := range map[string]struct {
		request policy.Request
		covered map[policy.Merge]bool
	}{
		"only the first":    {call(active([]string{"Read"}, []string{"Write"})), map[policy.Merge]bool{policy.MergeIntersection: false, policy.MergeUnion: true, policy.MergeLast: false}},
		"only the last":     {call(active([]string{"Write"}, []string{"Read"})), map[policy.Merge]bool{policy.MergeIntersection: false, policy.MergeUnion: true, policy.MergeLast: true}},
		"none":              {call(active([]string{"Write"}, []string{"Bash"})), map[policy.Merge]bool{policy.MergeIntersection: false, policy.MergeUnion: false, policy.MergeLast: false}},
		"all":               {call(active([]string{"Read"}, []string{"Read"})), map[policy.Merge]bool{policy.MergeIntersection: true, policy.MergeUnion: true, policy.MergeLast: true}},
		"not the one read":  {call(active([]string{"Read"}), read("Write")), map[policy.Merge]bool{policy.MergeIntersection: false, policy.MergeUnion: false, policy.MergeLast: false}},
		"only the one read": {call(read("Write")), map[policy.Merge]bool{policy.MergeIntersection: false, policy.MergeUnion: false, policy.MergeLast: false}},
		"the one read too":  {call(active([]string{"Read"}), read("Read")), map[policy.Merge]bool{policy.MergeIntersection: true, policy.MergeUnion: true, policy.MergeLast: true}},
	} {
		for merge, covered := range tt.covered {
			for narrow, beyond := range map[policy.Narrowing]policy.Outcome{policy.NarrowNarrow: policy.Deny, policy.NarrowEnforce: policy.Deny, policy.NarrowAdvise: policy.Warn, policy.NarrowIgnore: policy.Allow} {
				g := open()
				g.Narrow, g.Merge = narrow, merge
				want := policy.Allow
				if !covered {
					want = beyond
				}
				if diff := cmp.Diff(want, policy.Decide(&g, tt.request).Outcome); diff != "" {
					t.Errorf("%s, %s, %s: %s", name, merge, narrow, diff)
				}
			}
		}
	}
}
