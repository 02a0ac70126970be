package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/config"
	"metier/engine"
	"metier/event"
	"metier/internal/testenv"
	"metier/policy"
	"metier/source/embedded"
	"metier/source/local"
)

// A custom tool that is nil or cannot be granted fails before the run starts.
func TestPlan_RefusesCustomToolsThatCannotBeGranted(t *testing.T) {
	t.Parallel()
	named := func(name string) metier.Tool {
		tool, err := metier.FuncTool(name, "Look.", policy.Read, func(context.Context, struct{}) (string, error) { return "", nil })
		if err != nil {
			t.Fatal(err)
		}
		return tool
	}
	e := engine.New(config.NewEnv([]string{"HOME=" + t.TempDir()}, t.TempDir()), engine.Options{})
	for want, tools := range map[string][]metier.Tool{
		"":                {named("look")},
		"tool_invalid":    {nil},
		"tool_name_taken": {named("mcp__desk__look")},
	} {
		_, err := e.Plan(t.Context(), engine.Request{Prompt: "Look.", Custom: engine.Custom{Tools: tools, Model: replay("turns: [{say: Done.}]")}})
		if (err == nil) != (want == "") || err != nil && metier.CodeOf(err) != want {
			t.Errorf("error %v, want code %q", err, want)
		}
	}
}

// Resume rejects them, too, and releases the record.
func TestResume_RefusesCustomToolsThatCannotBeGranted(t *testing.T) {
	t.Parallel()
	records := t.TempDir()
	e := engine.New(config.NewEnv([]string{"HOME=" + t.TempDir()}, t.TempDir()), engine.Options{})
	c := engine.Custom{Model: replay("turns: [{say: Done.}]")}
	r := finished(t, e, engine.Request{Prompt: "Look.", Artifacts: records, Batch: true, Custom: c})
	c.Tools = []metier.Tool{nil}
	if _, err := e.Resume(t.Context(), records, r.ID(), engine.ResumeOptions{Custom: c}, engine.Hooks{}); metier.CodeOf(err) != "tool_invalid" {
		t.Errorf("Resume with a nil tool: %v", err)
	}
	c.Tools = nil
	r, err := e.Resume(t.Context(), records, r.ID(), engine.ResumeOptions{Custom: c}, engine.Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// Resume moves aside what a program created while its run was killed, before skills are read.
func TestResume_CleansUpAfterKill(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		testenv.Skip(t, "programs run in a sandbox on Linux only")
	}
	home, ws, records := t.TempDir(), t.TempDir(), t.TempDir()
	e := engine.New(config.NewEnv([]string{"HOME=" + home}, ws), engine.Options{Notify: func(engine.Notice) {}})
	c := engine.Custom{Model: replay("turns: [{say: Done.}]")}
	r := finished(t, e, engine.Request{Prompt: "Look.", Artifacts: records, Batch: true, Custom: c})
	at, _ := r.Records()
	entry, err := json.Marshal(map[string]any{"workspace": at, "items": []map[string]string{{"path": ".agents"}}, "repositories": []string{}})
	if err != nil {
		t.Fatal(err)
	}
	guards := filepath.Join(home, ".local/state/metier/guards")
	if err := os.MkdirAll(guards, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(guards, "job-1.json"), append(entry, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(ws, ".agents/skills/evil"), 0o755); err != nil {
		t.Fatal(err)
	}
	r, err = e.Resume(t.Context(), records, r.ID(), engine.ResumeOptions{Custom: c}, engine.Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(ws, ".agents")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
}

// Skill folders of the embedding program are as protected from scripts as those of the operator:
// the next run would trust files placed there.
func TestRun_ProtectsFoldersOfCustomMounts(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		testenv.Skip(t, "programs run in a sandbox on Linux only")
	}
	for _, where := range []string{"shelf", "."} {
		for _, named := range []bool{true, false} {
			ws := t.TempDir()
			shelf := filepath.Join(ws, where)
			script := filepath.Join(shelf, "count", "scripts", "count.sh")
			write(t, filepath.Join(shelf, "count", "SKILL.md"), "---\nname: count\ndescription: Count. Use when asked.\n---\nCount.\n")
			write(t, script, "echo mine\n")
			src, err := local.New(shelf, nil)
			if err != nil {
				t.Fatal(err)
			}
			m := metier.Mount{Label: "shop", Tier: policy.Org, Source: src}
			if named {
				m.Root = shelf
			}
			e := engine.New(config.NewEnv([]string{"HOME=" + t.TempDir()}, ws), engine.Options{})
			turns := "turns: [{calls: [{tool: bash, args: {command: 'echo echo theirs > " + where + "/count/scripts/count.sh; mkdir " + where + "/more'}}]}, {say: Done.}]"
			p, err := e.Plan(t.Context(), engine.Request{Prompt: "Go.", Artifacts: t.TempDir(), Batch: true, Tools: []string{"bash"}, Custom: engine.Custom{Model: replay(turns), Mounts: []metier.Mount{m}}})
			if err != nil {
				t.Fatal(err)
			}
			r, err := e.Start(t.Context(), p, e.RunID(), engine.Hooks{})
			if err != nil {
				t.Fatal(err)
			}
			if o, err := r.Drive(t.Context()); err != nil || o.Answer != "Done." {
				t.Errorf("Drive: %q, %v", o.Answer, err)
			}
			if err := r.Close(t.Context()); err != nil {
				t.Error(err)
			}
			b, err := os.ReadFile(script)
			if diff := cmp.Diff("echo mine\n", string(b)); err != nil || diff != "" {
				t.Errorf("%s, root named %v: %v (-want +got):\n%s", where, named, err, diff)
			}
			if _, err := os.Lstat(filepath.Join(shelf, "more")); err == nil {
				t.Errorf("%s, root named %v: a program made a folder beside the skills", where, named)
			}
		}
	}
}

// A server serves the skill sources of the embedding program.
func TestRun_SkillsHoldCustomMounts(t *testing.T) {
	t.Parallel()
	e := engine.New(config.NewEnv([]string{"HOME=" + t.TempDir()}, t.TempDir()), engine.Options{})
	src := embedded.New(fstest.MapFS{"count/SKILL.md": {Data: []byte("---\nname: count\ndescription: Count. Use when asked.\n---\nCount.\n")}})
	p, _, err := e.PlanTools(t.Context(), engine.Request{Custom: engine.Custom{Mounts: []metier.Mount{{Label: "shop", Tier: policy.User, Source: src}}}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := e.Open(t.Context(), p, engine.Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close(t.Context())
	snap, err := r.Skills(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := snap.Find("count"); err != nil {
		t.Error(err)
	}
	s, end, err := r.Session(t.Context(), engine.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Snapshot().Find("count"); err != nil {
		t.Errorf("a session without a snapshot of its own: %v", err)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}

// A resumed run needs the model of the program that started it, and reports missing tools.
func TestResume_NamesWhatTheProgramBrought(t *testing.T) {
	t.Parallel()
	look, err := metier.FuncTool("look", "Look.", policy.Read, func(context.Context, struct{}) (string, error) { return "", nil })
	if err != nil {
		t.Fatal(err)
	}
	records := t.TempDir()
	e := engine.New(config.NewEnv([]string{"HOME=" + t.TempDir()}, t.TempDir()), engine.Options{})
	m := replay("turns: [{say: One.}, {say: Two.}]")
	r := finished(t, e, engine.Request{Prompt: "Look.", Artifacts: records, Batch: true, Custom: engine.Custom{Model: m, Tools: []metier.Tool{look}}})
	_, err = e.Resume(t.Context(), records, r.ID(), engine.ResumeOptions{Prompt: "Again."}, engine.Hooks{})
	if metier.CodeOf(err) != "model_custom" {
		t.Errorf("without the model: %v, want model_custom", err)
	}
	_, err = e.Resume(t.Context(), records, r.ID(), engine.ResumeOptions{Prompt: "Again.", Custom: engine.Custom{Model: m, Tools: []metier.Tool{nil}}}, engine.Hooks{})
	if metier.CodeOf(err) != "tool_invalid" {
		t.Errorf("with a nil tool: %v, want tool_invalid", err)
	}
	var codes []string
	r, err = e.Resume(t.Context(), records, r.ID(), engine.ResumeOptions{Prompt: "Again.", Custom: engine.Custom{Model: m}}, engine.Hooks{Notify: func(n engine.Notice) { codes = append(codes, n.Code) }})
	if err != nil {
		t.Fatal(err)
	}
	if o, err := r.Drive(t.Context()); err != nil || o.Answer != "Two." {
		t.Errorf("Drive: %q, %v", o.Answer, err)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"tool_unknown"}, codes); diff != "" {
		t.Errorf("notices (-want +got):\n%s", diff)
	}
}

// A policy file's rule can name a custom tool and deny it.
func TestPlan_PolicyFilesNameCustomTools(t *testing.T) {
	t.Parallel()
	called := false
	look, err := metier.FuncTool("look", "Look.", policy.Read, func(context.Context, struct{}) (string, error) { called = true; return "", nil })
	if err != nil {
		t.Fatal(err)
	}
	rules := filepath.Join(t.TempDir(), "policy.yaml")
	write(t, rules, "version: 1\nrules: [{deny: look}]\n")
	e := engine.New(config.NewEnv([]string{"HOME=" + t.TempDir()}, t.TempDir()), engine.Options{})
	q := engine.Request{Prompt: "Look.", Artifacts: t.TempDir(), Batch: true, Policies: []string{rules}, Custom: engine.Custom{Model: replay("turns: [{calls: [{tool: look, args: {}}]}, {say: Done.}]"), Tools: []metier.Tool{look}}}
	_, o := driven(t, e, q)
	if called {
		t.Error("a denied tool was called")
	}
	if diff := cmp.Diff([]event.Denial{{Tool: "look", Code: "rule_denied", Count: 1}}, o.Denied); diff != "" {
		t.Errorf("denied calls (-want +got):\n%s", diff)
	}
	q.Custom.Tools = nil
	if _, err := e.Plan(t.Context(), q); metier.CodeOf(err) != "policy_file_invalid" {
		t.Errorf("without the tool: %v, want policy_file_invalid", err)
	}
}

// A resumed run needs the sandbox of the program that started it: metier does not run its
// programs with another isolation.
func TestResume_NeedsTheSandboxOfTheProgram(t *testing.T) {
	t.Parallel()
	records := t.TempDir()
	e := engine.New(config.NewEnv([]string{"HOME=" + t.TempDir()}, t.TempDir()), engine.Options{})
	own := engine.Custom{Model: replay("turns: [{say: One.}, {say: Two.}]"), Sandbox: remote{}}
	q := engine.Request{Prompt: "Go.", Artifacts: records, Batch: true, Tools: []string{"bash"}, Custom: own}
	r := finished(t, e, q)
	_, err := e.Resume(t.Context(), records, r.ID(), engine.ResumeOptions{Prompt: "Again.", Custom: engine.Custom{Model: own.Model}}, engine.Hooks{})
	if diff := cmp.Diff("sandbox_custom", metier.CodeOf(err)); diff != "" {
		t.Errorf("without the sandbox: %v (-want +got):\n%s", err, diff)
	}
	r, err = e.Resume(t.Context(), records, r.ID(), engine.ResumeOptions{Prompt: "Again.", Custom: own}, engine.Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
	q.Sandbox = engine.BackendNative
	_, err = e.Plan(t.Context(), q)
	if diff := cmp.Diff("usage", metier.CodeOf(err)); diff != "" {
		t.Errorf("two sandboxes: %v (-want +got):\n%s", err, diff)
	}
}

// finished drives the run of a request to its end, and closes it.
func finished(t *testing.T, e *engine.Engine, q engine.Request) *engine.Run {
	t.Helper()
	r, _ := driven(t, e, q)
	return r
}

// driven does the same, and also returns the outcome.
func driven(t *testing.T, e *engine.Engine, q engine.Request) (*engine.Run, engine.Outcome) {
	t.Helper()
	p, err := e.Plan(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	r, err := e.Start(t.Context(), p, e.RunID(), engine.Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	o, err := r.Drive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r, o
}
