package main

import (
	"errors"
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

	"metier/internal/testenv"
)

// parked is a workspace with a run that waits for an answer to a script, and
// a copy of it to begin again from.
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
	if exit, out := p.metier(0, "run", "--output-mode", "batch", "--park", "--prompt", "Count.", "--model", "scripted:"+filepath.Join(p.home, "turns.yaml")); exit != 7 {
		t.Fatalf("exit %d: %s", exit, out)
	}
	p.keep()
	return p
}

// keep makes what is there now the state that again goes back to.
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

// metier runs the command, killed at a point; 0 is never.
func (p *parked) metier(at int, args ...string) (exit int, out string) {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Dir = p.dir
	cmd.Env = []string{"HOME=" + p.home, "PATH=" + os.Getenv("PATH"), "METIER_CONFIG=" + filepath.Join(p.home, "config.yaml"), "USER=ada", killAt + "=" + strconv.Itoa(at)}
	b, err := cmd.CombinedOutput()
	if x, is := errors.AsType[*exec.ExitError](err); is {
		return x.ExitCode(), string(b)
	}
	if err != nil {
		p.t.Error(err)
	}
	return 0, string(b)
}

func (p *parked) points(out string) int {
	p.t.Helper()
	m := regexp.MustCompile(`points=(\d+)`).FindStringSubmatch(out)
	if m == nil {
		p.t.Fatalf("no points: %s", out)
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// ran is how often the script ran.
func (p *parked) ran() int {
	b, _ := os.ReadFile(filepath.Join(p.dir, "ran.txt"))
	return strings.Count(string(b), "ran\n")
}

// log counts what the log says.
func (p *parked) logged(text string) int {
	p.t.Helper()
	_, out := p.metier(0, "audit", "show", "latest")
	return strings.Count(out, text)
}

// sound fails unless the record verifies and holds one answer and one start.
func (p *parked) sound(where string) {
	p.t.Helper()
	if exit, out := p.metier(0, "audit", "verify", "latest"); exit != 0 {
		p.t.Errorf("%s: verify: exit %d\n%s", where, exit, out)
	}
	_, log := p.metier(0, "audit", "show", "latest")
	if a, s := strings.Count(log, " approval.answered "), strings.Count(log, " call.started             id=t2.c0 "); a != 1 || s != 1 {
		p.t.Errorf("%s: %d answers, %d starts", where, a, s)
	}
}

// The process that answers dies at any point: afterwards the answer is there
// whole or not at all, the run goes on once it is there, and it is used once.
func TestKilledWhileAnswering(t *testing.T) {
	t.Parallel()
	p := newParked(t)
	answer := []string{"runs", "answer", "latest", "yes", "--scope", "always"}
	exit, out := p.metier(0, answer...)
	points := p.points(out)
	t.Logf("%d points", points)
	if exit != 0 || points < 4 {
		t.Fatalf("exit %d, %d points: %s", exit, points, out)
	}
	for at := 1; at <= points; at++ {
		p.again()
		where := fmt.Sprintf("killed at point %d of %d", at, points)
		if exit, _ := p.metier(at, answer...); exit != -1 {
			t.Errorf("%s: exit %d", where, exit)
			continue
		}
		there := p.logged(" approval.answered ") == 1
		if exit, out := p.metier(0, answer...); there && (exit != 1 || !strings.Contains(out, "question_answered")) || !there && exit != 0 {
			t.Errorf("%s: answered again: exit %d\n%s", where, exit, out)
		}
		if p.ran() != 0 {
			t.Errorf("%s: it ran without a resume", where)
		}
		if exit, out := p.metier(0, "run", "--resume", "latest"); exit != 0 || p.ran() != 1 {
			t.Errorf("%s: exit %d, ran %d times\n%s", where, exit, p.ran(), out)
		}
		p.sound(where)
	}
}

// The process that goes on after the answer dies at any point: nobody is asked
// again, and the script ran once or, where nobody knows, is not run again.
func TestKilledBetweenAnswerAndEnd(t *testing.T) {
	t.Parallel()
	p := newParked(t)
	if exit, out := p.metier(0, "runs", "answer", "latest", "yes"); exit != 0 {
		t.Fatalf("exit %d: %s", exit, out)
	}
	p.keep()
	exit, out := p.metier(0, "run", "--resume", "latest")
	points := p.points(out)
	t.Logf("%d points", points)
	if exit != 0 || points < 8 || p.ran() != 1 {
		t.Fatalf("exit %d, %d points: %s", exit, points, out)
	}
	never := 0
	for at := 1; at <= points; at += 2 { // before each append and rename or after it: the other one finds the same
		p.again()
		where := fmt.Sprintf("killed at point %d of %d", at, points)
		if exit, _ := p.metier(at, "run", "--resume", "latest"); exit != -1 {
			continue // ids and times differ in length, so may the number of points
		}
		if exit, out := p.metier(0, "run", "--resume", "latest"); exit != 0 || p.ran() > 1 {
			t.Errorf("%s: exit %d, ran %d times\n%s", where, exit, p.ran(), out)
		}
		if p.ran() == 0 {
			never++
		}
		p.sound(where)
	}
	if never > 2 {
		t.Errorf("at %d of %d points it was never run", never, points)
	}
}

// Several answer at once: one wins, the others are told, and the record holds
// that one's word.
func TestOneOfManyAnswersCounts(t *testing.T) {
	t.Parallel()
	p := newParked(t)
	const many = 6
	var wg sync.WaitGroup
	exits, outs := make([]int, many), make([]string, many)
	for i := range many {
		wg.Go(func() { exits[i], outs[i] = p.metier(0, "runs", "answer", "latest", []string{"yes", "no"}[i%2]) })
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
	if exit, out := p.metier(0, "run", "--resume", "latest"); exit != 0 || p.ran() != 1-won%2 {
		t.Errorf("answer %d won; exit %d, ran %d times\n%s", won, exit, p.ran(), out)
	}
	if n := p.logged(" approval.answered "); n != 1 {
		t.Errorf("%d answers", n)
	}
}
