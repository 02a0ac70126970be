package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"metier/model"
	"metier/model/modeltest"
	"metier/run"
)

// Tokens used by waiting subagents stay used, whichever subagent starts later. After a resume, none
// exceeds what is left.
func TestTokensOfSubagentsThatWaitAreUsed(t *testing.T) {
	t.Parallel()
	k, _ := whoAsks(t)
	k.parent = func(turn int, r *modeltest.Request) modeltest.Turn {
		task := func(n string) modeltest.Call { return delegate(`{"profile":"counter","task":"` + n + `"}`) }
		out := once(task("1"), task("2"), task("3"), task("4"))(turn, r)
		out.Usage = model.Usage{Input: 90, Output: 10}
		return out
	}
	k.child = func(task string, turn int, _ *modeltest.Request) modeltest.Turn {
		if turn > 0 {
			t.Errorf("%s goes on beyond the budget", task)
		}
		out := turnOf(countCall(task))
		out.Usage = model.Usage{Input: 250, Output: 50}
		return out
	}
	if exit := k.metier("run", "--output-mode", "batch", "--on-approval", "wait", "--prompt", "Go.", "--max-tokens", "1000"); exit != 7 {
		t.Fatalf("exit %d\n%s", exit, k.err.String())
	}
	if list, _ := os.ReadDir(filepath.Join(k.folder(), "children")); len(list) != 3 {
		t.Errorf("%d began", len(list))
	}
	k.want(0, "runs", "approve", "latest", "--scope", "session", "--question", k.questions()[0])
	k.want(1, "run", "--resume", "latest")
	for i := range 3 {
		if r := k.report(fmt.Sprintf("t1.c%d", i)); r.Failure != "turn-budget-exhausted" || r.Tokens != 300 {
			t.Error(r)
		}
	}
	if r := k.report("t1.c3"); r.Code != "token_budget" {
		t.Error(r)
	}
	if rep := readArtifact[run.Report](t, k.folder(), run.FileReport); rep.Tokens.Total != 1000 || rep.Code != "token_budget" {
		t.Errorf("%+v, %s", rep.Tokens, rep.Code)
	}
}

// A limit given when a run is resumed applies at once and for the rest of the run.
func TestLimitsOfARunThatGoesOnAreThoseItWasGiven(t *testing.T) {
	t.Parallel()
	k, _ := whoAsks(t)
	k.write(map[string]string{"config.yaml": strings.Replace(stranger()["config.yaml"], "[counter]", "[counter, default]", 1)})
	k.parent = func(turn int, r *modeltest.Request) modeltest.Turn {
		if turn == 1 {
			return turnOf(delegate(`{"task":"late"}`))
		}
		return once(delegate(`{"profile":"counter","task":"Count."}`))(turn, r)
	}
	asks := k.child
	k.child = func(task string, turn int, r *modeltest.Request) modeltest.Turn {
		if task == "late" {
			return modeltest.Turn{Text: "Done."}
		}
		return asks(task, turn, r)
	}
	if exit := k.metier("run", "--output-mode", "batch", "--on-approval", "wait", "--prompt", "Go.", "--max-turns", "1"); exit != 7 {
		t.Fatalf("exit %d\n%s", exit, k.err.String())
	}
	for _, more := range [][]string{{"--max-turns", "3", "--max-tokens", "100000"}, nil} {
		k.want(0, "runs", "approve", "latest")
		k.want(7, append([]string{"run", "--resume", "latest"}, more...)...)
	}
	k.want(0, "runs", "approve", "latest")
	k.want(0, "run", "--resume", "latest")
	k.want(0, "audit", "show", "latest")
	if n := strings.Count(k.out.String(), "run.limited"); n != 1 || !strings.Contains(k.out.String(), "maxTurns=3 maxTokens=100000") {
		t.Errorf("%d changes of limits:\n%s", n, k.out.String())
	}
	k.want(0, "audit", "show", k.childFolder("t2.c0"))
	var left int
	if _, most, _ := strings.Cut(k.out.String(), "maxTokens="); true {
		_, _ = fmt.Sscan(most, &left)
	}
	if left <= 0 || left > 100000 {
		t.Errorf("a subagent that began later may use %d tokens:\n%s", left, k.out.String())
	}
	k.want(0, "audit", "verify", "latest")
}

// A subagent that starts another with the same task is asked about separately: the answer for one
// does not apply to the other.
func TestASubagentOfEqualWordsIsAskedForByItself(t *testing.T) {
	t.Parallel()
	for _, scope := range []string{"once", "session"} {
		k := newKin(t, map[string]string{"subs/deep.yaml": deep, "policy.yaml": "version: 1\nrules: [{ask: delegate_task}]\n",
			"config.yaml": "policy: policy.yaml\nsubagents: {depth: 3, profiles: [subs], allow: [deep]}\nallow_tools: [default]\n"})
		same := delegate(`{"profile":"deep","task":"same"}`)
		k.parent = once(same)
		var begun atomic.Int32
		k.child = func(_ string, turn int, r *modeltest.Request) modeltest.Turn {
			if turn == 0 && begun.Add(1) < 3 {
				return turnOf(same)
			}
			return modeltest.Turn{Text: "Done: " + strings.Join(r.LastResults(), "")}
		}
		k.parks()
		k.want(0, "runs", "approve", "latest", "--scope", scope)
		k.want(7, "run", "--resume", "latest")
		if n := begun.Load(); n != 1 {
			t.Fatalf("%s: one yes, and %d began", scope, n)
		}
		k.want(0, "runs", "deny", "latest")
		k.want(0, "run", "--resume", "latest")
		if n := begun.Load(); n != 1 {
			t.Errorf("%s: a yes and a no, and %d began", scope, n)
		}
		if r := k.report("t1.c0"); r.Status != "done" || !strings.Contains(r.Summary, "refused") { // the no was for its own call
			t.Errorf("%s: %v", scope, r)
		}
		k.want(0, "audit", "verify", "latest")
	}
}

// Many concurrent subagents ask, wait for their parent to resume, and start others: each script
// runs once, and each report is returned once.
func TestManySubagentsThatAskAndBeginOthersEndOnce(t *testing.T) {
	t.Parallel()
	k, _ := whoAsks(t)
	k.write(map[string]string{
		"subs/counter.yaml": "name: counter\ndescription: Counts.\nskills: [report]\nscripts: [\"report:scripts/count.sh\"]\ntools: [run_skill_script, delegate_task]\n",
		"config.yaml":       "skills: [{path: shelf, tier: third_party, label: shelf}]\nsubagents: {profiles: [subs], allow: [counter, default], depth: 2, parallel: 8}\nallow_tools: [default]\n"})
	const many = 8
	var calls []modeltest.Call
	for i := range many {
		calls = append(calls, delegate(fmt.Sprintf(`{"profile":"counter","task":"task %d"}`, i)))
	}
	k.parent, k.beside = once(calls...), true
	k.child = func(task string, turn int, _ *modeltest.Request) modeltest.Turn {
		switch {
		case strings.HasPrefix(task, "inner"):
			return modeltest.Turn{Text: "Inner."}
		case turn == 0:
			return turnOf(countCall(task))
		case turn == 1:
			return turnOf(delegate(`{"task":"inner of ` + task + `"}`))
		}
		return modeltest.Turn{Text: "Outer."}
	}
	k.parks()
	if k.ran() != 0 || len(k.questions()) != many {
		t.Fatalf("it ran %d times, %q", k.ran(), k.questions())
	}
	k.want(0, "runs", "approve", "latest", "--scope", "session", "--question", k.questions()[many-1])
	k.want(0, "run", "--resume", "latest")
	if k.ran() != many {
		t.Errorf("it ran %d times", k.ran())
	}
	ended := k.outcomes()
	for i := range many {
		id := fmt.Sprintf("t1.c%d", i)
		if r := ended[id]; r.Status != "done" || r.Summary != "Outer." {
			t.Error(id, r)
		}
		if list, err := os.ReadDir(filepath.Join(k.childFolder(id), "children")); err != nil || len(list) != 1 {
			t.Errorf("%s began %v, %v", id, list, err)
		}
	}
	k.want(0, "audit", "verify", "latest")
}
