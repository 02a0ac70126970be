package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"metier/event"
	"metier/internal/testenv"
	"metier/model/modeltest"
	"metier/record"
)

// familyEdits are what a family's run and its subagents do.
var familyEdits = []edit{
	{id: "t1.c0", file: "count.txt", old: "one", new: "one one"},
	{id: "t2.c0", file: "count.txt", old: "two", new: "two two"},
	{id: "t2.c1", file: "new.txt", new: "fresh\n"},
}

// newFamily is a task whose model delegates each half of its work to a subagent.
// The edits are not idempotent: done twice or not at all, they leave other
// files.
func newFamily(t *testing.T) *task {
	t.Helper()
	k := &task{t: t, dir: t.TempDir(), home: t.TempDir(), server: modeltest.OpenAI(t)}
	k.write("count.txt", "one\ntwo\n")
	k.server.Answer(func(r *modeltest.Request) modeltest.Turn {
		turn, said := 0, ""
		for _, m := range r.Messages {
			if m.Role == "assistant" {
				turn++
			}
			if m.Role == "user" {
				said = m.Text
			}
		}
		if !strings.Contains(r.System, "You are a subagent of another agent.") {
			return []modeltest.Turn{
				{Calls: []modeltest.Call{{Tool: "delegate_task", Args: `{"task":"one"}`}}},
				{Calls: []modeltest.Call{{Tool: "delegate_task", Args: `{"task":"two"}`}, {Tool: "write_file", Args: `{"path":"new.txt","content":"fresh\n"}`}}},
				{Text: "Done."}}[min(turn, 2)]
		}
		if turn == 0 {
			return modeltest.Turn{Calls: []modeltest.Call{{Tool: "edit_file", Args: fmt.Sprintf(`{"path":"count.txt","old":%q,"new":"%s %s"}`, said, said, said)}}}
		}
		return modeltest.Turn{Text: "Counted " + said + "."}
	})
	return k
}

func (k *task) begin(at int) (points int, killed bool) {
	k.t.Helper()
	points, killed, exit, out := k.metier(at, "run", "--output-mode", "batch", "--allow-tool", "default", "--allow-subagent-profile", "default", "--prompt", "count")
	if !killed && exit != 0 {
		k.t.Fatalf("exit %d\n%s", exit, out)
	}
	return points, killed
}

// logs returns the events of the run and of its subagents, by folder: "" is the
// run.
func (k *task) logs() map[string][]event.Event {
	k.t.Helper()
	out := map[string][]event.Event{}
	root := filepath.Dir(k.log())
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "events.jsonl" {
			return err
		}
		rel, _ := filepath.Rel(root, filepath.Dir(p)) // below root
		b, err := os.ReadFile(p)
		for line := range strings.Lines(string(b)) {
			var en record.Entry
			if !strings.HasSuffix(line, "\n") || json.Unmarshal([]byte(line), &en) != nil {
				continue
			}
			e, err := event.Decode(en)
			if err != nil {
				return err
			}
			out[rel] = append(out[rel], e)
		}
		return err
	})
	if err != nil {
		k.t.Fatal(err)
	}
	return out
}

// merged checks that each subagent's end is in its parent's record once, with
// one result and its usage. It returns the calls whose result reports that the
// subagent could not be merged.
func (k *task) merged(where string) (reported map[string]bool) {
	k.t.Helper()
	reported = map[string]bool{}
	logs := k.logs()
	ends, returns, codes := map[string]int{}, map[string]int{}, map[string]string{}
	used := int64(0)
	for _, e := range logs["."] {
		switch e := e.(type) {
		case event.ChildEnded:
			ends[e.Run]++
			sum := int64(0)
			for _, in := range logs[filepath.Join("children", e.Run)] {
				if r, ok := in.(event.ModelReplied); ok {
					sum += r.Usage.Input + r.Usage.Output
				}
			}
			if got := e.Usage.Input + e.Usage.Output; got != sum {
				k.t.Errorf("%s: %s used %d tokens, and %d are counted", where, e.Run, sum, got)
			}
			used += sum
		case event.ModelReplied:
			used += e.Usage.Input + e.Usage.Output
		case event.ToolResult:
			if e.Tool == "delegate_task" {
				returns[e.ID]++
				codes[e.ID] = e.Code
			}
		}
	}
	for _, id := range []string{"t1.c0", "t2.c0"} {
		switch {
		case returns[id] != 1 || ends[id] > 1:
			k.t.Errorf("%s: %s: %d results, %d ends", where, id, returns[id], ends[id])
		case ends[id] == 1 && codes[id] == "":
		case ends[id] == 0 && (codes[id] == "subagent_unusable" || codes[id] == "outcome_unknown"):
			reported[id] = true
		default:
			k.t.Errorf("%s: %s: %d ends, and its result has the code %q", where, id, ends[id], codes[id])
		}
	}
	exit, out := k.here("runs", "show", "latest", "--json")
	var doc struct {
		Status string
		Tokens struct{ Total int64 }
	}
	if err := json.Unmarshal([]byte(out), &doc); exit != 0 || err != nil || doc.Status != "done" || doc.Tokens.Total != used {
		k.t.Errorf("%s: exit %d, %v, %+v, %d tokens are in the records", where, exit, err, doc, used)
	}
	if exit, out := k.here("audit", "verify", "latest"); exit != 0 {
		k.t.Errorf("%s: verify: exit %d\n%s", where, exit, out)
	}
	return reported
}

// goOn resumes the run, with a user's answer if the record requires one.
func (k *task) goOn(where string) {
	k.t.Helper()
	exit, out := k.here("run", "--resume", "latest", "--output-mode", "batch")
	if exit == 5 && strings.Contains(out, "heads_mismatch") {
		exit, out = k.here("run", "--resume", "latest", "--output-mode", "batch", "--trust-record")
	}
	if exit != 0 && (len(k.events()) == 0 || strings.Contains(out, "run_not_begun")) {
		if err := os.RemoveAll(filepath.Join(k.dir, ".metier")); err != nil {
			k.t.Fatal(err)
		}
		k.begin(0) // it never began
		exit = 0
	}
	if exit != 0 {
		k.t.Errorf("%s: resume: exit %d\n%s", where, exit, out)
	}
}

// A real SIGKILL of the process with its subagents, before or after every tenth
// append and rename of any of them. After the resume each edit happened once,
// and each subagent was merged once.
func TestKilledWithItsSubagentsAtAppendsAndRenames(t *testing.T) {
	t.Parallel()
	ref := newFamily(t)
	points, _ := ref.begin(0)
	ref.holds("not killed", possible(familyEdits, nil))
	if reported := ref.merged("not killed"); len(reported) > 0 {
		t.Errorf("not killed: not merged: %v", reported)
	}
	told, step := 0, testenv.Count(41, 10)
	var kills testenv.Kills
	for at := 1; at <= points; at += step {
		k := newFamily(t)
		if _, killed := k.begin(at); !kills.Count(killed) {
			continue
		}
		where := fmt.Sprintf("killed at point %d of %d", at, points)
		k.goOn(where)
		reported := k.merged(where)
		told += len(reported)
		k.holds(where, possible(familyEdits, reported))
		k.server.Close()
	}
	kills.Check(t, points/step)
	t.Logf("%d points, %d times the parent was told that a subagent's record cannot be used", points, told)
}

// Killed before, while and after a subagent waits for an answer: it is asked, and
// answered, once.
func TestKilledWhileASubagentWaitsForAnAnswer(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(testenv.Module(t), "LICENSE")
	family := func() *task {
		k := &task{t: t, dir: t.TempDir(), home: t.TempDir(), server: modeltest.OpenAI(t)}
		k.write("count.txt", "one\n")
		k.server.Answer(func(r *modeltest.Request) modeltest.Turn {
			results := strings.Join(r.LastResults(), "\n")
			switch helper := strings.Contains(r.System, "You are a subagent of another agent."); {
			case !helper && results == "":
				return modeltest.Turn{Calls: []modeltest.Call{{Tool: "delegate_task", Args: `{"task":"one"}`}}}
			case !helper:
				return modeltest.Turn{Text: "Done."}
			case results == "":
				return modeltest.Turn{Calls: []modeltest.Call{{Tool: "edit_file", Args: `{"path":"count.txt","old":"one","new":"one one"}`}, {Tool: "read_file", Args: fmt.Sprintf(`{"path":%q}`, outside)}}}
			}
			return modeltest.Turn{Text: map[bool]string{true: "It was read.", false: "It was not."}[strings.Contains(results, "Apache License")]}
		})
		return k
	}
	args := []string{"run", "--output-mode", "batch", "--park", "--set", "guard_allow=roots", "--allow-tool", "default", "--allow-subagent-profile", "default", "--prompt", "count"}
	ref := family()
	points, _, exit, out := ref.metier(0, args...)
	if exit != 7 {
		t.Fatalf("exit %d\n%s", exit, out)
	}
	step := testenv.Count(29, 7)
	var kills testenv.Kills
	for at := 1; at <= points; at += step {
		k := family()
		where := fmt.Sprintf("killed at point %d of %d", at, points)
		if _, killed, _, _ := k.metier(at, args...); !kills.Count(killed) {
			continue
		}
		exit, out := k.here("run", "--resume", "latest")
		if exit != 0 && exit != 7 && (len(k.events()) == 0 || strings.Contains(out, "run_not_begun")) {
			continue // it never began
		}
		if exit != 7 {
			t.Errorf("%s: resume: exit %d\n%s", where, exit, out)
			continue
		}
		if exit, out := k.here("runs", "answer", "latest", "yes"); exit != 0 {
			t.Errorf("%s: answer: exit %d\n%s", where, exit, out)
		}
		if exit, out := k.here("run", "--resume", "latest"); exit != 0 {
			t.Errorf("%s: resume: exit %d\n%s", where, exit, out)
		}
		asked, ends, said := 0, 0, 0
		for _, e := range k.logs()["."] {
			switch e := e.(type) {
			case event.ApprovalRequested:
				asked++
			case event.ChildEnded:
				ends++
			case event.ToolResult:
				if e.Tool == "delegate_task" && e.Code == "" {
					said++
				}
			}
		}
		if asked != 1 || ends != 1 || said != 1 || k.files() != "count.txt:\none one\n" {
			t.Errorf("%s: asked %d times, %d ends, %d results, files %q", where, asked, ends, said, k.files())
		}
		if exit, out := k.here("audit", "verify", "latest"); exit != 0 {
			t.Errorf("%s: verify: exit %d\n%s", where, exit, out)
		}
		k.server.Close()
	}
	kills.Check(t, points/step)
}
