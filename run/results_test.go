package run_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/event"
	"metier/model"
	"metier/policy"
	"metier/record"
	"metier/run"
)

// req
func TestVerify_FindsCallsWithoutExactlyOneResult(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		promised bool
		times    int
		want     []string
	}{
		"one result":                 {true, 1, nil},
		"no result":                  {true, 0, []string{run.CodeNoResult + " t2.c0 the model called read_file, and the run continued without a result"}},
		"two results":                {true, 2, []string{run.CodeTwoResults + " t2.c0 a call of read_file has a result already"}},
		"record of an older version": {false, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, a := create(t, t.TempDir(), "results", nil)
			a.open("cli-preload")
			a.add(event.RunStarted{Run: f.ID(), Rules: 1, Results: c.promised, Spec: a.json(map[string]int{"maxTurns": 3})},
				event.ModelStarted{ID: "t2.m"}, event.ModelReplied{ID: "t2.m", Message: a.json(model.UserText("reading")),
					Calls: []event.CallRef{{ID: "t2.c0", Tool: "read_file", Args: a.json(map[string]string{"path": "a"})}}})
			for range c.times {
				a.add(event.ToolResult{ID: "t2.c0", Tool: "read_file", Code: "call_limit", Content: a.text("call_limit")})
			}
			a.add(event.ModelStarted{ID: "t3.m"}, event.ModelReplied{ID: "t3.m", Message: a.json(model.UserText("done"))}, event.RunEnded{Run: f.ID(), Status: "done"})
			if d := cmp.Diff(c.want, problems(t, f)); d != "" {
				t.Error(d)
			}
		})
	}
}

// A call that was never claimed or decided has its arguments and its code in the artifact of its
// kind, in its tool output, and in the transcript.
//
// req
func TestProject_ShowsCallsThatEndedBeforeTheyWereDecided(t *testing.T) {
	t.Parallel()
	f, a := create(t, t.TempDir(), "early", nil)
	a.open("cli-preload")
	read, script := a.json(map[string]string{"skill": "alpha", "path": "references/guide.md"}), a.json(map[string]any{"skill": "alpha", "path": "scripts/a.sh", "args": []string{"-x"}})
	a.add(event.RunStarted{Run: f.ID(), Rules: 1, Results: true, Spec: a.json(map[string]int{"maxTurns": 3})}, event.ModelStarted{ID: "t1.m"},
		event.ModelReplied{ID: "t1.m", Message: a.json(model.UserText("both")), Calls: []event.CallRef{{ID: "t1.c0", Tool: "read_skill_resource", Args: read}, {ID: "t1.c1", Tool: "run_skill_script", Args: script}}})
	for id, tool := range map[string]string{"t1.c0": "read_skill_resource", "t1.c1": "run_skill_script"} {
		a.add(event.ToolResult{ID: id, Tool: tool, Code: "call_limit", Content: a.json([]model.Part{{Kind: model.PartResult, Call: id, Text: "call_limit: too many"}}), Label: policy.Label{Role: policy.Context}})
	}
	ok(t, f.Project(t.Context()))
	type shown struct {
		Name, Path, Code, Args string
	}
	var got []shown
	for _, r := range readJSON[run.Reads](t, f, run.FileReads).Reads {
		got = append(got, shown{r.SkillName, r.Path, r.Error.Code, ""})
	}
	for _, s := range readJSON[run.Scripts](t, f, run.FileScripts).Executions {
		var args []string
		ok(t, json.Unmarshal(s.Args, &args))
		got = append(got, shown{s.SkillName, s.Path, s.Error.Code, args[0]})
	}
	if d := cmp.Diff([]shown{{"alpha", "references/guide.md", "call_limit", ""}, {"alpha", "scripts/a.sh", "call_limit", "-x"}}, got); d != "" {
		t.Error(d)
	}
	said := map[string]string{}
	for _, m := range readJSON[run.Transcript](t, f, run.FileTranscript).Messages {
		if m.Role == "tool" && m.Call != "load1" {
			said[m.Call] = m.Code
		}
	}
	if d := cmp.Diff(map[string]string{"t1.c0": "call_limit", "t1.c1": "call_limit"}, said); d != "" {
		t.Error(d)
	}
}

// req: A-154
func TestVerify_FindsDisagreementInTheRecordOfASubagent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		set  map[string]any
		want bool
	}{
		"as it was": {nil, false},
		"changed":   {map[string]any{"registrySizeBytes": 99}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, a := create(t, t.TempDir(), "parent", nil)
			a.open("cli-preload")
			kid, b := create(t, t.TempDir(), "honest", nil)
			work(t, kid, skillsFolder(t), b.now, counter("id"))
			forged := rewritten(t, kid, "skill.resource_read", c.set)
			head := must[record.Head](t)(forged.Log().Head(t.Context()))
			ok(t, forged.Close())
			ok(t, os.MkdirAll(f.Children(), 0o700))
			ok(t, os.Rename(forged.Dir(), filepath.Join(f.Children(), "honest")))
			a.add(event.ChildEnded{ID: "t1.c1", Run: "honest", Head: head})
			ok(t, f.Project(t.Context()))
			got := holding(problems(t, f), run.CodeDisagree+" children/honest/"+run.FileReads, "].registrySizeBytes is 99")
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("%s\n%q", d, problems(t, f))
			}
		})
	}
}
