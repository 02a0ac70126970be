package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"metier/model/modeltest"
)

// stranger is a third-party skill with a script, and a subagent whose profile
// names it.
func stranger() map[string]string {
	return map[string]string{
		"config.yaml":                   "skills: [{path: shelf, tier: third_party, label: shelf}]\nsubagents: {profiles: [subs], allow: [counter]}\nallow_tools: [default]\n",
		"subs/counter.yaml":             "name: counter\ndescription: Counts.\nskills: [report]\nscripts: [\"report:scripts/count.sh\"]\ntools: [run_skill_script]\n",
		"shelf/report/SKILL.md":         "---\nname: report\ndescription: Counts. Use when something is to be counted.\n---\nRun scripts/count.sh.\n",
		"shelf/report/scripts/count.sh": "echo ran >>/workspace/ran.txt\n",
	}
}

func countCall(n string) modeltest.Call {
	return modeltest.Call{Tool: "run_skill_script", Args: `{"skill":"report","path":"scripts/count.sh","args":["MARK-OF-A-CALL-1a2b3c","` + n + `"]}`}
}

// whoAsks is a run whose subagent runs a third-party script three times: twice
// in one reply, and once more.
func whoAsks(t *testing.T) (k *kin, told *[]string) {
	t.Helper()
	needLinux(t)
	k, told = newKin(t, stranger()), new([]string)
	k.parent = once(delegate(`{"profile":"counter","task":"Count."}`))
	k.child = func(_ string, turn int, r *modeltest.Request) modeltest.Turn {
		*told = append(*told, strings.Join(r.LastResults(), "\n"))
		switch turn {
		case 0:
			return turnOf(countCall("1"), countCall("2"))
		case 1:
			return turnOf(countCall("3"))
		}
		return modeltest.Turn{Text: "Counted."}
	}
	return k, told
}

func (k *kin) ran() int {
	b, _ := os.ReadFile(filepath.Join(k.dir, "ran.txt"))
	return strings.Count(string(b), "ran\n")
}

// parks starts a run that waits for an answer.
func (k *kin) parks() {
	k.t.Helper()
	if exit := k.metier("run", "--output-mode", "batch", "--on-approval", "wait", "--prompt", "Go."); exit != 7 {
		k.t.Fatalf("exit %d\n%s", exit, k.err.String())
	}
}

// questions returns the ids of the open questions of the newest run.
func (k *kin) questions() (ids []string) {
	k.t.Helper()
	k.want(0, "runs", "answer", "latest", "--json")
	var doc struct{ Questions []struct{ ID string } }
	if err := json.Unmarshal(k.out.Bytes(), &doc); err != nil {
		k.t.Fatalf("%v: %s", err, k.out.String())
	}
	for _, q := range doc.Questions {
		ids = append(ids, q.ID)
	}
	return ids
}

func (k *kin) want(exit int, args ...string) {
	k.t.Helper()
	if got := k.metier(args...); got != exit {
		k.t.Fatalf("%q: exit %d, want %d\n%s%s", args, got, exit, k.out.String(), k.err.String())
	}
}

func TestSubagent_AsksAgainAboutChangedFiles(t *testing.T) {
	t.Parallel()
	k, _ := whoAsks(t)
	k.parks()
	asked := k.questions()
	k.write(map[string]string{"shelf/report/scripts/count.sh": "echo ran >>/workspace/ran.txt # again\n"})
	k.want(5, "runs", "approve", "latest")
	k.want(7, "run", "--resume", "latest", "--on-drift", "reload")
	if now := k.questions(); len(now) != 1 || now[0] == asked[0] {
		t.Fatalf("it asked %q, and now asks %q", asked, now)
	}
	k.want(0, "runs", "approve", "latest")
	k.want(7, "run", "--resume", "latest")
	if k.ran() != 1 {
		t.Errorf("one yes, and it ran %d times", k.ran())
	}
}

func TestAYesForOnceCoversOneCallOfASubagent(t *testing.T) {
	t.Parallel()
	k, told := whoAsks(t)
	k.parks()
	if k.ran() != 0 {
		t.Error("it ran before the answer")
	}
	if at := holding(t, k.folder(), "MARK-OF-A-CALL", false); len(at) > 0 { // the content of its call stays in its record
		t.Errorf("what it asks is in %q of its parent", at)
	}
	k.want(0, "runs", "answer", "latest")
	for _, want := range []string{"run the script report:scripts/count.sh (tier third_party)?", "subagent  counter t1.c0\n", `given     | {"skill":"report","path":"scripts/count.sh","args":["MARK-OF-A-CALL-1a2b3c","1"]}`, "scopes: once, session, always"} {
		if !strings.Contains(k.out.String(), want) {
			t.Errorf("%q is not in\n%s", want, k.out.String())
		}
	}
	k.want(0, "runs", "answer", "latest", "--json")
	var doc struct {
		Questions []struct {
			ID, Call, Tool, Subagent string
			Covers                   map[string]string
			Given                    struct{ Path string }
		}
	}
	if err := json.Unmarshal(k.out.Bytes(), &doc); err != nil || len(doc.Questions) != 1 {
		t.Fatalf("%v: %s", err, k.out.String())
	}
	if q := doc.Questions[0]; q.Tool != "run_skill_script" || q.Call != "t1.c0" || q.Subagent != "counter t1.c0" || q.Given.Path != "scripts/count.sh" || q.Covers["script"] != "scripts/count.sh" || q.Covers["tier"] != "third_party" {
		t.Errorf("%+v", q)
	}
	k.want(0, "runs", "show", "latest")
	if !strings.Contains(k.out.String(), "subagent  counter t1.c0") {
		t.Error(k.out.String())
	}
	// Only its parent can continue its record.
	for _, args := range [][]string{{"runs", "answer", k.childFolder("t1.c0"), "yes"}, {"run", "--resume", k.childFolder("t1.c0")}} {
		if exit := k.metier(args...); exit != 1 || !strings.Contains(k.err.String(), "[run_is_subagent]") || !strings.Contains(k.err.String(), filepath.Base(k.folder())) {
			t.Errorf("%q: exit %d: %s", args, exit, k.err.String())
		}
	}
	k.want(0, "runs", "approve", "latest")
	k.want(7, "run", "--resume", "latest")
	if k.ran() != 1 {
		t.Errorf("one yes, and it ran %d times", k.ran())
	}
	k.want(0, "runs", "deny", "latest")
	k.want(7, "run", "--resume", "latest")
	if k.ran() != 1 {
		t.Errorf("a yes and a no, and it ran %d times", k.ran())
	}
	k.want(0, "runs", "approve", "latest")
	k.want(0, "run", "--resume", "latest")
	if k.ran() != 2 {
		t.Errorf("two of three were answered with yes, and it ran %d times", k.ran())
	}
	if n := len(*told); n != 3 || strings.Count((*told)[1], "Exit code 0.") != 1 || strings.Count((*told)[1], "Error: refused") != 1 {
		t.Errorf("asked %d times: %q", n, *told)
	}
	if r := k.report("t1.c0"); r.Status != "done" || r.Summary != "Counted." {
		t.Error(r)
	}
	k.want(0, "audit", "verify", "latest")
}

func TestAnAnswerForTheSessionHoldsForAllItsSubagents(t *testing.T) {
	t.Parallel()
	k, _ := whoAsks(t)
	k.parent = once(delegate(`{"profile":"counter","task":"Count."}`), delegate(`{"profile":"counter","task":"Count again."}`))
	k.parks()
	ids := k.questions()
	if len(ids) != 2 || ids[0] == ids[1] {
		t.Fatal(ids)
	}
	k.want(0, "runs", "approve", "latest", "--scope", "session", "--question", ids[0])
	k.want(0, "run", "--resume", "latest")
	if k.ran() != 6 {
		t.Errorf("it ran %d times", k.ran())
	}
}

func TestAnAnswerForAlwaysHoldsForTheNextRunsSubagent(t *testing.T) {
	t.Parallel()
	k, _ := whoAsks(t)
	k.parks()
	k.want(0, "runs", "approve", "latest", "--scope", "always")
	k.want(0, "runs", "approvals", "--json")
	if out := k.out.String(); !strings.Contains(out, `"script": "scripts/count.sh"`) || strings.Contains(out, "subagent") {
		t.Error(out)
	}
	k.want(0, "run", "--resume", "latest")
	k.run()
	if k.ran() != 6 {
		t.Errorf("it ran %d times", k.ran())
	}
}

func TestABatchAnswersASubagentWithNoAndItGoesOn(t *testing.T) {
	t.Parallel()
	k, told := whoAsks(t)
	k.run()
	if k.ran() != 0 {
		t.Errorf("it ran %d times", k.ran())
	}
	if n := len(*told); n != 3 || strings.Count(strings.Join(*told, ""), "Error: refused") != 3 {
		t.Errorf("%d: %q", n, *told)
	}
	if r := k.report("t1.c0"); r.Status != "done" {
		t.Error(r)
	}
}

// A question whose record is missing cannot be approved.
func TestAQuestionWhoseRecordIsGoneIsNotAnsweredWithYes(t *testing.T) {
	t.Parallel()
	k, _ := whoAsks(t)
	k.parks()
	if err := os.RemoveAll(k.childFolder("t1.c0")); err != nil {
		t.Fatal(err)
	}
	k.want(5, "runs", "approve", "latest")
	if !strings.Contains(k.err.String(), "[question_unreadable]") {
		t.Error(k.err.String())
	}
	k.want(0, "runs", "deny", "latest")
	k.want(0, "run", "--resume", "latest")
	r := k.report("t1.c0")
	if r.Code != "subagent_unusable" || !strings.Contains(k.err.String(), "[subagent_record_lost]") || k.ran() != 0 {
		t.Errorf("%v\n%s", r, k.err.String())
	}
}

// Two subagents ask the user at the terminal: one after the other, each by name.
func TestSubagentsAskAPersonOneAfterTheOther(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(map[string]string{"subs/counter.yaml": "name: counter\ndescription: Counts.\nskills: [report]\nscripts: [\"report:scripts/a.sh\"]\ntools: [run_skill_script]\n",
		"kin.yaml": "turns:\n  - when: '{{ not (contains \"You are a subagent\" system) }}'\n    calls:\n      - {tool: delegate_task, args: {profile: counter, task: One.}}\n      - {tool: delegate_task, args: {profile: counter, task: Two.}}\n" +
			"  - when: '{{ contains \"You are a subagent\" system }}'\n    calls: [{tool: run_skill_script, args: {skill: report, path: scripts/a.sh}}]\n" +
			"  - when: '{{ contains \"You are a subagent\" system }}'\n    say: Counted.\n  - say: Done.\n"})
	x := p.sit("metier run --prompt Count. --allow-subagent-profile counter --subagent-profiles " + filepath.Join(p.home, "subs") + " --model scripted:" + filepath.Join(p.home, "kin.yaml"))
	first := x.reads(menu)
	x.types("y\n")
	second := x.reads(menu)
	if p.ran() != 1 && p.ran() != 0 { // the first may run during the question
		t.Errorf("it ran %d times", p.ran())
	}
	x.types("n\n")
	if exit := x.left(); exit != 0 || p.ran() != 1 {
		t.Errorf("exit %d, ran %d times:\n%s", exit, p.ran(), x.shown.String())
	}
	named := map[string]bool{}
	for _, shown := range []string{first, second} {
		for _, name := range []string{"counter t1.c0", "counter t1.c1"} {
			if strings.Contains(shown, "May the subagent "+name+" do this?\n  run the script report:scripts/a.sh (tier third_party)?\n") {
				named[name] = true
			}
		}
	}
	if len(named) != 2 {
		t.Errorf("%s\n----\n%s", first, second)
	}

	// Yes for the session withdraws the other's question.
	x = p.sit("metier run --prompt Count. --allow-subagent-profile counter --subagent-profiles " + filepath.Join(p.home, "subs") + " --model scripted:" + filepath.Join(p.home, "kin.yaml"))
	x.reads(menu)
	x.types("s\n")
	if exit := x.left(); exit != 0 || p.ran() != 3 {
		t.Errorf("exit %d, ran %d times:\n%s", exit, p.ran(), x.shown.String())
	}
}
