package sandboxtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"metier/sandbox"
	"metier/sandbox/unconfined"
)

// enter runs the stage of a cell's process, and reports whether this process is
// one. In the judge's process it does not return.
func enter(t *testing.T, open func(t *testing.T) sandbox.Sandbox, o Options) bool {
	text := os.Getenv(envSpec)
	if text == "" {
		return false
	}
	var sp spec
	if err := json.Unmarshal([]byte(text), &sp); err != nil {
		t.Fatal(err)
	}
	w := &ways()[sp.Way]
	switch stage := os.Getenv(envStage); stage {
	case "launch":
		if err := launch(&sp); err != nil {
			t.Fatal(err)
		}
	case "build":
		if err := build(&sp, w); err != nil {
			t.Fatalf("build the cell: %v", err)
		}
		t.Fatal(become(&sp))
	case "judge":
		judge(t, &sp, w, open, o)
	case "drive":
		drive(t, &sp, w, open, o)
	default:
		t.Fatalf("stage %q", stage)
	}
	return true
}

// cell is the judge's view: the bait, the sandbox under attack, and what was
// found.
type cell struct {
	t       *testing.T
	spec    *spec
	way     *way
	box     sandbox.Sandbox
	options Options
	bait    *bait
	known   map[int]bool // processes that do not belong to a job

	mu     sync.Mutex
	report report
}

func judge(t *testing.T, sp *spec, w *way, open func(t *testing.T) sandbox.Sandbox, o Options) {
	for _, fd := range []int{reportFD, sp.TTY, sp.TTY + 1} {
		if fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	out := os.NewFile(reportFD, "report")
	c := &cell{t: t, spec: sp, way: w, options: o}
	c.bait = layBait(c)
	c.known = map[int]bool{}
	for _, p := range processes() {
		c.known[p.pid] = true
	}
	c.box = c.open(open)
	w.do(c)
	if err := c.box.Close(); err != nil {
		c.broken("Close: %v", err)
	}
	c.mu.Lock()
	b, err := json.Marshal(c.report)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.Write(b); err != nil {
		t.Fatal(err)
	}
	os.Exit(0) // everything in the cell ends with its first process
}

func (c *cell) open(open func(t *testing.T) sandbox.Sandbox) sandbox.Sandbox {
	switch {
	case !c.spec.Control:
		return open(c.t)
	case c.way.careless:
		return &careless{}
	}
	return unconfined.New(nil)
}

func (c *cell) add(list *[]string, format string, a ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := fmt.Sprintf(format, a...)
	if len(s) > 500 {
		s = s[:500] + "…"
	}
	*list = append(*list, s)
}

// harm records what an attack did.
func (c *cell) harm(format string, a ...any) { c.add(&c.report.Harm, format, a...) }

// broken records what the port promises and did not do.
func (c *cell) broken(format string, a ...any) { c.add(&c.report.Broken, format, a...) }

func (c *cell) log(format string, a ...any) { c.add(&c.report.Log, format, a...) }

const attackTree = sandbox.SkillsDir + "/attack"

// attack returns a job that runs one attack.
func (c *cell) attack(args ...string) sandbox.Job {
	b, err := os.ReadFile(attackFile)
	if err != nil {
		c.t.Fatal(err)
	}
	return sandbox.Job{
		Argv:  append([]string{attackTree + "/attack"}, args...),
		Env:   []string{"PATH=/usr/bin:/bin", "HOME=/tmp"},
		Trees: []sandbox.Tree{{Path: attackTree, Files: []sandbox.File{{Path: "attack", Exec: true, Data: b}, {Path: "data", Data: []byte("data of the tree\n")}}}},
	}
}

// level is the level that a job requires. Controls require none.
func (c *cell) level() sandbox.Level {
	if c.spec.Control {
		return sandbox.L0
	}
	return c.options.level()
}

// try runs a job unchanged and records what its output discloses.
func (c *cell) try(ctx context.Context, j sandbox.Job) (sandbox.Result, error) {
	j.MinLevel = c.level()
	if j.Limits.Wall == 0 {
		j.Limits.Wall = 15 * time.Second
	}
	r, err := c.box.Run(ctx, j)
	c.log("%.300q: exit %d%s%s %v, out %q, err %q", j.Argv, r.Exit, r.Signal, r.Limit, err, short(r.Stdout), short(r.Stderr))
	c.bait.settle()
	for name, token := range c.bait.secrets {
		if bytes.Contains(r.Stdout, []byte(token)) || bytes.Contains(r.Stderr, []byte(token)) {
			c.harm("the output contains the secret of %s", name)
		}
	}
	for _, hit := range c.bait.taken() {
		c.harm("reached: %s", hit)
	}
	return r, err
}

func short(b []byte) string {
	if len(b) > 200 {
		return string(b[:200]) + "…"
	}
	return string(b)
}

// run runs an attack that has to start: an attack that never ran was not
// refused. It exits by itself, with what it reached or what stopped it, unless
// a filter kills it.
func (c *cell) run(j sandbox.Job) sandbox.Result {
	r, err := c.try(context.Background(), j)
	switch {
	case err != nil:
		c.broken("%q did not start: %v", j.Argv, err)
	case r.Limit == "" && r.Exit != 0 && r.Exit != 3 && r.Signal != "SIGSYS" && r.Signal != "SIGKILL":
		c.broken("the attack failed on its own: exit %d %s %q", r.Exit, r.Signal, short(r.Stderr))
	}
	return r
}

// hold runs an attack that holds, and calls the next function of looks each
// time it does. An attack that does not reach its hold was stopped before.
func (c *cell) hold(j sandbox.Job, looks ...func(pids []process)) sandbox.Result {
	r, err := c.held(j, looks...)
	if err != nil {
		c.broken("%q did not start: %v", j.Argv, err)
	}
	return r
}

func (c *cell) held(j sandbox.Job, looks ...func(pids []process)) (sandbox.Result, error) {
	in, release := io.Pipe()
	defer release.Close()
	j.Stdin = in
	next := 0
	j.Stdout = watcher(func() {
		if next < len(looks) {
			looks[next](c.jobs())
		}
		next++
		last := next >= len(looks)
		go func() {
			_, _ = io.WriteString(release, "on\n")
			if last {
				_ = release.Close()
			}
		}()
	})
	return c.try(context.Background(), j)
}

// holder calls f for each HOLD line written to it.
type holder struct {
	line []byte
	f    func()
}

func watcher(f func()) io.Writer { return &holder{f: f} }

func (h *holder) Write(b []byte) (int, error) {
	h.line = append(h.line, b...)
	for {
		i := bytes.IndexByte(h.line, '\n')
		if i < 0 {
			return len(b), nil
		}
		line := string(h.line[:i])
		h.line = h.line[i+1:]
		if line == "HOLD" {
			h.f()
		}
	}
}

// jobs lists the live processes that the sandbox started.
func (c *cell) jobs() (out []process) {
	for _, p := range processes() {
		if !c.known[p.pid] && p.state != "Z" && !c.keeps(p) {
			out = append(out, p)
		}
	}
	return out
}

// keeps reports whether p is the process that the backend keeps.
func (c *cell) keeps(p process) bool {
	if c.options.Keeps == "" || p.parent != os.Getpid() {
		return false
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
	return err == nil && string(b) == c.options.Keeps+"\x00"
}

// gone waits up to while until all processes of jobs are gone, and returns
// those that are left.
func (c *cell) gone(while time.Duration) []process {
	deadline, tick := time.After(while), time.NewTicker(5*time.Millisecond)
	defer tick.Stop()
	for {
		left := c.jobs()
		if len(left) == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-deadline:
			return left
		}
	}
}

// ownKernel reports whether programs run on another kernel than the cell.
func (c *cell) ownKernel() bool { return !c.spec.Control && c.options.ownKernel() }

// pace is the time factor for backends whose programs have their own kernel.
func (c *cell) pace() time.Duration {
	if c.ownKernel() {
		return 4
	}
	return 1
}

// patience is how long processes of a job may exist after its result.
func (c *cell) patience() time.Duration {
	if c.spec.Control {
		return 200 * time.Millisecond
	}
	return 10 * time.Second
}

// eventually is the delay of an event that a sandbox does not wait for. It is
// short without a sandbox, where the control waits for it, and otherwise long
// enough for a busy machine.
func (c *cell) eventually() time.Duration {
	if c.spec.Control {
		return time.Second
	}
	return 10 * time.Second
}

// seconds is eventually as a command-line argument.
func (c *cell) seconds() string { return itoa(int(c.eventually() / time.Second)) }

// workspace creates a folder for a job to work in.
func (c *cell) workspace(files ...string) string {
	dir, err := os.MkdirTemp("/home/victim", "work-")
	c.must(err)
	for _, f := range files {
		name, text, _ := strings.Cut(f, "=")
		c.bait.file(dir+"/"+name, text)
	}
	return dir
}

func (c *cell) must(err error) {
	if err != nil {
		c.t.Fatalf("the cell is broken: %v", err)
	}
}
