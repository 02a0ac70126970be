package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"metier/internal/testenv"

	"github.com/google/go-cmp/cmp"
)

// project is a workspace with the skill job and its scripts: wait.sh waits for
// the file go, and plant.sh tries to create each of its arguments.
type project struct {
	t         *testing.T
	dir, home string
}

const waitScript = "ls -A; echo ready; until [ -e go ]; do sleep 0.02; done\n"

const plantScript = `for p in "$@"; do mkdir -p "$p" && echo "---" > "$p/SKILL.md"; done; sleep 1; echo survived
`

func newProject(t *testing.T) *project {
	if runtime.GOOS != "linux" {
		testenv.Skip(t, "the native sandbox needs Linux")
	}
	p := &project{t, t.TempDir(), t.TempDir()}
	p.write("skills/job/SKILL.md", "---\nname: job\ndescription: Use it.\n---\n")
	p.write("skills/job/scripts/wait.sh", waitScript)
	p.write("skills/job/scripts/plant.sh", plantScript)
	p.write("sub/notes.txt", "n\n")
	return p
}

func (p *project) write(name, text string) {
	p.t.Helper()
	name = filepath.Join(p.dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// command is metier, killed at a point if at is not 0.
func (p *project) command(at int, args ...string) *exec.Cmd {
	c := exec.CommandContext(p.t.Context(), os.Args[0], args...)
	c.Dir = p.dir
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.home, "METIER_CONFIG_DIR=" + p.home, fmt.Sprintf("%s=%d", killAt, at)}
	return c
}

func execArgs(script string, args ...string) []string {
	return append([]string{"exec", "--skills-root", "skills", "--allow-skill-script", "job:scripts/" + script, "job", "scripts/" + script, "--"}, args...)
}

// list runs metier list, which has to work whatever runs at the same time.
func (p *project) list() string {
	p.t.Helper()
	out, err := p.command(0, "list").CombinedOutput()
	if err != nil {
		p.t.Errorf("metier list: %v\n%s", err, out)
	}
	return string(out)
}

// same checks that the workspace has only its own files and records.
func (p *project) same() {
	p.t.Helper()
	_ = os.Remove(filepath.Join(p.dir, "go"))
	var got []string
	err := filepath.WalkDir(p.dir, func(path string, d fs.DirEntry, err error) error {
		if d.Name() == ".metier" {
			return fs.SkipDir
		}
		rel, _ := filepath.Rel(p.dir, path) // path is below dir
		got = append(got, rel)
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
	want := []string{".", "skills", "skills/job", "skills/job/SKILL.md", "skills/job/scripts", "skills/job/scripts/plant.sh", "skills/job/scripts/wait.sh", "sub", "sub/notes.txt"}
	if diff := cmp.Diff(want, got); diff != "" {
		p.t.Errorf("the workspace (-want +got):\n%s", diff)
	}
}

// waiting starts a script that lists the workspace, and waits until it did.
func (p *project) waiting() (c *exec.Cmd, finish func() string) {
	p.t.Helper()
	c = p.command(0, execArgs("wait.sh")...)
	out, err := c.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	c.Stderr = p.t.Output()
	if err := c.Start(); err != nil {
		p.t.Fatal(err)
	}
	var text strings.Builder
	for b := make([]byte, 4096); !strings.Contains(text.String(), "ready\n"); {
		n, err := out.Read(b)
		text.Write(b[:n])
		if err != nil {
			break
		}
	}
	return c, func() string {
		if err := os.WriteFile(filepath.Join(p.dir, "go"), nil, 0o600); err != nil {
			p.t.Error(err)
		}
		if err := c.Wait(); err != nil && !strings.Contains(err.Error(), "already closed") {
			p.t.Errorf("metier exec: %v", err)
		}
		return text.String()
	}
}

// Other commands work while programs run, and nothing of these shows on the
// host, even after they are killed.
func TestExec_LeavesNoTrace(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	_, finish := p.waiting()
	p.same()
	p.list()
	if diff := cmp.Diff(".metier\nskills\nsub\nready\n", finish()); diff != "" {
		t.Errorf("the script sees (-want +got):\n%s", diff)
	}
	c, _ := p.waiting()
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	p.same()
	p.list()
}

func TestExec_LeavesNoTraceWhereverItIsKilled(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	p.write("go", "")
	points, kills := 1, 0
	for at := 1; at <= points; at++ {
		c := p.command(at, execArgs("wait.sh")...)
		out, err := c.CombinedOutput()
		if ws, ok := c.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() && ws.Signal() == syscall.SIGKILL {
			kills++
			points++
		} else if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		p.same()
		p.write("go", "")
		p.list()
	}
	if kills < 5 {
		t.Errorf("killed %d times, want at least 5", kills)
	}
}

func TestExec_SharesAWorkspace(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	const jobs = 4
	var all sync.WaitGroup
	finish := make([]func() string, jobs)
	for i := range jobs {
		all.Go(func() { _, finish[i] = p.waiting() })
	}
	all.Wait()
	p.same()
	p.list()
	for i := range jobs {
		all.Go(func() {
			if out := finish[i](); !strings.HasSuffix(out, "ready\n") {
				t.Errorf("the script printed %q", out)
			}
		})
	}
	all.Wait()
	p.same()
}

// A script cannot create or change files that control another command in the
// workspace, or in a project below it.
func TestExec_ProtectsWhatOtherCommandsRead(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	c := p.command(0, "exec", "--skills-root", "../skills", "--allow-skill-script", "job:scripts/plant.sh", "job", "scripts/plant.sh")
	if c.Dir = filepath.Join(p.dir, "sub"); c.Run() != nil {
		t.Fatal("the script does not run in sub")
	}
	for _, path := range []string{".agents/skills/planted", ".claude/skills/planted", ".opencode/skill/planted", ".codex/skills/planted", ".cursor/skills/planted",
		".git/hooks", "metier.yaml", "HARNESS.md", "sub/.agents/skills/planted", "sub/metier.yaml", "sub/HARNESS.md", "sub/.git"} {
		out, err := p.command(0, execArgs("plant.sh", path)...).CombinedOutput()
		if err == nil || strings.Contains(string(out), "survived") {
			t.Errorf("the script that creates %s goes on: %v\n%s", path, err, out)
		}
		if !strings.Contains(string(out), "is protected") {
			t.Errorf("nothing is said of %s:\n%s", path, out)
		}
		if _, err := os.Lstat(filepath.Join(p.dir, path)); err == nil {
			t.Errorf("%s is there", path)
		}
		if out := p.list(); strings.Contains(out, "planted") {
			t.Errorf("metier list shows what was created at %s:\n%s", path, out)
		}
	}
	for _, path := range []string{".metier/x", "sub/.metier/x"} { // these exist, and look empty
		if out, err := p.command(0, execArgs("plant.sh", path)...).CombinedOutput(); err != nil {
			t.Errorf("the script that creates %s: %v\n%s", path, err, out)
		}
		if _, err := os.Lstat(filepath.Join(p.dir, path)); err == nil {
			t.Errorf("%s is there", path)
		}
	}
}

func TestExec_ProtectsTheHomeInAWorkspace(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	p.home = filepath.Join(p.dir, "sub", "home")
	for _, path := range []string{".agents/skills/planted", ".config/opencode/skills/planted", ".gemini/antigravity/skills/planted", ".config/metier/subagents/planted"} {
		path = filepath.Join("sub/home", path)
		if out, err := p.command(0, execArgs("plant.sh", path)...).CombinedOutput(); !strings.Contains(string(out), "Read-only file system") {
			t.Errorf("the script that creates %s: %v\n%s", path, err, out)
		}
		if _, err := os.Lstat(filepath.Join(p.dir, path)); err == nil {
			t.Errorf("%s is there", path)
		}
	}
}

// A workspace that is the home folder has metier's state of the user. No guard
// mistakes it for the work of a program.
func TestExec_KeepsItsOwnStateInTheHome(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	p.home = p.dir
	if out, err := p.command(0, "sandbox", "run", "--workspace", ".", "--", "true").CombinedOutput(); err != nil {
		t.Errorf("metier sandbox run: %v\n%s", err, out)
	}
	_, finish := p.waiting()
	old, err := filepath.Abs("../../examples/sales-desk/skills") // what has just changed is not indexed
	if err != nil {
		t.Fatal(err)
	}
	if out, err := p.command(0, "list", "--skills-root", old).CombinedOutput(); err != nil {
		t.Errorf("metier list: %v\n%s", err, out)
	}
	finish()
	for _, kept := range []string{".local/state/metier", ".cache/metier/index"} {
		if _, err := os.Stat(filepath.Join(p.dir, kept)); err != nil {
			t.Error(err)
		}
	}
	if out, err := exec.Command("find", p.dir, "-name", "*.quarantined*").CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("moved aside: %v\n%s", err, out)
	}
}

// The existing agent folders that a run does not search are read-only in it,
// and so are the folders it was given.
func TestExec_KeepsWhatOtherCommandsRead(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	paths := []string{"HARNESS.md", ".agents/skills/a/SKILL.md", ".codex/skills/a/SKILL.md", ".github/skills/a/SKILL.md", "metier.yaml", "sub/.claude/skills/a/SKILL.md"}
	for _, path := range paths {
		p.write(path, "")
	}
	p.write("skills/job/scripts/edit.sh", "for p in \"$@\"; do echo no > $p; rm $p; mv $(dirname $p) gone; done\n")
	args := execArgs("edit.sh", paths...)
	c := p.command(0, "exec", "--skills-root", "../skills", "--allow-skill-script", "job:scripts/plant.sh", "job", "scripts/plant.sh")
	if c.Dir = filepath.Join(p.dir, "sub"); c.Run() != nil {
		t.Fatal("the script does not run in sub")
	}
	out, err := p.command(0, args...).CombinedOutput()
	for _, path := range paths {
		if b, readErr := os.ReadFile(filepath.Join(p.dir, path)); readErr != nil || len(b) > 0 {
			t.Errorf("%s: %q, %v (exec: %v)\n%s", path, b, readErr, err, out)
		}
	}
}

// A stopped metier cannot move aside what its program creates, so the next command
// does.
func TestExec_MovesAsideWhatAppearsWhileStopped(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	p.write("skills/job/scripts/wait.sh", waitScript+"mkdir -p .agents/skills/planted; printf -- '---\\nname: planted\\ndescription: Use it.\\n---\\n' > .agents/skills/planted/SKILL.md; echo made > made; sleep 100\n")
	made := filepath.Join(p.dir, "made")
	shell(t, "mkfifo", made)
	c, _ := p.waiting()
	shell(t, "kill", "-STOP", strconv.Itoa(c.Process.Pid))
	if err := os.WriteFile(filepath.Join(p.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(made); err != nil {
		t.Error(err)
	}
	if out, err := p.command(0, "__complete", "show", "").CombinedOutput(); err != nil || strings.Contains(string(out), "protected") {
		t.Errorf("completion: %v\n%s", err, out)
	}
	if _, err := os.Lstat(filepath.Join(p.dir, ".agents/skills/planted")); err != nil {
		t.Errorf("completion moves files: %v", err)
	}
	if out := p.list(); !strings.Contains(out, ".agents, which is protected") || strings.Contains(out, "planted ") {
		t.Errorf("metier list:\n%s", out)
	}
	if err := c.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = c.Wait()
	if _, err := os.Lstat(filepath.Join(p.dir, ".agents/skills")); err == nil {
		t.Error("what the program created is there")
	}
}

// shell runs a command that Go has no portable call for.
func shell(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// Whatever command follows a killed one moves aside what a program created meanwhile, also in another
// folder.
func TestAnyCommand_CleansUpAfterKill(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"runs", "list"}, {"runs", "show", "latest"}, {"audit", "verify", "latest"}, {"mcp", "ls"}, {"sandbox", "probe"}, {"validate", "skills/job"}, {"version"}} {
		for _, elsewhere := range []bool{false, true} {
			p := newProject(t)
			real, err := filepath.EvalSymlinks(p.dir)
			if err != nil {
				t.Fatal(err)
			}
			entry, err := json.Marshal(map[string]any{"workspace": real, "items": []map[string]string{{"path": ".mcp.json"}}, "repositories": []string{}})
			if err != nil {
				t.Fatal(err)
			}
			guards := filepath.Join(p.home, ".local/state/metier/guards")
			if err := os.MkdirAll(guards, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(guards, "job-1.json"), append(entry, '\n'), 0o600); err != nil {
				t.Fatal(err)
			}
			p.write(".mcp.json", "{}")
			c := p.command(0, args...)
			if elsewhere {
				c.Dir = p.home
			}
			out, _ := c.CombinedOutput() // some find no run
			if _, err := os.Stat(filepath.Join(p.dir, ".mcp.json")); !os.IsNotExist(err) {
				t.Errorf("metier %v, elsewhere %t: the file is still there: %v\n%s", args, elsewhere, err, out)
			}
			if want := ".mcp.json.quarantined"; strings.Count(string(out), want) != 1 {
				t.Errorf("metier %v, elsewhere %t: %s does not report %s once", args, elsewhere, out, want)
			}
		}
	}
}
