package cli_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"metier/cli"
	"metier/event"
	"metier/internal/testenv"
	"metier/model/modeltest"
	"metier/record"
	"metier/run"
)

// scriptSkills is a workspace with skills that have scripts.
var scriptSkills = map[string]string{
	"skills/count/SKILL.md":           "---\nname: count\ndescription: Use when something is counted.\n---\nRun scripts/count.sh.\n",
	"skills/count/references/note.md": "a note\n",
	"skills/count/scripts/count.sh":   "#!/bin/bash\nprintf '%s\\n' \"counted $1\"; seq 1 20000; echo odd >&2\n",
	"skills/count/scripts/bad.sh":     "#!/bin/bash\nexit 3\n",
	"skills/count/scripts/killed.sh":  "#!/bin/bash\nkill -KILL $$\n",
	"skills/count/scripts/slow.sh":    "#!/bin/bash\nsleep 60\n",
	"skills/count/scripts/data.bin":   "data",
	"skills/count/scripts/late.sh":    "#!/bin/bash\necho as indexed\n",
	"skills/idle/SKILL.md":            "---\nname: idle\ndescription: Use when nothing is done.\n---\nNothing.\n",
	"skills/idle/scripts/x.sh":        "#!/bin/bash\n",
}

// scriptCall is a call of the model and its expected result.
type scriptCall struct {
	tool, args string
	code       string // of the call
	status     string // of the script record; "" for other tools
}

var scriptTurns = [][]scriptCall{
	{{"run_skill_script", `{"skill":"count","path":"scripts/count.sh"}`, "skill_activations_missing", "error"}},
	{{"load_skill", `{"name":"count"}`, "", ""}, {"load_skill", `{"name":"nobody"}`, "skill_not_found", ""}},
	{
		{"read_skill_resource", `{"skill":"count","path":"references/note.md"}`, "", ""},
		{"read_skill_resource", `{"skill":"count","path":"references/none.md"}`, "resource_not_found", ""},
		{"run_skill_script", `{"skill":"count","path":"scripts/count.sh","args":["a b","$HOME"]}`, "", "executed"},
		{"run_skill_script", `{"skill":"count","path":"scripts/bad.sh"}`, "script_failed", "executed"},
		{"run_skill_script", `{"skill":"count","path":"scripts/killed.sh"}`, "script_failed", "executed"},
		{"run_skill_script", `{"skill":"count","path":"scripts/slow.sh","timeoutMs":2000}`, "script_limit", "executed"},
		{"run_skill_script", `{"skill":"count","path":"../count.sh"}`, "script_path_invalid", "error"},
		{"run_skill_script", `{"skill":"nobody","path":"scripts/count.sh"}`, "skill_not_found", "error"},
		{"run_skill_script", `{"skill":"idle","path":"scripts/x.sh"}`, "skill_not_activated", "error"},
		{"run_skill_script", `{"skill":"count","path":"scripts/gone.sh"}`, "script_not_allowlisted", "error"},
		{"run_skill_script", `{"skill":"count","path":"scripts/data.bin"}`, "unsupported_runtime", "error"},
		{"run_skill_script", `{"skill":"count","path":"scripts/count.sh","cwd":"/etc"}`, "cwd_outside", "error"},
		{"run_skill_script", `{"skill":"count","path":"scripts/count.sh","more":1}`, "invalid_arguments", "error"},
		{"bash", `{"command":"printf 'from bash'; exit 4"}`, "script_failed", ""},
	},
	{{"run_skill_script", `{"skill":"count","path":"scripts/late.sh"}`, "script_snapshot_mismatch", "error"}},
}

// realRun runs the turns with a provider's stand-in and a real sandbox. A
// script changes before the last turn.
func realRun(t *testing.T, more ...string) (folder string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		testenv.Skip(t, "programs run in a sandbox on Linux only")
	}
	ws := t.TempDir()
	putFiles(t, ws, scriptSkills)
	server, err := modeltest.New("openai")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	var n atomic.Int64
	server.Answer(func(*modeltest.Request) modeltest.Turn {
		i := int(n.Add(1)) - 1
		if i == len(scriptTurns)-1 {
			if err := os.WriteFile(filepath.Join(ws, "skills", "count", "scripts", "late.sh"), []byte("#!/bin/bash\necho changed\n"), 0o644); err != nil {
				t.Error(err)
			}
		}
		if i >= len(scriptTurns) {
			return modeltest.Turn{Text: "Done."}
		}
		var out modeltest.Turn
		for _, c := range scriptTurns[i] {
			out.Calls = append(out.Calls, modeltest.Call{Tool: c.tool, Args: c.args})
		}
		return out
	})
	args := []string{"run", "--skills-root", "skills", "--prompt", "Count.", "--model", "openai:test", "--artifact-root", filepath.Join(ws, "runs")}
	for _, name := range []string{"run_skill_script", "bash", "load_skill", "read_skill_resource"} {
		args = append(args, "--allow-tool", name)
	}
	for _, name := range []string{"count:scripts/count.sh", "count:scripts/bad.sh", "count:scripts/killed.sh", "count:scripts/slow.sh", "count:scripts/data.bin", "count:scripts/late.sh", "idle:scripts/x.sh"} {
		args = append(args, "--allow-skill-script", name)
	}
	env := append([]string{"HOME=" + filepath.Join(ws, "home"), "OPENAI_BASE_URL=" + server.URL, "OPENAI_API_KEY=" + modeltest.Key, "METIER_CONFIG=" + os.DevNull, "PATH=" + os.Getenv("PATH")}, more...)
	var out, errs bytes.Buffer
	if code := cli.MainNoWait(t.Context(), args, env, cli.IO{In: strings.NewReader(""), Out: &out, Err: &errs, Dir: ws}); code != 0 {
		t.Fatalf("exit %d\n%s\n%s", code, out.Bytes(), errs.Bytes())
	}
	match, err := filepath.Glob(filepath.Join(ws, "runs", "2*"))
	if err != nil || len(match) != 1 {
		t.Fatalf("%v, %v", match, err)
	}
	return match[0]
}

func readArtifact[T any](t *testing.T, folder, name string) (v T) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	fitsSchema(t, name, run.Schema(name), b)
	return v
}

func fitsSchema(t *testing.T, name string, raw, doc []byte) {
	t.Helper()
	if raw == nil {
		t.Fatalf("no schema of %s", name)
	}
	var s jsonschema.Schema
	var v any
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(doc, &v); err != nil {
		t.Fatal(err)
	}
	r, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Validate(v); err != nil {
		t.Errorf("%s does not validate: %v\n%s", name, err, doc)
	}
}

// wantedCalls are the calls of scriptTurns by their ids.
func wantedCalls() map[string]scriptCall {
	out := map[string]scriptCall{}
	for turn, calls := range scriptTurns {
		for i, c := range calls {
			out[fmt.Sprintf("t%d.c%d", turn+1, i)] = c
		}
	}
	return out
}

// req
func TestArtifactsAloneListWhatARunActivatedReadAndRan(t *testing.T) {
	t.Parallel()
	folder := realRun(t)
	for _, name := range []string{"events.jsonl", "blobs"} { // from here on only the artifacts are used
		if err := os.RemoveAll(filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	wanted := wantedCalls()
	acts := readArtifact[run.Activations](t, folder, run.FileActivations).Activations
	if len(acts) != 1 || acts[0].SkillID != "project:count" || acts[0].OutputID != "t2.c0" {
		t.Errorf("activations %+v", acts)
	}
	reads := map[string]string{}
	for _, r := range readArtifact[run.Reads](t, folder, run.FileReads).Reads {
		reads[r.OutputID] = r.Path + " " + r.Status
	}
	if d := cmp.Diff(map[string]string{"t3.c0": "references/note.md read", "t3.c1": "references/none.md error"}, reads); d != "" {
		t.Error(d)
	}
	scripts := map[string]run.Script{}
	for _, s := range readArtifact[run.Scripts](t, folder, run.FileScripts).Executions {
		if _, twice := scripts[s.OutputID]; twice {
			t.Errorf("%s is listed twice", s.OutputID)
		}
		scripts[s.OutputID] = s
	}
	ended := map[string]string{}
	for id, c := range wanted {
		out := readArtifact[run.Output](t, folder, "tool-outputs/"+id+"-"+c.tool+".json")
		if out.Code != c.code || out.ToolID != c.tool {
			t.Errorf("%s %s ended with %q, want %q", id, c.tool, out.Code, c.code)
		}
		s, listed := scripts[id]
		if listed != (c.status != "") || (out.Script != nil) != listed {
			t.Errorf("%s %s: listed %v, in its output %v", id, c.tool, listed, out.Script != nil)
			continue
		}
		delete(scripts, id)
		if !listed {
			continue
		}
		if s.Status != c.status || out.Script.Status != c.status || c.status == "error" && (s.Error == nil || s.Error.Code != c.code || s.Error.Message == "" || s.Error.Message == c.code) {
			t.Errorf("%s: %s, %+v", id, s.Status, s.Error)
		}
		if c.status == "executed" {
			ended[s.Path] = ending(s)
			if want := filepath.ToSlash(filepath.Join(filepath.Dir(filepath.Dir(folder)), "skills", "count", s.Path)); s.ScriptPath == nil || filepath.ToSlash(*s.ScriptPath) != want {
				t.Errorf("%s lies at %v, want %s", s.Path, s.ScriptPath, want)
			}
			if *s.Backend != "native" || *s.Level != "L2" || *s.Network != "none" || *s.ExecutionTarget != "sandbox" || *s.Runtime != "bash" || *s.Cwd != "/workspace" || *s.SkillDigest != acts[0].Digest || *s.Tree != acts[0].Tree {
				t.Errorf("%s: %+v", id, s)
			}
		}
	}
	if len(scripts) != 0 {
		t.Errorf("listed and never called: %v", scripts)
	}
	if d := cmp.Diff(map[string]string{"scripts/count.sh": "0", "scripts/bad.sh": "3", "scripts/killed.sh": "SIGKILL", "scripts/slow.sh": "wall"}, ended); d != "" {
		t.Error(d)
	}
	allThatWasWritten(t, folder)
}

// allThatWasWritten checks the outputs of a script and of a command.
func allThatWasWritten(t *testing.T, folder string) {
	t.Helper()
	count := readArtifact[run.Output](t, folder, "tool-outputs/t3.c2-run_skill_script.json").Script
	var all strings.Builder
	all.WriteString("counted a b\n")
	for i := range 20_000 {
		fmt.Fprintln(&all, i+1)
	}
	if textOf(t, count.Stdout) != all.String() || textOf(t, count.Stderr) != "odd\n" || count.Truncated {
		t.Errorf("stdout %.40q…, stderr %q", textOf(t, count.Stdout), textOf(t, count.Stderr))
	}
	var argv, args []string
	if err := errors.Join(json.Unmarshal(count.Argv, &argv), json.Unmarshal(count.Args, &args)); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(args, []string{"a b", "$HOME"}) || len(argv) < 3 || !slices.Equal(argv[len(argv)-2:], args) {
		t.Errorf("args %q, argv %q", args, argv)
	}
	bash := readArtifact[run.Output](t, folder, "tool-outputs/t3.c13-bash.json").Command
	if bash == nil || textOf(t, bash.Stdout) != "from bash" || *bash.ExitCode != 4 || *bash.Backend != "native" {
		t.Errorf("bash: %+v", bash)
	}
}

func ending(s run.Script) string {
	switch {
	case s.Limit != nil:
		return *s.Limit
	case s.Signal != nil:
		return *s.Signal
	}
	return fmt.Sprint(*s.ExitCode)
}

func textOf(t *testing.T, s *run.Stream) (text string) {
	t.Helper()
	if s == nil || json.Unmarshal(s.Text, &text) != nil {
		t.Fatalf("no text: %+v", s)
	}
	return text
}

// entriesOf returns the entries of a run's record.
func entriesOf(t *testing.T, folder string) (entries []record.Entry) {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(folder, "events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(log) {
		var en record.Entry
		if err := json.Unmarshal(line, &en); err != nil {
			t.Fatal(err)
		}
		entries = append(entries, en)
	}
	return entries
}

// req: C-048, C-061, A-191
func TestTheFourEventsOfSkillsAreInTheRecordInTheirOrder(t *testing.T) {
	t.Parallel()
	at, sources := map[string][]int{}, map[string]bool{}
	for i, en := range entriesOf(t, realRun(t)) {
		at[en.Type] = append(at[en.Type], i)
		if s := event.Schema(en.Type); s != nil {
			fitsSchema(t, en.Type, s, en.Data)
		}
		var d struct {
			Source  string
			Sources []event.Found
		}
		if err := json.Unmarshal(en.Data, &d); err != nil {
			t.Fatal(err)
		}
		for _, f := range d.Sources {
			d.Source = string(f.Source)
		}
		sources[en.Type+" "+d.Source] = true
	}
	for _, name := range []string{"skill.discovered", "skill.activated", "skill.resource_read", "skill.script_executed"} {
		if len(at[name]) == 0 {
			t.Fatalf("no entry %s", name)
		}
		if event.Schema(name) == nil || !sources[name+" project"] {
			t.Errorf("%s has no schema, or does not say the tier: %v", name, sources)
		}
	}
	if got := []int{len(at["skill.activated"]), len(at["skill.resource_read"]), len(at["skill.script_executed"])}; !slices.Equal(got, []int{1, 2, 4}) {
		t.Errorf("%v activations, reads and executions, want 1, 2 and 4", got) // including those that failed
	}
	if len(at["skill.staged"]) != 1 || len(at["command.executed"]) != 1 {
		t.Fatalf("entries %v", at)
	}
	if !(at["skill.discovered"][0] < at["skill.staged"][0] && at["skill.staged"][0] < at["skill.activated"][0] && at["skill.activated"][0] < at["skill.script_executed"][0]) {
		t.Errorf("the order is not discovered, staged, activated, run: %v", at)
	}
}

// Every turn, tool call, and script names the digests of the active instructions.
//
// req: C-088
func TestTurnsToolsAndScriptsNameTheDigestsOfSkills(t *testing.T) {
	t.Parallel()
	folder := realRun(t)
	hash, seen := "", map[string]int{}
	for _, en := range entriesOf(t, folder) {
		var d struct {
			Hash, Stage string
			Active      []event.SkillRef
		}
		if err := json.Unmarshal(en.Data, &d); err != nil {
			t.Fatal(err)
		}
		switch en.Type {
		case "skill.activated":
			hash = d.Hash
			continue
		case "skill.script_executed":
			d.Active = []event.SkillRef{{Digest: d.Hash}}
		case "call.started", "call.returned", "policy.decided":
		default:
			continue
		}
		if hash == "" || en.Type == "call.returned" && len(d.Active) == 0 && seen[en.Type] == 0 { // the result that brought it
			continue
		}
		seen[en.Type]++
		if len(d.Active) != 1 || d.Active[0].Digest != hash {
			t.Errorf("entry %d, %s, names %v, want %s", en.Seq, en.Type, d.Active, hash)
		}
	}
	if seen["skill.script_executed"] != 4 || seen["call.started"] < 6 || seen["call.returned"] < 14 || seen["policy.decided"] < 14 {
		t.Errorf("looked at %v", seen)
	}
	for _, turn := range readArtifact[run.Transcript](t, folder, run.FileTranscript).Turns {
		if want := turn.Turn > 2; want != (len(turn.ActiveSkills) == 1) || want && turn.ActiveSkills[0].Digest != hash {
			t.Errorf("turn %d names %v", turn.Turn, turn.ActiveSkills)
		}
	}
}
