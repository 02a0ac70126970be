package policy_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/policy"
)

var update = flag.Bool("update", false, "write the generated parts of docs/ENFORCEMENT.md")

// The tables of docs/ENFORCEMENT.md match the code. TestModes checks the code
// against the specified table, and so does a test of the command with real runs.
func TestEnforcementPageIsTheTable(t *testing.T) {
	t.Parallel()
	page := filepath.Join("..", "docs", "ENFORCEMENT.md")
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	table, codes := pageTables(t)
	want := string(b)
	for name, text := range map[string]string{"table": table, "codes": codes} {
		begin, end := "<!-- "+name+": written by go test ./policy -update -->\n", "<!-- end -->\n"
		head, rest, found := strings.Cut(want, begin)
		_, tail, closed := strings.Cut(rest, end)
		if !found || !closed {
			t.Fatalf("docs/ENFORCEMENT.md has no place for %s", name)
		}
		want = head + begin + text + end + tail
	}
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(want, string(b)); d != "" {
		t.Errorf("run go test ./policy -update:\n%s", d)
	}
}

// pageTables are mode × effect, modes laxest first, and the 20 reason codes:
// those that any mode gives, then the others.
func pageTables(t *testing.T) (table, codes string) {
	t.Helper()
	word := map[policy.Outcome]string{policy.Allow: "allowed", policy.Warn: "warned", policy.Deny: "denied"}
	table = "| mode | effect | without a direct command | with a direct command |\n|---|---|---|---|\n"
	codes = "| code | meaning | fix |\n|---|---|---|\n"
	seen := map[string]bool{}
	for _, m := range []policy.Mode{policy.Disabled, policy.Observe, policy.EnforceExplicit, policy.EnforceStrict} {
		for _, e := range []policy.Effect{policy.Read, policy.Write, policy.SideEffect} {
			table += fmt.Sprintf("| `%s` | %s |", m, e)
			for _, role := range []policy.Role{policy.Context, policy.DirectCommand} {
				g := open()
				g.Mode = m
				d := policy.Decide(&g, call(as("bash", e), func(r *policy.Request) { r.Slots = []policy.Slot{{Role: role}} }))
				table += fmt.Sprintf(" %s `%s` |", word[d.Outcome], d.Code)
				if !seen[d.Code] {
					seen[d.Code] = true
					codes += fmt.Sprintf("| `%s` | %s |\n", d.Code, meaning(m, d))
				}
			}
			table += "\n"
		}
	}
	if len(seen) != 16 {
		t.Errorf("the modes give %d codes", len(seen))
	}
	for _, r := range [][3]string{
		{policy.CodeToolNotAllowed, "the operator did not allow the tool", "allow it with `--allow-tool`, or under `tools` in a policy file"},
		{policy.CodeInvalidCall, "the call is invalid: the tool does not exist, or its arguments do not match its schema", "the model gets the error and may call again"},
		{policy.CodeProfile, "a subagent with this profile may start, and the mode allows the call", ""},
		{policy.CodeProfileDenied, "the operator did not allow subagents with this profile", "allow the profile, or delegate to an allowed one"},
	} {
		codes += fmt.Sprintf("| `%s` | %s | %s |\n", r[0], r[1], r[2])
	}
	return table, codes
}

// meaning is what a mode's code means and, if it warns or refuses, the fix.
func meaning(m policy.Mode, d policy.Decision) string {
	const fix = " | give the task as a direct command (`--prompt-slot-role direct-command`, the default), or choose another mode (`--enforcement-mode`)"
	switch {
	case m == policy.Disabled:
		return "the mode does not require evidence | "
	case strings.HasSuffix(d.Code, "_read"):
		return "the call only reads, which this mode allows | "
	case d.Outcome == policy.Allow:
		return "the turn has a direct command | "
	case d.Outcome == policy.Warn:
		return "the turn has no direct command; the call proceeds with this warning" + fix
	}
	return "the turn has no direct command; the call is refused" + fix
}
