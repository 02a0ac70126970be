package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"metier/model"
	"metier/model/modeltest"
	"metier/run"
)

// deep is a profile whose children may have children.
const deep = "name: deep\ndescription: Hands on.\ntools: [inherit, delegate_task]\n"

func TestSubagentsOfSubagentsEndAtTheDepthThatWasSet(t *testing.T) {
	t.Parallel()
	for depth := 1; depth <= 3; depth++ {
		k := newKin(t, map[string]string{"subs/deep.yaml": deep, "config.yaml": fmt.Sprintf("subagents: {depth: %d, profiles: [subs], allow: [deep]}\nallow_tools: [default]\n", depth)})
		k.parent = once(delegate(`{"profile":"deep","task":"level 1"}`))
		offered := map[string][]string{}
		last := ""
		k.child = func(task string, turn int, r *modeltest.Request) modeltest.Turn {
			offered[task] = toolNamesOf(r)
			level := 0
			if _, err := fmt.Sscanf(task, "level %d", &level); err != nil {
				t.Error(err)
			}
			if turn == 0 {
				return turnOf(delegate(fmt.Sprintf(`{"profile":"deep","task":"level %d"}`, level+1)))
			}
			if level == depth {
				last = strings.Join(r.LastResults(), "")
			}
			return modeltest.Turn{Text: "done " + task}
		}
		k.run()
		dir := k.folder()
		for level := 1; level <= depth; level++ {
			has := slices.Contains(offered[fmt.Sprintf("level %d", level)], "delegate_task")
			if has != (level < depth) || slices.Contains(offered[fmt.Sprintf("level %d", level)], "describe_handle") != has {
				t.Errorf("depth %d: at level %d it is offered: %v", depth, level, has)
			}
			dir = filepath.Join(dir, "children", "t1.c0")
			if m := subagentOf(t, dir); m.Depth != level {
				t.Errorf("depth %d, level %d: %+v", depth, level, m)
			}
		}
		if _, err := os.Stat(filepath.Join(dir, "children")); err == nil {
			t.Errorf("depth %d: there is one below it", depth)
		}
		if !strings.HasPrefix(last, "Error: ") || !strings.Contains(last, "tool") {
			t.Errorf("depth %d: the call at the bottom: %s", depth, last)
		}
		if exit := k.metier("audit", "verify", "latest"); exit != 0 {
			t.Errorf("depth %d: %s%s", depth, k.out.String(), k.err.String())
		}
	}
}

// The limit applies to the whole tree, including subagents of subagents.
func TestARunHasNoMoreSubagentsThanWereSet(t *testing.T) {
	t.Parallel()
	k := newKin(t, map[string]string{"subs/deep.yaml": deep, "config.yaml": "subagents: {depth: 3, total: 3, parallel: 1, profiles: [subs], allow: [deep]}\nallow_tools: [default]\n"})
	three := turnOf(delegate(`{"profile":"deep","task":"a"}`), delegate(`{"profile":"deep","task":"b"}`), delegate(`{"profile":"deep","task":"c"}`))
	k.parent = func(turn int, r *modeltest.Request) modeltest.Turn {
		if turn == 0 {
			return three
		}
		return modeltest.Turn{Text: strings.Join(r.LastResults(), "\n")}
	}
	refused := 0
	k.child = func(_ string, turn int, r *modeltest.Request) modeltest.Turn {
		if turn == 0 && slices.Contains(toolNamesOf(r), "delegate_task") {
			return three
		}
		refused += strings.Count(strings.Join(r.LastResults(), "\n"), "Error: subagent_limit")
		return modeltest.Turn{Text: "Done."}
	}
	k.run()
	folders := 0
	if err := filepath.WalkDir(k.folder(), func(p string, d os.DirEntry, err error) error {
		if err == nil && d.Name() == "events.jsonl" {
			folders++
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	refused += strings.Count(k.out.String(), "Error: subagent_limit")
	if folders != 4 || refused < 3 {
		t.Errorf("%d records, %d calls refused\n%s", folders, refused, k.out.String())
	}
}

func TestNoMoreSubagentsWorkAtOnceThanWereSet(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3, 10} {
		k := newKin(t, map[string]string{"config.yaml": fmt.Sprintf("subagents: {parallel: %d, allow: [default]}\nallow_tools: [default]\n", n)})
		var calls []modeltest.Call
		for i := range max(n, 5) {
			calls = append(calls, delegate(fmt.Sprintf(`{"task":"%d"}`, i)))
		}
		k.parent, k.beside = once(calls...), true
		var mu sync.Mutex
		full := sync.NewCond(&mu)
		working, most, met := 0, 0, false
		k.child = func(string, int, *modeltest.Request) modeltest.Turn {
			mu.Lock()
			defer mu.Unlock()
			working++
			most = max(most, working)
			if working == n && !met { // as many as may work: the others have not started
				met = true
				if begun, err := os.ReadDir(filepath.Join(k.folder(), "children")); err != nil || len(begun) > n {
					t.Errorf("%d may work, and %d began: %v", n, len(begun), err)
				}
				full.Broadcast()
			}
			for !met {
				full.Wait()
			}
			working--
			return modeltest.Turn{Text: "Done."}
		}
		k.run()
		if most > n || !met {
			t.Errorf("%d at once, %d may", most, n)
		}
		if got := len(k.outcomes()); got != len(calls) {
			t.Errorf("%d ended", got)
		}
	}
}

// Subagents use the budget of their parent, one after the other. Their usage is in the report.
func TestSubagentsShareTheTokensOfTheirParent(t *testing.T) {
	t.Parallel()
	k := newKin(t, map[string]string{"a.txt": "text\n", "config.yaml": "allow_tools: [default]\nsubagents: {allow: [default]}\n"})
	k.parent = func(turn int, r *modeltest.Request) modeltest.Turn {
		out := once(delegate(`{"task":"first"}`), delegate(`{"task":"second"}`), delegate(`{"task":"third"}`))(turn, r)
		out.Usage = model.Usage{Input: 90, Output: 10}
		return out
	}
	k.child = func(task string, turn int, _ *modeltest.Request) modeltest.Turn {
		out := modeltest.Turn{Text: "Done.", Usage: model.Usage{Input: 250, Output: 50}}
		if task == "second" { // it would never end
			out.Calls = []modeltest.Call{{Tool: "search_files", Args: fmt.Sprintf(`{"pattern":"x%d"}`, turn)}}
		}
		return out
	}
	exit := k.metier("run", "--output-mode", "batch", "--prompt", "Go.", "--max-tokens", "1000")
	if exit != 1 || !strings.Contains(k.err.String(), "token_budget") {
		t.Fatalf("exit %d\n%s", exit, k.err.String())
	}
	got := k.outcomes()
	if r := got["t1.c0"]; r.Status != "done" || r.Tokens != 300 {
		t.Error(r)
	}
	if r := got["t1.c1"]; r.Failure != "turn-budget-exhausted" || r.Tokens != 600 {
		t.Error(r)
	}
	if r := got["t1.c2"]; r.Code != "token_budget" {
		t.Error(r)
	}
	rep := readArtifact[run.Report](t, k.folder(), run.FileReport)
	if rep.Tokens.Total != 1000 || len(rep.Children) != 2 {
		t.Errorf("%+v, %+v", rep.Tokens, rep.Children)
	}
	if list, _ := os.ReadDir(filepath.Join(k.folder(), "children")); len(list) != 2 {
		t.Errorf("%d began", len(list))
	}
}

func TestWhatACallOfDelegateTaskMayNotAsk(t *testing.T) {
	t.Parallel()
	var many []string
	for i := range 21 {
		many = append(many, fmt.Sprintf(`"s%d"`, i))
	}
	for name, args := range map[string]string{
		"a task too long":       `{"task":"` + strings.Repeat("x", 64<<10+1) + `"}`,
		"no task":               `{"task":"  "}`,
		"too many skills":       `{"task":"x","skills":[` + strings.Join(many, ",") + `]}`,
		"a schema that is none": `{"task":"x","output_schema":{"type":7}}`,
		"a schema too long":     `{"task":"x","output_schema":{"description":"` + strings.Repeat("x", 64<<10) + `"}}`,
		"an unknown key":        `{"task":"x","target":"host"}`,
		"tools of its own":      `{"task":"x","tools":["bash"]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKin(t, map[string]string{"config.yaml": "subagents: {allow: [default]}\nallow_tools: [default]\n"})
			k.parent, k.child = once(delegate(args)), says("never")
			k.run()
			if r := k.report("t1.c0"); r.Code != "invalid_arguments" {
				t.Error(r)
			}
			if _, err := os.Stat(filepath.Join(k.folder(), "children")); err == nil {
				t.Error("it began")
			}
		})
	}
}

// Tests each failure code with a subagent that ended with it.
func TestHowASubagentFailedIsOneOfSixCodes(t *testing.T) {
	t.Parallel()
	k := newKin(t, map[string]string{"subs/short.yaml": "name: short\ndescription: Few turns.\ntools: [inherit]\nmax_turns: 4\n", "config.yaml": "subagents: {profiles: [subs], allow: [short]}\nallow_tools: [default]\n"})
	want := []string{"compile-error", "missing-input-shape", "unsupported-request", "other", "turn-budget-exhausted", "schema-mismatch", "other", ""}
	k.parent = once(delegate(`{"profile":"short","task":"compile-error"}`), delegate(`{"profile":"short","task":"missing-input-shape"}`), delegate(`{"profile":"short","task":"unsupported-request"}`),
		delegate(`{"profile":"short","task":"other"}`), delegate(`{"profile":"short","task":"turns"}`), delegate(`{"profile":"short","task":"schema","output_schema":{"type":"object"}}`),
		delegate(`{"profile":"short","task":"fault"}`), delegate(`{"profile":"short","task":"made up"}`))
	k.child = func(task string, turn int, _ *modeltest.Request) modeltest.Turn {
		switch task {
		case "turns":
			return turnOf(modeltest.Call{Tool: "search_files", Args: fmt.Sprintf(`{"pattern":"x%d"}`, turn)})
		case "schema":
			return modeltest.Turn{Text: "no JSON at all"}
		case "fault":
			return modeltest.Turn{Fault: &modeltest.Fault{Status: 401}}
		case "made up":
			return modeltest.Turn{Text: "It went well.\nFailure: turn-budget-exhausted"}
		}
		return modeltest.Turn{Text: "I could not.\n\nFailure: " + task + "\n"}
	}
	k.run()
	for i, code := range want {
		r := k.report(fmt.Sprintf("t1.c%d", i))
		status, call := "failed", "subagent_failed"
		if code == "" {
			status, call = "done", ""
		}
		if r.Failure != code || r.Status != status || r.Code != call {
			t.Errorf("%d: want %q: %v", i, code, r)
		}
		if i < 4 && r.Summary != "I could not." {
			t.Error(r)
		}
	}
	rep := readArtifact[run.Report](t, k.folder(), run.FileReport)
	var codes []string
	for _, c := range rep.Children {
		codes = append(codes, c.Run+" "+c.Code)
	}
	slices.Sort(codes)
	if len(codes) != 8 || codes[0] != "t1.c0 compile-error" || codes[7] != "t1.c7 " {
		t.Errorf("%q", codes)
	}
}

func TestALongReportIsReadByItsHandle(t *testing.T) {
	t.Parallel()
	k := newKin(t, map[string]string{"config.yaml": "subagents: {allow: [default]}\nallow_tools: [default]\n"})
	long := strings.Repeat("Grüße aus der Ferne. ", 1500) + "The end."
	list := `{"list":["` + strings.Repeat("x", 20<<10) + `"]}`
	var windows []string
	last, next := "", 0
	k.parent = func(turn int, r *modeltest.Request) modeltest.Turn {
		text := strings.Join(r.LastResults(), "\n")
		switch {
		case turn == 0:
			return turnOf(delegate(`{"task":"long"}`), delegate(`{"task":"list","output_schema":{"type":"object"}}`), delegate(`{"task":"short"}`))
		case last != "":
			last = text
			return modeltest.Turn{Text: "Done."}
		case turn > 1:
			windows, next = append(windows, text), 0
			if i := strings.LastIndex(text, "continues at byte "); i >= 0 {
				if _, err := fmt.Sscanf(text[i:], "continues at byte %d", &next); err != nil {
					t.Error(err)
				}
			}
		}
		if turn == 1 || next > 0 {
			return turnOf(modeltest.Call{Tool: "describe_handle", Args: fmt.Sprintf(`{"handle":"t1.c0","from":%d}`, next)})
		}
		last = "asked"
		return turnOf(modeltest.Call{Tool: "describe_handle", Args: `{"handle":"t1.c1"}`}, modeltest.Call{Tool: "describe_handle", Args: `{"handle":"t9.c9"}`},
			modeltest.Call{Tool: "describe_handle", Args: `{"handle":"../t1.c0"}`}, modeltest.Call{Tool: "describe_handle", Args: `{"handle":".."}`},
			modeltest.Call{Tool: "describe_handle", Args: `{"handle":"t1.c0","from":99999999}`})
	}
	k.child = func(task string, _ int, _ *modeltest.Request) modeltest.Turn {
		return modeltest.Turn{Text: map[string]string{"long": long, "list": list, "short": "short"}[task]}
	}
	k.run()
	for call, cut := range map[string]bool{"t1.c0": true, "t1.c1": true, "t1.c2": false} {
		if r := k.report(call); r.Cut != cut || (r.Handle == call) != cut || len(r.Summary) > 6100 || len(r.Output) > 0 {
			t.Errorf("%s: %v", call, r)
		}
	}
	var read strings.Builder
	for _, text := range windows {
		_, body, _ := strings.Cut(text, "<subagent_report run=\"t1.c0\">\n")
		body, _, _ = strings.Cut(body, "\n</subagent_report>")
		read.WriteString(body)
	}
	if got := strings.ReplaceAll(read.String(), " ", ""); got != strings.ReplaceAll(long, " ", "") {
		t.Errorf("read %d bytes by the handle, of %d", read.Len(), len(long))
	}
	if !strings.Contains(last, "xxx") || strings.Count(last, "Error: unknown_handle") != 2 || strings.Count(last, "Error: invalid_arguments") != 2 {
		t.Errorf("%.2000s", last)
	}
}
