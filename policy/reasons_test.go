package policy_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/policy"
)

var update = flag.Bool("update", false, "write the generated parts of docs/ENFORCEMENT.md")

// The tables of docs/ENFORCEMENT.md are what the code says. That the code is what
// contracts.md says is TestModes here, and in real runs a test of the command.
func TestEnforcementPageIsTheTable(t *testing.T) {
	t.Parallel()
	page := filepath.Join("..", "docs", "ENFORCEMENT.md")
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want := string(b)
	for name, text := range map[string]string{"table": policy.TableMarkdown(), "codes": policy.ReasonsMarkdown()} {
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

// There are 20 codes; each has a meaning, and each refusal and warning a way out.
func TestReasonsSayTheWayOut(t *testing.T) {
	t.Parallel()
	refuses := map[string]bool{policy.CodeToolNotAllowed: true, policy.CodeInvalidCall: true, policy.CodeProfileDenied: true}
	for _, c := range policy.Table() {
		for _, d := range []policy.Decision{c.Without, c.With} {
			if d.Outcome != policy.Allow {
				refuses[d.Code] = true
			}
		}
	}
	seen := map[string]bool{}
	for _, r := range policy.Reasons() {
		if seen[r.Code] || r.Meaning == "" || (r.Fix != "") != refuses[r.Code] {
			t.Errorf("%+v", r)
		}
		seen[r.Code] = true
	}
	if len(seen) != 20 {
		t.Errorf("%d codes", len(seen))
	}
}
