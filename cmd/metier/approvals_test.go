package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"metier/cli"
	"metier/internal/testenv"
)

// parked is a workspace with a run that waits for an answer to a script, and a
// copy of it to start again from.
type parked struct {
	t               *testing.T
	dir, home       string
	saved, savedOwn string
}

func newParked(t *testing.T) *parked {
	t.Helper()
	if runtime.GOOS != "linux" {
		testenv.Skip(t, "programs run in a sandbox on Linux only")
	}
	p := &parked{t: t, dir: t.TempDir(), home: t.TempDir(), saved: t.TempDir(), savedOwn: t.TempDir()}
	for name, text := range map[string]string{
		"config.yaml": "skills: [{path: shelf, tier: third_party, label: shelf}]\nallow_tools: [load_skill, run_skill_script]\nset: {scripts: tiered}\n",
		"turns.yaml": "turns:\n  - calls: [{tool: load_skill, args: {name: report}}]\n" +
			"  - calls: [{tool: run_skill_script, args: {skill: report, path: scripts/a.sh}}]\n  - say: Done.\n",
		"shelf/report/SKILL.md":     "---\nname: report\ndescription: Counts. Use when something is to be counted.\n---\nRun scripts/a.sh.\n",
		"shelf/report/scripts/a.sh": "echo ran >>/workspace/ran.txt\n",
	} {
		to := filepath.Join(p.home, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if exit, out := p.metier("run", "--output-mode", "batch", "--park", "--prompt", "Count.", "--model", "scripted:"+filepath.Join(p.home, "turns.yaml")); exit != 7 {
		t.Fatalf("exit %d: %s", exit, out)
	}
	p.keep()
	return p
}

// keep makes the current state the one that again restores.
func (p *parked) keep() {
	p.t.Helper()
	restore(p.t, p.dir, p.saved)
	restore(p.t, p.home, p.savedOwn)
}

func (p *parked) again() {
	p.t.Helper()
	restore(p.t, p.saved, p.dir)
	restore(p.t, p.savedOwn, p.home)
}

// metier runs the command in this process.
func (p *parked) metier(args ...string) (exit int, out string) {
	var b bytes.Buffer
	exit = cli.Main(p.t.Context(), args, p.env(), cli.IO{In: strings.NewReader(""), Out: &b, Err: &b, Dir: p.dir})
	return exit, b.String()
}

// points runs the command in a separate process, and counts the points at which
// it can be killed.
func (p *parked) points(args ...string) int {
	p.t.Helper()
	state, out := p.run(0, args...)
	m := regexp.MustCompile(`points=(\d+)`).FindStringSubmatch(out)
	if m == nil || !state.Success() {
		p.t.Fatalf("metier %s: %s\n%s", args, state, out)
	}
	n, _ := strconv.Atoi(m[1]) // digits
	p.t.Logf("%d points", n)
	return n
}

func (p *parked) env() []string {
	return []string{"HOME=" + p.home, "PATH=" + os.Getenv("PATH"), "METIER_CONFIG=" + filepath.Join(p.home, "config.yaml"), "USER=ada"}
}

// kill runs the command, which kills itself at a point.
func (p *parked) kill(at int, args ...string) bool {
	p.t.Helper()
	state, out := p.run(at, args...)
	killed := testenv.DiedAt(state, []byte(out), strconv.Itoa(at))
	if !killed {
		p.t.Errorf("metier %s was not killed at point %d: %s\n%s", args, at, state, out)
	}
	return killed
}

func (p *parked) run(at int, args ...string) (*os.ProcessState, string) {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), os.Args[0], args...)
	cmd.Dir = p.dir
	cmd.Env = append(p.env(), killAt+"="+strconv.Itoa(at))
	b, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		p.t.Fatalf("metier %s: %v", args, err)
	}
	return cmd.ProcessState, string(b)
}

// ran is how often the script ran.
func (p *parked) ran() int {
	b, _ := os.ReadFile(filepath.Join(p.dir, "ran.txt"))
	return strings.Count(string(b), "ran\n")
}

// logged counts the events in the log.
func (p *parked) logged(text string) int {
	p.t.Helper()
	_, out := p.metier("audit", "show", "latest")
	return strings.Count(out, text)
}

// sound fails unless the record verifies and has one answer and one start.
func (p *parked) sound(where string) {
	p.t.Helper()
	if exit, out := p.metier("audit", "verify", "latest"); exit != 0 {
		p.t.Errorf("%s: verify: exit %d\n%s", where, exit, out)
	}
	_, log := p.metier("audit", "show", "latest")
	if a, s := strings.Count(log, " approval.answered "), strings.Count(log, " call.started             id=t2.c0 "); a != 1 || s != 1 {
		p.t.Errorf("%s: %d answers, %d starts", where, a, s)
	}
}

// The answering process crashes at any point. Afterwards the answer is there
// completely or not at all, the run continues once it is there, and it is used
// once.
func TestKilledWhileAnswering(t *testing.T) {
	t.Parallel()
	p := newParked(t)
	answer := []string{"runs", "answer", "latest", "yes", "--scope", "always"}
	points := p.points(answer...)
	if points < 4 {
		t.Fatalf("only %d points", points)
	}
	var kills testenv.Kills
	for at := 1; at <= points; at++ {
		p.again()
		where := fmt.Sprintf("killed at point %d of %d", at, points)
		if !kills.Count(p.kill(at, answer...)) {
			continue
		}
		there := p.logged(" approval.answered ") == 1
		if exit, out := p.metier(answer...); there && (exit != 1 || !strings.Contains(out, "question_answered")) || !there && exit != 0 {
			t.Errorf("%s: answered again: exit %d\n%s", where, exit, out)
		}
		if p.ran() != 0 {
			t.Errorf("%s: it ran without a resume", where)
		}
		if exit, out := p.metier("run", "--resume", "latest"); exit != 0 || p.ran() != 1 {
			t.Errorf("%s: exit %d, ran %d times\n%s", where, exit, p.ran(), out)
		}
		p.sound(where)
	}
	kills.Check(t, points)
}

// The process that continues after the answer crashes at any point. The
// question is not asked again. The script ran once or, if that is unknown, is
// not run again.
func TestKilledBetweenAnswerAndEnd(t *testing.T) {
	t.Parallel()
	p := newParked(t)
	if exit, out := p.metier("runs", "answer", "latest", "yes"); exit != 0 {
		t.Fatalf("exit %d: %s", exit, out)
	}
	p.keep()
	points := p.points("run", "--resume", "latest")
	if points < 8 || p.ran() != 1 {
		t.Fatalf("%d points, ran %d times", points, p.ran())
	}
	never := 0
	step := testenv.Count(7, 2) // before each append and rename or after it: the other one finds the same
	var kills testenv.Kills
	for at := 1; at <= points; at += step {
		p.again()
		where := fmt.Sprintf("killed at point %d of %d", at, points)
		if !kills.Count(p.kill(at, "run", "--resume", "latest")) {
			continue
		}
		if exit, out := p.metier("run", "--resume", "latest"); exit != 0 || p.ran() > 1 {
			t.Errorf("%s: exit %d, ran %d times\n%s", where, exit, p.ran(), out)
		}
		if p.ran() == 0 {
			never++
		}
		p.sound(where)
	}
	kills.Check(t, points/step)
	if never > 2 {
		t.Errorf("at %d of %d points it was never run", never, points)
	}
}

// Several processes answer at the same time: one wins, the others get an error,
// and the record has the winner's answer.
func TestOneOfManyAnswersCounts(t *testing.T) {
	t.Parallel()
	p := newParked(t)
	const many = 6
	var wg sync.WaitGroup
	exits, outs := make([]int, many), make([]string, many)
	for i := range many {
		wg.Go(func() {
			var state *os.ProcessState
			state, outs[i] = p.run(0, "runs", "answer", "latest", []string{"yes", "no"}[i%2])
			exits[i] = state.ExitCode()
		})
	}
	wg.Wait()
	won := -1
	for i, exit := range exits {
		switch {
		case exit == 0 && won < 0:
			won = i
		case exit == 0:
			t.Errorf("two won: %d and %d", won, i)
		case exit != 1 || !strings.Contains(outs[i], "question_answered") && !strings.Contains(outs[i], "run_locked"):
			t.Errorf("exit %d: %s", exit, outs[i])
		}
	}
	if won < 0 {
		t.Fatalf("nobody won: %q", outs)
	}
	if exit, out := p.metier("run", "--resume", "latest"); exit != 0 || p.ran() != 1-won%2 {
		t.Errorf("answer %d won; exit %d, ran %d times\n%s", won, exit, p.ran(), out)
	}
	if n := p.logged(" approval.answered "); n != 1 {
		t.Errorf("%d answers", n)
	}
}
