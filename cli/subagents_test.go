package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"metier/cli"
	"metier/internal/testenv"
	"metier/model/modeltest"
	"metier/run"
)

// kin is a workspace whose model starts subagents: the answer to a request
// depends on who asks.
type kin struct {
	t         *testing.T
	dir, home string
	server    *modeltest.Server
	mu        sync.Mutex
	beside    bool // child is called for several requests in parallel
	parent    func(turn int, r *modeltest.Request) modeltest.Turn
	child     func(task string, turn int, r *modeltest.Request) modeltest.Turn
	main      func(ctx context.Context, args, env []string, std cli.IO) int
	out, err  bytes.Buffer
}

const helperWords = "You are a subagent of another agent."

func newKin(t *testing.T, files map[string]string) *kin {
	t.Helper()
	k := &kin{t: t, dir: t.TempDir(), home: t.TempDir(), server: modeltest.OpenAI(t), main: cli.MainNoWait}
	k.write(files)
	k.server.Answer(func(r *modeltest.Request) modeltest.Turn {
		turn := 0
		for _, m := range r.Messages {
			if m.Role == "assistant" {
				turn++
			}
		}
		helper := strings.Contains(r.System, helperWords)
		k.mu.Lock()
		parent, child := k.parent, k.child
		if helper && k.beside {
			k.mu.Unlock()
		} else {
			defer k.mu.Unlock()
		}
		if helper {
			return child(taskOf(r), turn, r)
		}
		return parent(turn, r)
	})
	return k
}

// taskOf returns the task of a subagent: the last message of its user.
func taskOf(r *modeltest.Request) string {
	task := ""
	for _, m := range r.Messages {
		if m.Role == "user" {
			task = m.Text
		}
	}
	return task
}

func (k *kin) write(files map[string]string) {
	k.t.Helper()
	putFiles(k.t, k.dir, files)
}

// configIn returns the configuration file in a folder, or an empty one if the test has none.
func configIn(dir string) string {
	file := filepath.Join(dir, "config.yaml")
	if _, err := os.Stat(file); err != nil {
		return os.DevNull
	}
	return file
}

func (k *kin) env() []string {
	k.mu.Lock() // the test sets what a request of another process is answered with
	defer k.mu.Unlock()
	return []string{"HOME=" + k.home, "USER=ada", "OPENAI_BASE_URL=" + k.server.URL, "OPENAI_API_KEY=" + modeltest.Key, "METIER_MODEL=openai:stand-in",
		"METIER_CONFIG=" + configIn(k.dir), "PATH=" + os.Getenv("PATH")}
}

// metier runs the command in this process.
func (k *kin) metier(args ...string) (exit int) {
	k.t.Helper()
	k.out.Reset()
	k.err.Reset()
	return k.main(k.t.Context(), args, k.env(), cli.IO{In: strings.NewReader(""), Out: &k.out, Err: &k.err, Dir: k.dir})
}

// run starts a run that has to succeed.
func (k *kin) run(args ...string) {
	k.t.Helper()
	if exit := k.metier(append([]string{"run", "--output-mode", "batch", "--prompt", "Go."}, args...)...); exit != 0 {
		k.t.Fatalf("exit %d\n%s%s", exit, k.out.String(), k.err.String())
	}
}

// folder is the folder of the newest run.
func (k *kin) folder() string {
	k.t.Helper()
	match, err := filepath.Glob(filepath.Join(k.dir, ".metier", "runs", "*", "events.jsonl"))
	if err != nil || len(match) == 0 {
		k.t.Fatalf("no run: %v", err)
	}
	return filepath.Dir(slices.Max(match))
}

func (k *kin) childFolder(id string) string { return filepath.Join(k.folder(), "children", id) }

// report returns the report of a delegate_task call.
func (k *kin) report(call string) (r report) {
	k.t.Helper()
	out := readArtifact[run.Output](k.t, k.folder(), "tool-outputs/"+call+"-delegate_task.json")
	if err := json.Unmarshal(out.Detail, &r); err != nil && out.Code == "" {
		k.t.Fatalf("%s: %v", out.Detail, err)
	}
	r.Code = out.Code
	return r
}

type report struct {
	Profile, Run, Status, Failure, Summary, Handle, Code string
	Skills, Files                                        []string
	Output                                               json.RawMessage
	Turns, Withheld                                      int
	Tokens                                               int64
	Cut                                                  bool
}

// String keeps the output of a failing test readable.
func (r report) String() string {
	type plain report
	b, err := json.Marshal(plain(r))
	if err != nil {
		return err.Error()
	}
	return string(b[:min(len(b), 1500)])
}

// holding returns the files of a folder that contain a text, with or without
// children/.
func holding(t *testing.T, dir, text string, children bool) (out []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, p) // below dir
		if d.IsDir() {
			if d.Name() == "children" && !children {
				return fs.SkipDir
			}
			return nil
		}
		b, err := os.ReadFile(p)
		if bytes.Contains(bytes.ToLower(b), []byte(strings.ToLower(text))) || strings.Contains(p, text) {
			out = append(out, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func delegate(args string) modeltest.Call { return modeltest.Call{Tool: "delegate_task", Args: args} }

func turnOf(calls ...modeltest.Call) modeltest.Turn { return modeltest.Turn{Calls: calls} }

// once is a parent that makes its calls and then ends.
func once(calls ...modeltest.Call) func(int, *modeltest.Request) modeltest.Turn {
	return func(turn int, _ *modeltest.Request) modeltest.Turn {
		if turn == 0 {
			return turnOf(calls...)
		}
		return modeltest.Turn{Text: "Parent done."}
	}
}

func needLinux(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		testenv.Skip(t, "programs run in a sandbox on Linux only")
	}
}

// canaries are marks, each in one place of a subagent's run.
var canaries = map[string]string{
	"body": "BODY-CANARY-7f3a9c2e1b", "resource": "DEEP-CANARY-88aa12cd34", "stdout": "OUT-CANARY-1a2b3c4d5e", "stderr": "ERR-CANARY-5e6f7a8b9c",
	"failure": "FAIL-CANARY-0d1e2f3a4b", "file": "FILE-CANARY-6c7d8e9fa0", "path": "PATH-CANARY-b1c2d3e4f5", "middle": "MID-CANARY-2b4d6f8a0c",
}

func secretSkill() map[string]string {
	return map[string]string{
		"skills/secret/SKILL.md": "---\nname: secret\ndescription: Counts things. Use when something is to be counted.\n---\nThe mark is " + canaries["body"] + ".\nWrite a file " + canaries["file"] +
			".txt.\nThis sentence of the instructions is long enough to be told from any other one.\n",
		"skills/secret/references/deep.md":                     "Deep mark: " + canaries["resource"] + "\n",
		"skills/secret/references/" + canaries["path"] + ".md": "nothing\n",
		"skills/secret/scripts/leak.sh":                        "#!/bin/sh\necho 'key=" + canaries["stdout"] + "'; printf '%60000s' ''; echo '" + canaries["middle"] + "'; printf '%60000s' ''; echo " + canaries["stderr"] + " >&2\n",
		"skills/open/SKILL.md":                                 "---\nname: open\ndescription: Greets. Use when somebody is greeted.\n---\nThe parent's own words.\n",
		"subs/worker.yaml": "name: worker\ndescription: Counts.\nskills: [secret, gone]\nscripts: [\"secret:scripts/leak.sh\"]\n" +
			"tools: [inherit, run_skill_script, read_skill_resource, write_file]\nmax_turns: 6\n",
	}
}

// keepsIn checks that the marks are in the subagents' records, and that none is in
// their parent's record, in its model's requests or in the output of the command.
func (k *kin) keepsIn(requests []string) {
	t := k.t
	t.Helper()
	own := k.folder()
	for name, c := range canaries {
		at := holding(t, own, c, false)
		if name == "path" { // the parent may know the names of a skill's files: it saw the skill
			at = slices.DeleteFunc(at, func(f string) bool { return f == "skill-registry.json" || strings.HasPrefix(f, "blobs/") })
		}
		if len(at) > 0 {
			t.Errorf("the mark of its %s is in the parent's %q", name, at)
		}
		for _, r := range requests {
			if strings.Contains(strings.ToLower(r), strings.ToLower(c)) {
				t.Errorf("the mark of its %s was told to the parent's model", name)
			}
		}
		if shown := k.out.String() + k.err.String(); strings.Contains(strings.ToLower(shown), strings.ToLower(c)) {
			t.Errorf("the mark of its %s is in the output of the command:\n%s", name, shown)
		}
	}
	for name, want := range map[string][]string{"t1.c0": {"body", "resource", "stdout", "stderr", "file", "path", "middle"}, "t1.c3": {"failure"}} {
		for _, c := range want {
			if at := holding(t, k.childFolder(name), canaries[c], true); len(at) == 0 || c != "failure" && !slices.ContainsFunc(at, func(f string) bool { return strings.HasSuffix(f, ".json") }) {
				t.Errorf("%s: the mark of its %s is in no artifact of its own: %q", name, c, at)
			}
		}
	}
}

// req
func TestNothingOfASubagentButItsReportReachesItsParent(t *testing.T) {
	t.Parallel()
	needLinux(t)
	k := newKin(t, secretSkill())
	var requests []string
	k.parent = func(turn int, r *modeltest.Request) modeltest.Turn {
		requests = append(requests, string(r.Body))
		switch turn {
		case 0:
			return turnOf(delegate(`{"profile":"worker","task":"Count it."}`), delegate(`{"profile":"worker","task":"Count it as JSON.","output_schema":{"type":"object"}}`),
				delegate(`{"profile":"worker","task":"Fail."}`), delegate(`{"profile":"worker","task":"Break."}`))
		case 1:
			return turnOf(modeltest.Call{Tool: "describe_handle", Args: `{"handle":"t1.c0"}`})
		}
		return modeltest.Turn{Text: "Parent done: " + strings.Join(r.LastResults(), "\n")}
	}
	k.child = func(task string, turn int, r *modeltest.Request) modeltest.Turn {
		if task == "Break." {
			return modeltest.Turn{Fault: &modeltest.Fault{Status: 400, Message: "no: " + canaries["failure"]}}
		}
		if turn == 0 {
			look := modeltest.Call{Tool: "read_skill_resource", Args: `{"skill":"secret","path":"references/deep.md"}`}
			switch task { // a skill's file is the same whatever tool reads it
			case "Count it as JSON.":
				look = modeltest.Call{Tool: "read_file", Args: `{"path":"skills/secret/references/deep.md"}`}
			case "Fail.":
				look = modeltest.Call{Tool: "search_files", Args: `{"path":"skills/secret/references","pattern":"mark"}`}
			}
			return turnOf(look,
				modeltest.Call{Tool: "run_skill_script", Args: `{"skill":"secret","path":"scripts/leak.sh"}`},
				modeltest.Call{Tool: "write_file", Args: `{"path":"` + canaries["file"] + `.txt","content":"x"}`})
		}
		for _, c := range []string{"resource", "stdout", "stderr"} {
			if !strings.Contains(strings.Join(r.LastResults(), "\n"), canaries[c]) {
				t.Errorf("the subagent did not see the mark of its %s", c)
			}
		}
		// It repeats everything it saw, unchanged and in other letters.
		all := r.System + "\n" + strings.Join(r.LastResults(), "\n")
		for _, m := range r.Messages {
			all += "\n" + m.Text
		}
		all = strings.ReplaceAll(all, strings.Repeat(" ", 100), "") + "\n" + canaries["middle"] // it could know that from a file of the script
		all = strings.ReplaceAll(all+"\n"+strings.ToLower(all), helperWords, "")
		switch task {
		case "Count it as JSON.":
			b, err := json.Marshal(map[string]any{all: []any{all, 9007199254740993}, "n": 12})
			if err != nil {
				t.Error(err)
			}
			return modeltest.Turn{Text: string(b)}
		case "Fail.":
			return modeltest.Turn{Text: "I could not: " + all + "\nFailure: " + canaries["body"]}
		}
		return modeltest.Turn{Text: "Counted: 12. " + all}
	}
	k.run("--skills-root", "skills", "--subagent-profiles", "subs", "--allow-subagent-profile", "worker", "--allow-skill-script", "secret:scripts/leak.sh", "--allow-tool", "default", "--skill", "open")
	k.keepsIn(requests)
	own := k.folder()
	acts := readArtifact[run.Activations](t, k.childFolder("t1.c0"), run.FileActivations).Activations
	scripts := readArtifact[run.Scripts](t, k.childFolder("t1.c0"), run.FileScripts).Executions
	reads := readArtifact[run.Reads](t, k.childFolder("t1.c0"), run.FileReads).Reads
	if len(reads) != 1 || reads[0].SkillName != "secret" || reads[0].Path != "references/deep.md" {
		t.Errorf("reads of the subagent: %+v", reads)
	}
	if got := readArtifact[run.Reads](t, own, run.FileReads).Reads; len(got) != 0 {
		t.Errorf("reads of the parent: %+v", got)
	}
	if len(acts) != 1 || acts[0].Name != "secret" || len(scripts) != 1 || scripts[0].Status != "executed" || *scripts[0].ExecutionTarget != "sandbox" {
		t.Errorf("artifacts of the subagent: %+v, %+v", acts, scripts)
	}
	if got := readArtifact[run.Activations](t, own, run.FileActivations).Activations; len(got) != 1 || got[0].Name != "open" {
		t.Errorf("activations of the parent: %+v", got)
	}
	if got := readArtifact[run.Scripts](t, own, run.FileScripts).Executions; len(got) != 0 {
		t.Errorf("executions of the parent: %+v", got)
	}
	if r := k.report("t1.c0"); r.Status != "done" || !strings.HasPrefix(r.Summary, "Counted: 12. ") || r.Withheld < 5 || len(r.Files) != 1 || !strings.Contains(r.Files[0], "withheld") {
		t.Error(r)
	}
	if r := k.report("t1.c1"); !strings.Contains(string(r.Output), "9007199254740993") || !regexp.MustCompile(`"n":\s*12\b`).Match(r.Output) || r.Withheld < 5 {
		t.Error(r)
	}
	if r := k.report("t1.c3"); r.Status != "failed" || r.Failure != "other" || r.Code != "subagent_failed" || r.Summary != "" {
		t.Error(r)
	}
	if exit := k.metier("audit", "verify", "latest"); exit != 0 {
		t.Errorf("verify: exit %d\n%s%s", exit, k.out.String(), k.err.String())
	}
}
