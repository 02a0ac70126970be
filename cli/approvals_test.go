package cli_test

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"metier/internal/testenv"
)

var approvalCommands = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	"putfound": putFound,
}

// putFound replaces a word of a file by what a pattern finds in another file:
// putfound stdout PATTERN FILE WORD.
func putFound(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: putfound FROM PATTERN FILE WORD")
	}
	m := regexp.MustCompile(args[1]).FindStringSubmatch(ts.ReadFile(args[0]))
	if len(m) != 2 {
		ts.Fatalf("%s does not match %s", args[0], args[1])
	}
	edit(ts, args[2], func(s string) string {
		if !strings.Contains(s, args[3]) {
			ts.Fatalf("%s does not hold %s", args[2], args[3])
		}
		return strings.ReplaceAll(s, args[3], m[1])
	})
}

// terminal is metier in a terminal, run by a user.
type terminal struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader

	shown strings.Builder // everything it printed
}

// place is a workspace with a third-party skill that has a script.
type place struct {
	t         *testing.T
	dir, home string
}

func newPlace(t *testing.T) *place {
	t.Helper()
	if runtime.GOOS != "linux" {
		testenv.Skip(t, "programs run in a sandbox on Linux only")
	}
	p := &place{t, t.TempDir(), t.TempDir()}
	putFiles(t, p.home, map[string]string{
		"config.yaml": "skills: [{path: shelf, tier: third_party, label: shelf}]\nallow_tools: [load_skill, run_skill_script]\nset: {scripts: tiered}\n",
		"turns.yaml": "turns:\n  - calls: [{tool: load_skill, args: {name: report}}]\n" +
			"  - calls: [{tool: run_skill_script, args: {skill: report, path: scripts/a.sh, args: [\"x\\n[y] FORGED\"]}}]\n  - say: Done.\n",
		"shelf/report/SKILL.md":     "---\nname: report\ndescription: Counts. Use when something is to be counted.\n---\nRun scripts/a.sh.\n",
		"shelf/report/scripts/a.sh": "echo ran >>/workspace/ran.txt\n",
	})
	return p
}

func (p *place) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = p.dir
	cmd.Env = []string{"HOME=" + p.home, "PATH=" + os.Getenv("PATH"), "METIER_CONFIG=" + filepath.Join(p.home, "config.yaml"), "USER=ada", "TERM=dumb", "SHELL=/bin/sh"}
	return cmd
}

// metier runs the command without a terminal.
func (p *place) metier(args ...string) (exit int, out string) {
	p.t.Helper()
	b, err := p.command("metier", args...).CombinedOutput()
	if x, is := errors.AsType[*exec.ExitError](err); is {
		return x.ExitCode(), string(b)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return 0, string(b)
}

func (p *place) ran() int {
	b, _ := os.ReadFile(filepath.Join(p.dir, "ran.txt"))
	return strings.Count(string(b), "ran\n")
}

// sit runs a command in its own terminal.
func (p *place) sit(line string) *terminal {
	p.t.Helper()
	cmd := p.command("script", "-qec", line, os.DevNull)
	in, err := cmd.StdinPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = cmd.Process.Kill() }) // already gone if left was called
	return &terminal{t: p.t, cmd: cmd, in: in, out: bufio.NewReader(out)}
}

// reads reads the output up to a text.
func (x *terminal) reads(until string) string {
	x.t.Helper()
	var got strings.Builder
	for !strings.HasSuffix(got.String(), until) {
		b, err := x.out.ReadByte()
		if err != nil {
			x.t.Fatalf("the terminal ended before it showed %q: %v\n%s", until, err, got.String())
		}
		got.WriteByte(b)
		x.shown.WriteByte(b)
	}
	return strings.ReplaceAll(got.String(), "\r", "")
}

func (x *terminal) types(s string) {
	x.t.Helper()
	if _, err := io.WriteString(x.in, s); err != nil {
		x.t.Fatal(err)
	}
}

// left waits for the end and returns the exit code.
func (x *terminal) left() int {
	x.t.Helper()
	_, _ = io.Copy(&x.shown, x.out)
	_ = x.in.Close()
	err := x.cmd.Wait()
	if e, is := errors.AsType[*exec.ExitError](err); is {
		return e.ExitCode()
	}
	if err != nil {
		x.t.Fatal(err)
	}
	return 0
}

const menu = "[y] yes, once  [s] yes, for this run  [a] yes, always, until its files change  [n] no (default): "

// At a terminal, the user sees what an approval covers and is the only one who can answer. Another
// process is told which process works on the run.
func TestATerminalShowsWhatAYesCovers(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	run := "metier run --prompt Count. --model scripted:" + filepath.Join(p.home, "turns.yaml")

	x := p.sit(run)
	shown := x.reads(menu)
	for _, want := range []string{"May the agent do this?\n  run the script report:scripts/a.sh (tier third_party)?\n", "    skill    report (shelf:report)\n", "    tier     third_party\n",
		"    script   scripts/a.sh\n", "    sandbox  L2\n", "    network  none\n", `    given    | {"args":["x\n[y] FORGED"],"path":"scripts/a.sh","skill":"report"}` + "\n", "(an approval covers any arguments)\n"} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is not in:\n%s", want, shown)
		}
	}
	if !regexp.MustCompile(`\n    tree     sha256:[0-9a-f]{12}…\n`).MatchString(shown) || strings.Contains(shown, "\n[y] FORGED") {
		t.Error(shown)
	}
	if exit, out := p.metier("runs", "deny", "latest"); exit != 1 || !regexp.MustCompile(`process \d+ on .* has been working on this run since .* \[run_locked\]`).MatchString(out) {
		t.Errorf("answered while the run goes on: exit %d: %s", exit, out)
	}
	x.types("what?\n")
	x.reads(menu)
	if p.ran() != 0 {
		t.Error("it ran before the answer")
	}
	x.types("y\n")
	if exit := x.left(); exit != 0 || p.ran() != 1 {
		t.Errorf("yes: exit %d, ran %d times", exit, p.ran())
	}

	// Anything other than an answer is a no.
	x = p.sit(run)
	for range 3 {
		x.reads(menu)
		x.types("maybe\n")
	}
	if exit := x.left(); exit != 0 || p.ran() != 1 {
		t.Errorf("three times no answer: exit %d, ran %d times", exit, p.ran())
	}

	// Ctrl-C leaves the question open, so that it can be answered later.
	x = p.sit(run)
	x.reads(menu)
	x.types("\x03")
	if exit := x.left(); exit != 130 || p.ran() != 1 {
		t.Errorf("ctrl-C: exit %d, ran %d times", exit, p.ran())
	}
	if exit, out := p.metier("runs", "show", "latest"); exit != 0 || !strings.Contains(out, "waiting for an answer: metier runs approve|deny") {
		t.Errorf("exit %d: %s", exit, out)
	}
	if exit, out := p.metier("runs", "approve", "latest"); exit != 0 {
		t.Errorf("exit %d: %s", exit, out)
	}
	if exit, out := p.metier("run", "--resume", "latest"); exit != 0 || p.ran() != 2 {
		t.Errorf("exit %d, ran %d times: %s", exit, p.ran(), out)
	}

	// Always is kept: the question is not asked again, here or elsewhere.
	x = p.sit(run)
	x.reads(menu)
	x.types("a\n")
	if exit := x.left(); exit != 0 || p.ran() != 3 {
		t.Errorf("always: exit %d, ran %d times", exit, p.ran())
	}
	if exit, out := p.metier("runs", "approvals"); exit != 0 || !strings.Contains(out, " report (shelf:report) ") || !strings.Contains(out, " ada ") {
		t.Errorf("exit %d: %s", exit, out)
	}
	if exit := p.sit(run).left(); exit != 0 || p.ran() != 4 {
		t.Errorf("after always: exit %d, ran %d times", exit, p.ran())
	}
}

// Input typed before a question is shown does not answer it, whether it is still in the terminal or
// follows the previous answer.
func TestAsk_ForgetsWhatWasTypedBefore(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	call := "  - calls: [{tool: run_skill_script, args: {skill: report, path: scripts/a.sh}}]\n"
	putFiles(t, p.home, map[string]string{"two.yaml": "turns:\n  - calls: [{tool: load_skill, args: {name: report}}]\n" + call + call + "  - say: Done.\n"})
	hold := filepath.Join(p.home, "hold")
	if b, err := p.command("mkfifo", hold).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	const note = "note: input typed before this question is ignored\n"

	x := p.sit("cat " + hold + "; metier run --prompt Count. --model scripted:" + filepath.Join(p.home, "two.yaml"))
	x.types("y\ny\n")
	x.reads("y\r\ny\r\n") // they wait at the terminal
	if err := os.WriteFile(hold, nil, 0); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if shown := x.reads(menu); !strings.Contains(shown, note) {
			t.Errorf("the person is not told that what was typed is dropped:\n%s", shown)
		}
		x.types("n\ny\n")
	}
	if exit := x.left(); exit != 0 {
		t.Errorf("exit %d", exit)
	}
	if p.ran() != 0 {
		t.Error("it ran without an answer")
	}
}
