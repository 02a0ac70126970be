package run_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/event"
	"metier/internal/digest"
	"metier/model"
	"metier/policy"
	"metier/record"
	"metier/run"
)

// executed is a script of alpha that ran, with every field set.
func (a *author) executed(call string) event.ScriptExecuted {
	a.t.Helper()
	exit, sum := 3, digest.Bytes([]byte("console.log(1)\n"))
	return event.ScriptExecuted{SkillID: "skills:alpha", Name: "alpha", Source: policy.Project, Path: "scripts/count.ts", Entry: "alpha:scripts/count.ts", Tree: digest.Bytes([]byte("tree")),
		RegistryDigest: sum, ObservedDigest: sum, RegistrySize: 15, ObservedSize: 15, HostPath: "/w/skills/alpha/scripts/count.ts", Role: policy.Context, Hash: digest.Bytes([]byte("skill")),
		Execution: event.Execution{Call: call, Status: "executed", Target: "sandbox", Runtime: "deno", Argv: a.json([]string{"/usr/bin/deno", "run", "/skills/alpha/scripts/count.ts", "-x"}), Cwd: "/workspace",
			Backend: "native", Level: "L2", Network: "hosts: example.org", Hosts: []event.HostUse{{Host: "example.org", Port: 443, Method: "connect", Requests: 1, Sent: 10, Received: 20}},
			Bounds: event.Bounds{WallMS: 60000, CPUMS: 60000, Output: 1 << 20, Memory: 1 << 30, Processes: 64, FileSize: 1 << 25, Scratch: 1 << 25, ScratchFiles: 4096, OpenFiles: 256},
			Exit:   &exit, Stdout: a.blob("application/octet-stream", "one\n"), Stderr: a.blob("application/octet-stream", "two\xff\n"), StderrTruncated: true, WallMS: 41, CPUMS: 20, MaxRSS: 1 << 20,
			Notes: []string{"memory-best-effort"}}}
}

// req: A-093, C-042
func TestAScriptIsRecordedWithWhereItCameFromAndHowItEnded(t *testing.T) {
	t.Parallel()
	f := real(t)
	got := readJSON[struct{ Executions []map[string]any }](t, f, run.FileScripts).Executions
	if len(got) != 2 {
		t.Fatalf("%d executions", len(got))
	}
	sum := digest.Bytes([]byte("console.log(1)\n"))
	want := map[string]any{"outputId": "t1.c9", "runId": "real", "skillName": "alpha", "skillId": "skills:alpha", "tier": "project", "path": "scripts/count.ts", "entry": "alpha:scripts/count.ts",
		"status": "executed", "cfcPromptRole": "context", "args": []any{"-x"}, "skillDigest": digest.Bytes([]byte("skill")), "tree": digest.Bytes([]byte("tree")), "scriptPath": "/w/skills/alpha/scripts/count.ts", "registryDigest": sum,
		"observedDigest": sum, "digestMatchesRegistry": true, "registrySizeBytes": 15.0, "observedSizeBytes": 15.0, "executionTarget": "sandbox", "backend": "native", "level": "L2", "runtime": "deno",
		"argv": []any{"/usr/bin/deno", "run", "/skills/alpha/scripts/count.ts", "-x"}, "cwd": "/workspace", "network": "hosts: example.org", "refusedRequests": 0.0,
		"hosts": []any{map[string]any{"host": "example.org", "port": 443.0, "method": "connect", "requests": 1.0, "addresses": nil, "sentBytes": 10.0, "receivedBytes": 20.0}},
		"limits": map[string]any{"wallMs": 60000.0, "cpuMs": 60000.0, "outputBytes": float64(1 << 20), "memoryBytes": float64(1 << 30), "processes": 64.0, "fileBytes": float64(1 << 25),
			"scratchBytes": float64(1 << 25), "scratchFiles": 4096.0, "openFiles": 256.0},
		"exitCode": 3.0, "signal": nil, "limit": nil, "truncated": true, "wallMs": 41.0, "cpuMs": 20.0, "maxRssBytes": float64(1 << 20), "notes": []any{"memory-best-effort"},
		"stdout": map[string]any{"digest": digest.Bytes([]byte("one\n")), "sizeBytes": 4.0, "truncated": false}, "stderr": map[string]any{"digest": digest.Bytes([]byte("two\xff\n")), "sizeBytes": 5.0, "truncated": true},
		"packages":    []any{map[string]any{"call": "t1.c9", "skillId": "skills:alpha", "path": "scripts/count.ts", "runtime": "deno", "packages": []any{"lodash"}}},
		"diagnostics": []any{}, "error": nil}
	delete(want["hosts"].([]any)[0].(map[string]any), "addresses")
	if at, _ := got[0]["executedAt"].(string); !strings.HasSuffix(at, "Z") {
		t.Errorf("executed at %q", at)
	}
	delete(got[0], "executedAt")
	if d := cmp.Diff(want, got[0]); d != "" {
		t.Errorf("the script that ran (-want +got):\n%s", d)
	}
	refused := got[1]
	if at, _ := refused["executedAt"].(string); !strings.HasSuffix(at, "Z") {
		t.Errorf("refused at %q", at)
	}
	if p, _ := refused["scriptPath"].(string); !strings.HasSuffix(p, "/alpha/scripts/count.ts") {
		t.Errorf("the refused script is at %q", p)
	}
	delete(refused, "executedAt")
	delete(refused, "scriptPath")
	act := readJSON[run.Activations](t, f, run.FileActivations).Activations[0]
	for k := range got[0] {
		want[k] = nil // what nothing measured, and what is not listed below
	}
	delete(want, "scriptPath")
	maps.Copy(want, map[string]any{"outputId": "t1.c10", "runId": "real", "skillName": "alpha", "skillId": "skills:alpha", "tier": "project", "path": "scripts/count.ts", "entry": "alpha:scripts/count.ts",
		"status": "error", "cfcPromptRole": "context", "args": []any{"-x"}, "cwd": "/workspace/sub", "skillDigest": act.Digest, "tree": act.Tree,
		"registryDigest": sum, "registrySizeBytes": 15.0, "argv": []any{}, "hosts": []any{}, "notes": []any{}, "packages": []any{}, "diagnostics": []any{}, "refusedRequests": 0.0, "truncated": false,
		"error": map[string]any{"code": "script_not_allowlisted", "message": "the operator did not allow this script"}})
	if d := cmp.Diff(want, refused); d != "" {
		t.Errorf("the refusal (-want +got):\n%s", d)
	}
	for _, call := range []string{"t1.c9", "t1.c10"} {
		out := readJSON[run.Output](t, f, "tool-outputs/"+call+"-run_skill_script.json")
		if out.Script == nil || out.Script.OutputID != call || out.Command != nil {
			t.Errorf("the tool output of %s has no script: %+v", call, out.Script)
		}
	}
}

// A script that was found and did not start has its code and what was found.
//
// req: A-093
func TestProject_ShowsAScriptThatDidNotStart(t *testing.T) {
	t.Parallel()
	f, a := create(t, t.TempDir(), "unstarted", nil)
	a.open("cli-preload")
	e := a.executed("t1.c9")
	e.Status, e.Code, e.ObservedDigest, e.ObservedSize = "error", "script_snapshot_mismatch", digest.Bytes([]byte("other")), 5
	a.add(e, event.ToolResult{ID: "t1.c9", Tool: "run_skill_script", Code: e.Code, Content: a.json([]model.Part{}), Label: policy.Label{Role: policy.Context}})
	ok(t, f.Project(t.Context()))
	scripts := readJSON[run.Scripts](t, f, run.FileScripts).Executions
	if len(scripts) != 1 {
		t.Fatalf("%d executions", len(scripts))
	}
	s := scripts[0]
	want := run.Failure{Code: e.Code, Message: run.FailureText(e.Code)}
	if s.Status != "error" || s.Error == nil || *s.Error != want || *s.DigestMatchesRegistry || *s.ObservedDigest != e.ObservedDigest || *s.ObservedSizeBytes != 5 || s.ExitCode != nil || s.Stdout != nil {
		t.Errorf("%+v, error %+v", s, s.Error)
	}
}

// req: A-082
func TestATooloutputHoldsAllThatAProgramWrote(t *testing.T) {
	t.Parallel()
	f := real(t)
	script := readJSON[run.Output](t, f, "tool-outputs/t1.c9-run_skill_script.json").Script
	command := readJSON[run.Output](t, f, "tool-outputs/t1.c11-bash.json").Command
	if script == nil || command == nil {
		t.Fatal("no script, or no command")
	}
	for what, p := range map[string]run.Program{"script": script.Program, "command": command.Program} {
		if string(p.Stdout.Text) != `"one\n"` || string(p.Stderr.Text) != "\"two\uFFFD\\n\"" || !p.Stderr.Truncated || !p.Truncated {
			t.Errorf("%s wrote %s and %s", what, p.Stdout.Text, p.Stderr.Text)
		}
	}
	if *command.Backend != "native" || *command.ExitCode != 3 || command.Status != "executed" {
		t.Errorf("command %+v", command)
	}
}

// Output erased from the record is shown as a gap in the artifact, never as something else, and is
// named.
func TestErasedOutputOfAScriptIsAGap(t *testing.T) {
	t.Parallel()
	f := real(t)
	var erased []string
	for en, err := range f.Log().Read(t.Context(), 1) {
		ok(t, err)
		if en.Type == "skill.script_executed" || en.Type == "call.started" && strings.Contains(string(en.Data), "t1.c9") {
			for _, r := range en.Refs {
				erased = append(erased, r.Digest)
			}
		}
	}
	if len(erased) != 4 { // arguments, argv, stdout, stderr
		t.Fatalf("%d blobs", len(erased))
	}
	for _, d := range erased {
		ok(t, f.Blobs().(record.Eraser).Erase(t.Context(), record.Ref{Digest: d}))
	}
	ok(t, f.Project(t.Context()))
	gap := func(d string) string {
		return string(must[[]byte](t)(json.Marshal(run.Gap{Erased: true, Digest: d})))
	}
	flat := func(v any) string { return string(must[[]byte](t)(json.Marshal(v))) }
	s := readJSON[run.Scripts](t, f, run.FileScripts).Executions[0]
	if flat(s.Args) != gap(erased[0]) || flat(s.Argv) != gap(erased[1]) {
		t.Errorf("args %s, argv %s", s.Args, s.Argv)
	}
	out := readJSON[run.Output](t, f, "tool-outputs/t1.c9-run_skill_script.json").Script
	if flat(out.Stdout.Text) != gap(erased[2]) || flat(out.Stderr.Text) != gap(erased[3]) || out.Stdout.SizeBytes != 4 {
		t.Errorf("stdout %s, stderr %s", out.Stdout.Text, out.Stderr.Text)
	}
	for name, b := range files(t, f) {
		valid(t, name, b)
	}
	r := must[run.Report](t)(run.Show(t.Context(), f))
	gone := map[string]bool{}
	for _, p := range r.Problems {
		if p.Code == run.CodeContentGone {
			gone[p.On] = true
		}
	}
	if !gone[erased[0]] || !gone[erased[1]] {
		t.Errorf("problems %+v", r.Problems)
	}
}

// Every code that a script's call can end with is described in the artifacts.
func TestEveryCodeOfAScriptIsWorded(t *testing.T) {
	t.Parallel()
	code := regexp.MustCompile(`"([a-z]+(?:_[a-z]+)+)"`)
	n := 0
	for _, glob := range []string{"../exectool/*.go", "../internal/runtimes/*.go", "../policy/codes.go"} {
		for _, file := range must[[]string](t)(filepath.Glob(glob)) {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, m := range code.FindAllStringSubmatch(string(must[[]byte](t)(os.ReadFile(file))), -1) {
				if notRefusals[m[1]] {
					continue
				}
				n++
				if got := run.FailureText(m[1]); got == m[1] {
					t.Errorf("%s: no words for %s in failures.go", file, m[1])
				}
			}
		}
	}
	for _, m := range []policy.Mode{policy.EnforceExplicit, policy.EnforceStrict} {
		for _, e := range []policy.Effect{policy.Read, policy.Write, policy.SideEffect} {
			d := policy.Decide(&policy.Grants{Mode: m, Tools: []string{"bash"}}, policy.Request{Actor: policy.ByModel, Tool: "bash", Effect: e})
			if d.Outcome == policy.Deny && run.FailureText(d.Code) == d.Code {
				t.Errorf("no words for %s in failures.go", d.Code)
			}
		}
	}
	if n < 40 {
		t.Errorf("only %d codes were found", n)
	}
}

// notRefusals are words in those files that are not the end of a call.
var notRefusals = map[string]bool{"allowed_tools_note": true, "approved": true, "subagent_profile_allowed": true, "released": true, "program_output": true, "run_skill_script": true,
	"workspace_read_only": true} // a reason for path_read_only
