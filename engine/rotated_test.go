package engine_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"metier/config"
	"metier/engine"
	"metier/internal/testenv"
)

// If a secret changes during a run, the new value is kept out of the record and from the model once
// a script has received it: scripts may save it in files.
func TestRun_KeepsChangedSecretsOut(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		testenv.Skip(t, "programs run in a sandbox on Linux only")
	}
	const before, after = "desk-token-0123456789", "desk-token-9876543210"
	dir := t.TempDir()
	home, ws, shelf := filepath.Join(dir, "home"), filepath.Join(dir, "ws"), filepath.Join(dir, "shelf")
	write(t, filepath.Join(dir, "token"), before)
	write(t, filepath.Join(ws, "own.txt"), "own\n")
	write(t, filepath.Join(shelf, "desk", "SKILL.md"), "---\nname: desk\ndescription: Sign in. Use when asked.\n---\nRun scripts/sign.sh.\n")
	write(t, filepath.Join(shelf, "desk", "scripts", "sign.sh"), "echo \"The token is $TOKEN.\" > /workspace/note.txt\n")
	write(t, filepath.Join(home, ".config", "metier", "config.yaml"), "skills: [{path: "+shelf+", tier: org, label: shelf}]\nsecrets: [{skill: desk, name: TOKEN, file: "+filepath.Join(dir, "token")+"}]\n")
	write(t, filepath.Join(home, "profiles", "clerk.yaml"), "name: clerk\ndescription: Signs in.\ntools: [read_file, run_skill_script]\nskills: [desk]\nscripts: ['desk:scripts/sign.sh']\n")
	for name, turns := range map[string]string{
		"run": `
turns:
  - calls: [{tool: load_skill, args: {name: desk}}]
  - calls: [{tool: run_skill_script, args: {skill: desk, path: scripts/sign.sh}}]
  - calls: [{tool: read_file, args: {path: note.txt}}]
  - say: '{{ result "read_file" 1 }}'
`, "subagent": `
turns:
  - when: '{{ offered "delegate_task" }}'
    calls: [{tool: delegate_task, args: {profile: clerk, task: Sign in.}}]
  - when: '{{ not (offered "delegate_task") }}'
    calls: [{tool: run_skill_script, args: {skill: desk, path: scripts/sign.sh}}]
  - when: '{{ not (offered "delegate_task") }}'
    say: Signed.
  - when: '{{ offered "delegate_task" }}'
    calls: [{tool: read_file, args: {path: note.txt}}]
  - say: '{{ result "read_file" 1 }}'
`} {
		write(t, filepath.Join(dir, "token"), before)
		e := engine.New(config.NewEnv([]string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}, ws), engine.Options{})
		p, err := e.Plan(t.Context(), engine.Request{Prompt: "Sign in.", Artifacts: filepath.Join(dir, name), Batch: true, Tools: []string{"load_skill", "read_file", "run_skill_script"},
			Scripts: []string{"desk:scripts/sign.sh"}, Subagents: []string{"clerk"}, SubagentDirs: []string{filepath.Join(home, "profiles")}, Custom: engine.Custom{Model: replay(turns)}})
		if err != nil {
			t.Fatal(err)
		}
		r, err := e.Start(t.Context(), p, e.RunID(), engine.Hooks{})
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "token"), after)
		o, err := r.Drive(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(filepath.Join(ws, "note.txt")); err != nil || !strings.Contains(string(b), after) {
			t.Errorf("%s: the script left %q, %v", name, b, err)
		}
		if !strings.Contains(o.Answer, "The token is [redacted:TOKEN].") {
			t.Errorf("%s: the model read %q", name, o.Answer)
		}
		err = filepath.WalkDir(o.Dir, func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := os.ReadFile(p)
			if strings.Contains(string(b), after) {
				t.Errorf("%s: %s holds the secret", name, p)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}
