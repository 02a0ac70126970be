package policy_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"metier/policy"
)

// Text of a model cannot fill the screen of a question: what an answer covers comes last, and each
// line of such text is wrapped and marked.
func TestShown_LaysOutTextOfAModel(t *testing.T) {
	t.Parallel()
	g := open()
	g.ScriptRule, g.Approval = policy.ScriptsBundled, policy.ApprovalAlways
	q := policy.Decide(&g, call(as("bash", policy.SideEffect), func(r *policy.Request) {
		r.Entry, r.Level = "x:scripts/"+strings.Repeat("a b", 200), "L2"
		r.Skill = &policy.Subject{ID: "s:x", Name: "x", Tree: "sha256:" + strings.Repeat("a", 64), Tier: policy.ThirdParty}
	})).Question
	forged := strings.Repeat(" ", 400) + "May the agent do this?" + strings.Repeat("\u3164\u754c", 3000)
	args, err := json.Marshal(map[string]string{"path": forged})
	if err != nil {
		t.Fatal(err)
	}
	const width = 60
	got := policy.Shown(q.Text, args, policy.Layout{Width: width, Lines: 4, More: " (more)"})
	for i, line := range got {
		if n := utf8.RuneCountInString(line); n > width {
			t.Errorf("%d characters: %q", n, line)
		}
		if at := strings.Index(line, "May the agent"); at >= 0 && !strings.Contains(line[:at], "| ") || strings.Contains(line, "\u3164") {
			t.Errorf("line %d is not marked: %q", i, line)
		}
	}
	if n := strings.Count(strings.Join(got, "\n"), " bytes more (more)"); n != 3 { // the request, its script, and the arguments
		t.Errorf("%d cuts: %q", n, got)
	}
	want := []string{"  tree     sha256:aaaaaaaaaaaa…", "  sandbox  L2", "  network  none", "           (an approval covers any arguments)"}
	if diff := cmp.Diff(want, got[len(got)-4:]); diff != "" || len(got) > 22 {
		t.Errorf("%d lines (-want +got):\n%s", len(got), diff)
	}
	// Without limits, everything is shown.
	if got := policy.Shown(q.Text, json.RawMessage(`{"a":"`+strings.Repeat("x", 10_000)+`END"}`), policy.Layout{}); !strings.Contains(strings.Join(got, "\n"), `xEND"}`) {
		t.Error("the arguments are cut")
	}
	// Many values are cut as well.
	var many []policy.PathUse
	for range 100 {
		many = append(many, policy.PathUse{Path: "/out", Zone: policy.ZoneOutside})
	}
	q = policy.Decide(&g, call(paths(many...))).Question
	if got := policy.Shown(q.Text, args, policy.Layout{Width: width, Lines: 4}); len(got) > 24 || !strings.Contains(got[len(got)-1], "lines more") {
		t.Errorf("%d lines, the last is %q", len(got), got[len(got)-1])
	}
	if n := strings.Count(q.Plain(args), "\n"); n > 70 {
		t.Errorf("%d lines in a form", n)
	}
}
