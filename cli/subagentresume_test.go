package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"metier/cli"
	"metier/event"
	"metier/model/modeltest"
	"metier/run"
)

// interrupted runs until a subagent asks its model for the second time, and is
// interrupted there. By then it has made one edit that is not idempotent.
func interrupted(t *testing.T, more ...string) (k *kin, turns *[]int) {
	t.Helper()
	files := named("plain", "other")
	files["count.txt"], files["config.yaml"] = "one\n", "skills: [{path: skills, tier: user}]\nsubagents: {allow: [default]}\nallow_tools: [default]\n"
	k, turns = newKin(t, files), new([]int)
	ctx, cancel := context.WithCancel(t.Context())
	k.parent = func(turn int, r *modeltest.Request) modeltest.Turn {
		if turn == 0 {
			return turnOf(delegate(`{"task":"Count.","skills":["plain"]}`))
		}
		return modeltest.Turn{Text: "Parent: " + strings.Join(r.LastResults(), "\n")}
	}
	k.child = func(_ string, turn int, r *modeltest.Request) modeltest.Turn {
		*turns = append(*turns, turn)
		if turn == 0 {
			return turnOf(modeltest.Call{Tool: "edit_file", Args: `{"path":"count.txt","old":"one","new":"one one"}`})
		}
		if ctx.Err() == nil {
			cancel()
			return modeltest.Turn{Fault: &modeltest.Fault{Hang: true}}
		}
		if strings.Contains(string(r.Body), "plain, in new words") {
			return modeltest.Turn{Text: "Counted by the new words."}
		}
		return modeltest.Turn{Text: "Counted."}
	}
	args := append([]string{"run", "--output-mode", "batch", "--prompt", "Go."}, more...)
	var out bytes.Buffer
	if exit := cli.MainNoWait(ctx, args, k.env(), cli.IO{In: strings.NewReader(""), Out: &out, Err: &out, Dir: k.dir}); exit != 130 {
		t.Fatalf("exit %d\n%s", exit, out.String())
	}
	return k, turns
}

// counts returns how often things are in the record of the run.
func (k *kin) counts() map[string]int {
	k.t.Helper()
	out := map[string]int{}
	for _, en := range entriesOf(k.t, k.folder()) {
		e, err := event.Decode(en)
		if err != nil {
			k.t.Fatal(err)
		}
		switch e := e.(type) {
		case event.ChildEnded:
			out["ended"]++
		case event.ToolResult:
			if e.Tool == "delegate_task" {
				out["returned "+e.Code]++
			}
		case event.Note:
			out["note "+e.Code]++
		}
	}
	return out
}

func (k *kin) edits() string {
	b, _ := os.ReadFile(filepath.Join(k.dir, "count.txt"))
	return string(b)
}

func TestAnInterruptedSubagentIsTakenUpAgain(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(log string) error{
		"as it was": func(string) error { return nil },
		"torn": func(log string) error {
			b, err := os.ReadFile(log)
			if err == nil {
				err = os.WriteFile(log, append(b, `{"v":1,"seq":99,"pr`...), 0o600)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, turns := interrupted(t)
			if err := harm(filepath.Join(k.childFolder("t1.c0"), "events.jsonl")); err != nil {
				t.Fatal(err)
			}
			k.want(0, "runs", "show", "latest")
			k.want(0, "run", "--resume", "latest")
			if c := k.counts(); c["ended"] != 1 || c["returned "] != 1 || len(c) != 2 {
				t.Errorf("%v", c)
			}
			if r := k.report("t1.c0"); r.Summary != "Counted." || r.Status != "done" || k.edits() != "one one\n" {
				t.Errorf("%v, %q", r, k.edits())
			}
			if fmt.Sprint(*turns) != "[0 1 1]" {
				t.Errorf("its model was asked for the turns %v", *turns)
			}
			k.want(0, "audit", "verify", "latest")
			k.want(0, "run", "--resume", "latest") // it is over: nothing is repeated
			if c := k.counts(); c["ended"] != 1 || c["returned "] != 1 || len(*turns) != 3 {
				t.Errorf("%v, %v", c, *turns)
			}
		})
	}
}

// If a subagent's record cannot be used, its parent gets an error code, and none of its actions is
// repeated.
func TestASubagentWhoseRecordIsNoneIsReported(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code string
		harm func(t *testing.T, dir, home string)
	}{
		"that nobody here wrote": {"run_unwitnessed", func(t *testing.T, _, home string) {
			heads, err := filepath.Glob(filepath.Join(home, ".local", "state", "metier", "heads", "*"))
			must(t, err)
			gone := 0
			for _, h := range heads {
				b, err := os.ReadFile(h)
				must(t, err)
				if bytes.Contains(b, []byte(`"t1.c0"`)) {
					must(t, os.Remove(h))
					gone++
				}
			}
			if gone != 1 {
				t.Fatalf("%d of %d files of heads are its", gone, len(heads))
			}
		}},
		"deleted":                  {"subagent_record_lost", func(t *testing.T, dir, _ string) { must(t, os.RemoveAll(dir)) }},
		"deleted with all of them": {"subagent_record_lost", func(t *testing.T, dir, _ string) { must(t, os.RemoveAll(filepath.Dir(dir))) }},
		"without its log":          {"subagent_record_lost", func(t *testing.T, dir, _ string) { must(t, os.Remove(filepath.Join(dir, "events.jsonl"))) }},
		"with an empty log":        {"heads_mismatch", func(t *testing.T, dir, _ string) { must(t, os.Truncate(filepath.Join(dir, "events.jsonl"), 0)) }},
		"altered": {"", func(t *testing.T, dir, _ string) {
			log := filepath.Join(dir, "events.jsonl")
			b, err := os.ReadFile(log)
			must(t, err)
			must(t, os.WriteFile(log, bytes.Replace(b, []byte(`"edit_file"`), []byte(`"read_file"`), 1), 0o600))
		}},
		"cut": {"heads_mismatch", func(t *testing.T, dir, _ string) {
			log := filepath.Join(dir, "events.jsonl")
			b, err := os.ReadFile(log)
			must(t, err)
			lines := bytes.SplitAfter(b, []byte("\n"))
			must(t, os.WriteFile(log, bytes.Join(lines[:len(lines)/2], nil), 0o600))
		}},
		"without its content": {"", func(t *testing.T, dir, _ string) { must(t, os.RemoveAll(filepath.Join(dir, "blobs"))) }},
		"a link": {"run_folder_invalid", func(t *testing.T, dir, _ string) {
			must(t, os.Rename(dir, dir+".away"))
			must(t, os.Symlink(dir+".away", dir))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, turns := interrupted(t)
			c.harm(t, k.childFolder("t1.c0"), k.home)
			k.want(0, "run", "--resume", "latest")
			got := k.counts()
			code := c.code
			for n := range got {
				if s, is := strings.CutPrefix(n, "note "); is && c.code == "" {
					code = s
				}
			}
			if got["ended"] != 0 || got["returned subagent_unusable"] != 1 || got["note "+code] != 1 || len(got) != 2 {
				t.Errorf("%v", got)
			}
			if k.edits() != "one one\n" || len(*turns) != 2 {
				t.Errorf("%q, its model was asked for the turns %v", k.edits(), *turns)
			}
			if !strings.Contains(k.err.String(), "["+code+"]") || !strings.HasPrefix(k.out.String(), "Parent: Error: subagent_unusable: ") || !strings.Contains(k.out.String(), code) {
				t.Errorf("the person is told:\n%s%s", k.err.String(), k.out.String())
			}
			if strings.Contains(k.out.String(), k.dir) {
				t.Errorf("the model is told a path of the host: %s", k.out.String())
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestASubagentThatSomebodyElseWorksOnIsReported(t *testing.T) {
	t.Parallel()
	k, _ := interrupted(t)
	f, err := run.Open(filepath.Join(k.folder(), "children"), "t1.c0", nil)
	must(t, err)
	k.want(0, "run", "--resume", "latest")
	if c := k.counts(); c["returned subagent_unusable"] != 1 || c["note run_locked"] != 1 || c["ended"] != 0 {
		t.Errorf("%v", c)
	}
	must(t, f.Close())
}

// req
func TestChangedSkillsOfASubagentAreDrift(t *testing.T) {
	t.Parallel()
	change := func(k *kin) {
		k.write(map[string]string{"skills/plain/SKILL.md": "---\nname: plain\ndescription: Does plain. Use when plain is asked for.\n---\nThe instructions of plain, in new words.\n"})
	}
	for choice, summary := range map[string]string{"warn": "Counted.", "ignore": "Counted.", "reload": "Counted by the new words."} {
		t.Run(choice, func(t *testing.T) {
			t.Parallel()
			k, _ := interrupted(t)
			change(k)
			k.want(0, "run", "--resume", "latest", "--on-drift", choice)
			if r := k.report("t1.c0"); r.Summary != summary {
				t.Error(r)
			}
			drifted := map[string]bool{}
			for _, en := range entriesOf(t, k.childFolder("t1.c0")) {
				var d struct{ Choice string }
				if en.Type == "skill.drifted" {
					must(t, json.Unmarshal(en.Data, &d))
					drifted[d.Choice] = true
				}
			}
			if !drifted[choice] || len(drifted) != 1 {
				t.Errorf("drift in its record: %v", drifted)
			}
			if got := k.activations(k.childFolder("t1.c0")); got[len(got)-1] != "plain subagent-inherit" {
				t.Errorf("%q", got)
			}
		})
	}
	t.Run("fail", func(t *testing.T) {
		t.Parallel()
		k, turns := interrupted(t)
		change(k)
		before := len(entriesOf(t, k.folder()))
		k.want(5, "run", "--resume", "latest", "--on-drift", "fail")
		if !strings.Contains(k.err.String(), "subagent t1.c0: ") || !strings.Contains(k.err.String(), "[skill_drifted]") || len(entriesOf(t, k.folder())) != before || len(*turns) != 2 {
			t.Errorf("%d entries, %v\n%s", len(entriesOf(t, k.folder())), *turns, k.err.String())
		}
		k.want(0, "run", "--resume", "latest", "--on-drift", "warn")
		if r := k.report("t1.c0"); r.Summary != "Counted." {
			t.Error(r)
		}
	})
}

// A subagent may end just before its parent is killed. Only its outcome is used then.
func TestResume_IgnoresChangedSkillsOfEndedSubagents(t *testing.T) {
	t.Parallel()
	for _, status := range []string{run.StatusDone, run.StatusFailed, run.StatusDenied, run.StatusCancelled} {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			k, _ := interrupted(t)
			f, err := run.Open(filepath.Join(k.folder(), "children"), "t1.c0",
				&run.Options{StateDir: run.StateDir(func(string) string { return "" }, k.home), Top: filepath.Dir(k.folder())})
			must(t, err)
			en, err := event.New(event.RunEnded{Run: "t1.c0", Status: status}, "e-end", "engine", time.Now())
			must(t, err)
			head, err := f.Log().Head(t.Context())
			must(t, err)
			_, err = f.Log().Append(t.Context(), head, en)
			must(t, err)
			must(t, f.Close())
			k.write(map[string]string{"skills/plain/SKILL.md": "---\nname: plain\ndescription: Does plain. Use when plain is asked for.\n---\nOther.\n"})
			k.want(0, "run", "--resume", "latest", "--on-drift", "fail")
		})
	}
}

// Ctrl-C while several subagents work: all stop, and all resume.
func TestAnInterruptStopsAllSubagents(t *testing.T) {
	t.Parallel()
	k := newKin(t, map[string]string{"config.yaml": "subagents: {allow: [default]}\nallow_tools: [default]\n"})
	k.parent, k.beside = once(delegate(`{"task":"a"}`), delegate(`{"task":"b"}`), delegate(`{"task":"c"}`)), true
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	asked := map[string]int{}
	k.child = func(task string, _ int, _ *modeltest.Request) modeltest.Turn {
		mu.Lock()
		defer mu.Unlock()
		asked[task]++
		if len(asked) == 3 {
			cancel()
		}
		if asked[task] == 1 {
			return modeltest.Turn{Fault: &modeltest.Fault{Hang: true}}
		}
		return modeltest.Turn{Text: "Done " + task + "."}
	}
	var out bytes.Buffer
	if exit := cli.MainNoWait(ctx, []string{"run", "--output-mode", "batch", "--prompt", "Go."}, k.env(), cli.IO{In: strings.NewReader(""), Out: &out, Err: &out, Dir: k.dir}); exit != 130 {
		t.Fatalf("exit %d\n%s", exit, out.String())
	}
	if !strings.Contains(out.String(), "metier run --resume ") {
		t.Error(out.String())
	}
	for _, id := range []string{"t1.c0", "t1.c1", "t1.c2"} {
		if s := readArtifact[run.State](t, k.childFolder(id), run.FileState).Status; s != "running" {
			t.Errorf("%s is %s", id, s)
		}
	}
	k.want(0, "run", "--resume", "latest")
	for call, r := range k.outcomes() {
		if r.Status != "done" || !strings.HasPrefix(r.Summary, "Done ") {
			t.Errorf("%s: %v", call, r)
		}
	}
	if c := k.counts(); c["ended"] != 3 || c["returned "] != 3 {
		t.Errorf("%v", c)
	}
}

// If a subagent's program is killed, the subagent is told, continues, and reports it.
func TestAKilledProgramOfASubagentIsToldToIt(t *testing.T) {
	t.Parallel()
	needLinux(t)
	files := stranger()
	files["shelf/report/scripts/count.sh"] = "echo ran >>/workspace/ran.txt\nkill -KILL $$\n"
	k := newKin(t, files)
	k.parent = once(delegate(`{"profile":"counter","task":"Count."}`))
	told := ""
	k.child = func(_ string, turn int, r *modeltest.Request) modeltest.Turn {
		if turn == 0 {
			return turnOf(countCall("1"))
		}
		told = strings.Join(r.LastResults(), "")
		return modeltest.Turn{Text: "It was killed.\nFailure: other"}
	}
	k.run("--allow-skill-script", "report:scripts/count.sh")
	scripts := readArtifact[run.Scripts](t, k.childFolder("t1.c0"), run.FileScripts).Executions
	if len(scripts) != 1 || scripts[0].Signal == nil || *scripts[0].Signal != "SIGKILL" || !strings.Contains(told, "SIGKILL") || k.ran() != 1 {
		t.Errorf("%+v, told %q, ran %d times", scripts, told, k.ran())
	}
	if r := k.report("t1.c0"); r.Failure != "other" || r.Summary != "It was killed." {
		t.Error(r)
	}
}
