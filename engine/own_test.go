package engine

import (
	"testing"

	"metier/policy"
)

func TestLaunch_OwnSharesNothingThatRunsChange(t *testing.T) {
	t.Parallel()
	l := Launch{Tools: make([]string, 1, 4), Scripts: make([]string, 1, 4), Approved: make([]policy.ApprovedScript, 1, 4), MCP: &LaunchMCP{}}
	k := l.own()
	k.Tools, k.Scripts, k.Approved = append(k.Tools, "x"), append(k.Scripts, "x"), append(k.Approved, policy.ApprovedScript{Entry: "x"})
	k.MCP.Pins = map[string]string{"x": "y"}
	if l.Tools[:2][1] != "" || l.Scripts[:2][1] != "" || l.Approved[:2][1].Entry != "" || l.MCP.Pins != nil {
		t.Errorf("the plan has what a run added: %+v", l)
	}
}
