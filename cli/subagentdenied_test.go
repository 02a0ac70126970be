package cli_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/event"
	"metier/model/modeltest"
	"metier/run"
)

func TestRun_CountsDeniedCallsOfSubagents(t *testing.T) {
	t.Parallel()
	k := newKin(t, map[string]string{"subs/writer.yaml": "name: writer\ndescription: Writes.\ntools: [read_file]\n"})
	k.parent = func(turn int, r *modeltest.Request) modeltest.Turn {
		if turn == 0 {
			return modeltest.Turn{Calls: []modeltest.Call{{Tool: "delegate_task", Args: `{"profile":"writer","task":"Write it."}`},
				{Tool: "write_file", Args: `{"path":"a.txt","content":"x"}`}}}
		}
		return modeltest.Turn{Text: "Finished."}
	}
	k.child = func(_ string, turn int, _ *modeltest.Request) modeltest.Turn {
		if turn == 0 {
			return modeltest.Turn{Calls: []modeltest.Call{{Tool: "write_file", Args: `{"path":"b.txt","content":"y"}`}}}
		}
		return modeltest.Turn{Text: "Done."}
	}
	exit := k.metier("run", "--output-mode", "batch", "--prompt", "Go.", "--json", "--fail-on", "denied", "--subagent-profiles", "subs", "--allow-subagent-profile", "writer", "--allow-tool", "read_file")
	if exit != 3 {
		t.Errorf("exit %d\n%s", exit, k.err.String())
	}
	want := []event.Denial{{Tool: "write_file", Code: "tool_not_allowed", Count: 2}}
	var result struct {
		Denied struct {
			Count int
			Calls []event.Denial
		}
	}
	if err := json.Unmarshal(k.out.Bytes(), &result); err != nil {
		t.Fatal(err)
	}
	if result.Denied.Count != 2 {
		t.Errorf("count is %d", result.Denied.Count)
	}
	if diff := cmp.Diff(want, result.Denied.Calls); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, readArtifact[run.Report](t, k.folder(), run.FileReport).Denied); diff != "" {
		t.Errorf("run-report.json (-want +got):\n%s", diff)
	}
}
