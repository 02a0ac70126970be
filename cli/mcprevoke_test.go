package cli_test

import (
	"strings"
	"testing"
)

// A running server asks again after an approval is revoked, even in a session that used it, and
// accepts one given meanwhile.
func TestMCP_AsksAgainAfterRevoke(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(map[string]string{"config.yaml": "skills: [{path: shelf, tier: third_party, label: shelf}]\nallow_tools: [load_skill, run_skill_script]\nallow_skill_scripts: ['report:scripts/a.sh']\n"})
	approve := func() {
		t.Helper()
		if exit, out := p.metier("run", "--on-approval", "wait", "--output-mode", "batch", "--prompt", "Count.", "--model", "scripted:"+p.home+"/turns.yaml"); exit != 7 {
			t.Fatalf("exit %d: %s", exit, out)
		}
		ids, _ := p.recorded()
		if exit, out := p.metier("runs", "approve", ids[len(ids)-1], "--scope", "always"); exit != 0 {
			t.Fatalf("exit %d: %s", exit, out)
		}
	}
	approve()
	c := p.serves()
	c.call("load_skill", map[string]any{"name": "report"})
	run := func(want int) {
		t.Helper()
		text, _, _ := c.call("run_skill_script", map[string]any{"skill": "report", "path": "scripts/a.sh"})
		if p.ran() != want {
			t.Errorf("ran %d times, want %d: %s", p.ran(), want, text)
		}
	}
	run(1)
	if exit, out := p.metier("runs", "approvals", "--revoke", "report"); exit != 0 || !strings.Contains(out, "is no longer approved") {
		t.Fatalf("exit %d: %s", exit, out)
	}
	run(1)
	approve()
	run(2)
}
