package sandboxtest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"metier/sandbox"
)

// Cases 114 to 122: lifetimes, and what is left behind.
func lifeWays() []way {
	survive := "survivors"
	list := []way{
		{number: 114, name: "ignores signals", by: "wall time", careless: true, do: func(c *cell) { c.spins(sandbox.LimitWall, sandbox.Limits{Wall: 500 * time.Millisecond}) }},
		{number: 114, name: "ignores signals", by: "processor time", careless: true, do: func(c *cell) {
			c.spins(sandbox.LimitCPU, sandbox.Limits{CPU: time.Second, Wall: 25 * time.Second})
		}},
		{number: 116, name: "a child holds the output", careless: true, do: (*cell).holdout},
		{number: 117, name: "SIGKILL of the parent", do: (*cell).parentKilled},
		{number: 118, name: "canceled", by: "before it starts", careless: true, do: (*cell).cancelBefore},
		{number: 118, name: "canceled", by: "while it starts", careless: true, do: (*cell).cancelDuring},
		{number: 118, name: "canceled", by: "while it runs", careless: true, do: (*cell).cancelLate},
		{number: 118, name: "canceled", by: "as it ends", careless: true, do: (*cell).cancelAtExit},
		{number: 118, name: "canceled", by: "with the whole sandbox", careless: true, do: (*cell).closed},
		{number: 119, name: "input", by: "without a writer", careless: true, do: (*cell).silentInput},
		{number: 119, name: "input", by: "without a reader", do: (*cell).unreadInput, careless: true},
		{number: 119, name: "input", by: "of many bytes", careless: true, do: (*cell).hugeInput},
		{number: 120, name: "stops itself", careless: true, do: (*cell).stopped},
		{number: 121, name: "100 at once", careless: true, do: (*cell).hundred},
		{number: 121, name: "many launches leave nothing behind", careless: true, alone: true, seconds: 400, do: (*cell).launches},
		{number: 121, name: "launches that fail leave nothing behind", by: "without namespaces", careless: true, nested: true, prepare: primitives()[0].take, do: (*cell).failedStarts},
		{number: 122, name: "time passes while the parent sleeps", careless: true, do: (*cell).suspended},
	}
	for _, how := range []string{"setsid", "double", "group", "nohup"} {
		list = append(list, way{number: 115, name: survive, by: how, do: func(c *cell) {
			c.run(c.attack("daemon", how, "20"))
			if left := c.gone(c.patience()); len(left) > 0 {
				c.harm("still running after the result: %v", left)
			}
		}})
	}
	return list
}

func (c *cell) spins(limit string, l sandbox.Limits) {
	r := c.run(c.limited(c.attack("spin", "2"), l))
	if bytes.Contains(r.Stdout, []byte("SPUN")) {
		c.harm("the program ran to its end")
	}
	if r.Limit != limit || r.Exit != -1 || r.Signal != "" {
		c.broken("ended by %q, exit %d, %s; want %s", r.Limit, r.Exit, r.Signal, limit)
	}
}

func (c *cell) late() (dir string, written func() bool) {
	dir = c.workspace()
	return dir, func() bool { _, err := os.Stat(dir + "/late"); return err == nil }
}

func (c *cell) holdout() {
	dir, written := c.late()
	j := c.attack("holdout", c.seconds(), "/workspace/late")
	j.Workspace = &sandbox.Workspace{Host: dir, Writable: true}
	r := c.run(j)
	if written() {
		c.harm("the result waited for a child that held the output")
	}
	if r.Exit != 0 {
		c.broken("exit %d %s %s", r.Exit, r.Signal, r.Limit)
	}
	if left := c.gone(c.patience()); len(left) > 0 && !c.spec.Control {
		c.harm("still running after the result: %v", left)
	}
}

// driver starts a process in the cell that runs one job and prints its result.
func (c *cell) driver() (cmd *exec.Cmd, out *bytes.Buffer, written func() bool) {
	dir, written := c.late()
	sp := *c.spec
	cmd = exec.Command(testFile, sp.args()[1:]...)
	cmd.Env = append(sp.env("drive"), "METIER_SANDBOXTEST_DIR="+dir)
	out = &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = out, out
	c.must(cmd.Start())
	c.known[cmd.Process.Pid] = true
	deadline, tick := time.After(c.pace()*10*time.Second), time.NewTicker(5*time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(dir + "/begun"); err == nil {
			return cmd, out, written
		}
		for _, p := range c.jobs() {
			b, _ := os.ReadFile("/proc/" + itoa(p.pid) + "/cmdline")
			if strings.Contains(string(b), "linger\x00") {
				return cmd, out, written
			}
		}
		select {
		case <-tick.C:
		case <-deadline:
			c.t.Fatalf("the driver started no job: %s", out)
		}
	}
}

// drive is the driver's process.
func drive(t *testing.T, sp *spec, w *way, open func(t *testing.T) sandbox.Sandbox, o Options) {
	c := &cell{t: t, spec: sp, way: w, options: o}
	box := c.open(open)
	j := c.attack("linger", c.seconds(), "/workspace/late")
	dir := os.Getenv("METIER_SANDBOXTEST_DIR")
	j.Workspace = &sandbox.Workspace{Host: dir, Writable: true}
	if c.ownKernel() { // no other process sees it start
		j.Argv = append([]string{"/bin/sh", "-c", `echo HOLD; exec "$0" "$@"`}, j.Argv...)
		j.Stdout = watcher(func() { _ = os.WriteFile(dir+"/begun", nil, 0o600) })
	}
	j.Limits.Wall = c.pace() * time.Second
	if w.number == 117 {
		j.Limits.Wall = time.Minute
	}
	j.MinLevel = c.level()
	r, err := box.Run(context.Background(), j)
	b, _ := json.Marshal(r)
	t.Logf("DROVE %s %v", b, err)
	if err := box.Close(); err != nil {
		t.Error(err)
	}
}

func (c *cell) parentKilled() {
	cmd, _, written := c.driver()
	c.must(cmd.Process.Kill())
	_ = cmd.Wait()
	if left := c.gone(c.patience()); len(left) > 0 || written() {
		c.harm("the parent was killed, still running: %v", left)
	}
}

// suspended stops the parent for longer than the job's wall time, as a sleeping
// machine does, and checks that the limit applies when it wakes.
func (c *cell) suspended() {
	cmd, out, written := c.driver()
	c.must(cmd.Process.Signal(syscall.SIGSTOP))
	<-time.After(c.pace() * 1500 * time.Millisecond)
	c.must(cmd.Process.Signal(syscall.SIGCONT))
	_ = cmd.Wait()
	if written() {
		c.harm("the job ran to its end, past its wall time: %s", out)
	}
	if !strings.Contains(out.String(), `"Limit":"wall"`) {
		c.broken("the result is %s", out)
	}
	if left := c.gone(c.patience()); len(left) > 0 {
		c.harm("still running: %v", left)
	}
}

func (c *cell) writes() (j sandbox.Job, written func() bool) {
	dir, written := c.late()
	j = c.attack("write", "/workspace/late")
	j.Workspace = &sandbox.Workspace{Host: dir, Writable: true}
	return j, written
}

func (c *cell) cancelBefore() {
	j, written := c.writes()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r, err := c.try(ctx, j)
	if written() {
		c.harm("the job ran although it was canceled first")
	}
	if err == nil && r.Limit != sandbox.LimitCancelled {
		c.broken("exit %d, limit %q, no error", r.Exit, r.Limit)
	}
}

// cancelAtExit cancels at moments around the end of a short program. Either it
// ended, or the result reports the cancellation. Nothing is left in both cases.
func (c *cell) cancelAtExit() {
	ends := map[string]int{}
	for i := range 40 {
		j := c.attack("ok", "ended")
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*time.Millisecond)
		if c.spec.Control {
			j = c.attack("linger", "0.1")
		}
		r, err := c.try(ctx, j)
		cancel()
		switch {
		case err != nil:
			ends["not started"]++
		case r.Limit == sandbox.LimitCancelled && r.Exit == -1:
			ends["cancelled"]++
		case r.Limit == "" && r.Exit == 0 && string(r.Stdout) == "ended\n":
			ends["ended"]++
		default:
			c.broken("canceled after %d ms: exit %d, %s, %s, %q", i, r.Exit, r.Signal, r.Limit, r.Stdout)
		}
		if left := c.gone(c.patience()); len(left) > 0 {
			c.harm("canceled after %d ms, still running: %v", i, left)
		}
	}
	c.log("%v", ends)
}

// closed closes the sandbox while a job runs in it.
func (c *cell) closed() {
	ended := make(chan sandbox.Result, 1)
	held := make(chan struct{})
	var once sync.Once
	j := c.attack("plant", "/tmp/x")
	in, release := io.Pipe()
	defer release.Close()
	timer := time.AfterFunc(c.eventually(), func() { _ = release.Close() })
	defer timer.Stop()
	j.Stdin, j.Stdout, j.MinLevel = in, watcher(func() { once.Do(func() { close(held) }) }), c.level()
	go func() {
		r, err := c.box.Run(context.Background(), j)
		if err != nil {
			c.broken("%v", err)
		}
		ended <- r
	}()
	<-held
	c.must(c.box.Close())
	if left := c.gone(c.patience()); len(left) > 0 {
		c.harm("the sandbox is closed, still running: %v", left)
	}
	if r := <-ended; r.Limit != sandbox.LimitCancelled {
		c.broken("limit %q, exit %d", r.Limit, r.Exit)
	}
	if _, err := c.box.Run(context.Background(), j); err == nil {
		c.broken("a job runs after Close")
	}
}

// cancelDuring cancels at moments spread over the time that a start takes.
func (c *cell) cancelDuring() {
	for i := range 40 {
		j, written := c.writes()
		j.Argv = []string{attackTree + "/attack", "linger", c.seconds(), "/workspace/late"}
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*400*time.Microsecond)
		r, err := c.try(ctx, j)
		cancel()
		if err == nil && r.Limit != sandbox.LimitCancelled {
			c.broken("canceled at step %d, the job ended with exit %d, limit %q", i, r.Exit, r.Limit)
		}
		if left := c.gone(c.patience()); len(left) > 0 || written() {
			c.harm("canceled at step %d, still running: %v", i, left)
		}
		if c.spec.Control {
			return // once is enough
		}
	}
}

func (c *cell) cancelLate() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	j := c.attack()
	j.Argv = []string{"/bin/sh", "-c", "echo HOLD; " + c.program() + " spin 2"}
	j.Stdout = watcher(cancel)
	r, err := c.try(ctx, j)
	if bytes.Contains(r.Stdout, []byte("SPUN")) {
		c.harm("the program ran to its end")
	}
	if err != nil || r.Limit != sandbox.LimitCancelled || !bytes.HasPrefix(r.Stdout, []byte("HOLD")) {
		c.broken("limit %q, %v, %q", r.Limit, err, r.Stdout)
	}
	if left := c.gone(c.patience()); len(left) > 0 {
		c.harm("still running: %v", left)
	}
}

// program is the attack's path within a shell command, where it is not
// translated to a host path.
func (c *cell) program() string {
	if c.spec.Control {
		return attackFile
	}
	return attackTree + "/attack"
}

// silentInput has an input that sends nothing for a while. A program that ended
// must not wait for it.
func (c *cell) silentInput() {
	in, w := io.Pipe()
	defer w.Close()
	var spoke atomic.Bool
	timer := time.AfterFunc(c.pace()*c.eventually(), func() { spoke.Store(true); _ = w.Close() })
	defer timer.Stop()
	j := c.attack("ok", "ended")
	j.Stdin = in
	r := c.run(j)
	if spoke.Load() {
		c.harm("the result waited for an input that the program did not need")
	}
	if string(r.Stdout) != "ended\n" {
		c.broken("%q", r.Stdout)
	}
}

type endless struct{ read atomic.Int64 }

func (e *endless) Read(b []byte) (int, error) {
	e.read.Add(int64(len(b)))
	return len(b), nil
}

// slurp makes a careless runner read up to most bytes of the input in advance,
// and drop the rest.
func (c *cell) slurp(most int64) {
	if l, ok := c.box.(*careless); ok {
		l.slurp = most
	}
}

// unreadInput offers endless input to a program that reads none.
func (c *cell) unreadInput() {
	in := &endless{}
	c.slurp(32 << 20)
	j := c.attack("linger", "0.3")
	j.Stdin = in
	r := c.run(j)
	if r.Exit != 0 || r.Limit != "" {
		c.broken("exit %d %s %s", r.Exit, r.Signal, r.Limit)
	}
	if n := in.read.Load(); n > 8<<20 {
		c.harm("%d MiB were read for a program that reads nothing", n>>20)
	}
}

func (c *cell) hugeInput() {
	const size = 48 << 20
	c.slurp(32 << 20)
	j := c.attack("count")
	j.Stdin = io.LimitReader(&endless{}, size)
	if r := c.run(j); strings.TrimSpace(string(r.Stdout)) != itoa(size) {
		c.broken("the program read %q bytes of %d", r.Stdout, size)
	}
}

// stopped wakes the program after a while, so that a parent without a limit
// finishes.
func (c *cell) stopped() {
	timer := time.AfterFunc(c.eventually(), func() {
		for _, p := range c.jobs() {
			_ = syscall.Kill(p.pid, syscall.SIGCONT)
		}
	})
	defer timer.Stop()
	r := c.run(c.limited(c.attack("stop"), sandbox.Limits{Wall: 500 * time.Millisecond}))
	if bytes.Contains(r.Stdout, []byte("WOKEN")) {
		c.harm("the parent waited for a stopped program")
	}
	if r.Limit != sandbox.LimitWall {
		c.broken("limit %q, exit %d %s", r.Limit, r.Exit, r.Signal)
	}
}

// besideProxy has a proxy, and tries to reach everything else.
func (c *cell) besideProxy() {
	served := make(chan struct{})
	j := c.attack("dial", "word", "tcp", sandbox.ProxyAddr, "tcp", "127.0.0.1:4040", "tcp", "[::1]:4040", "tcp", metadata+":80", "udp", "127.0.0.53:53", "unix", abstract, "unix", docker)
	j.Serve = func(l net.Listener) {
		defer close(served)
		answer(l, -1)
	}
	r := c.run(j)
	if !bytes.Contains(r.Stdout, []byte("answer of the proxy")) {
		c.broken("the proxy did not answer: %q, %q", r.Stdout, r.Stderr)
	}
	<-served // Serve has to return when the job ends
}

// answer serves n connections, or all if n < 0, and closes the listener.
func answer(l net.Listener, n int) {
	for ; n != 0; n-- {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = conn.Read(make([]byte, 64))
		_, _ = io.WriteString(conn, "answer of the proxy")
		_ = conn.Close()
	}
	_ = l.Close()
}

// proxyEnds closes the proxy while the program runs. Nothing must answer in its
// place.
func (c *cell) proxyEnds() {
	gone := make(chan struct{})
	j := c.attack("relay", sandbox.ProxyAddr, "first", "second")
	j.Serve = func(l net.Listener) { answer(l, 1); close(gone) }
	r := c.hold(j, func([]process) { <-gone })
	if n := bytes.Count(r.Stdout, []byte("answer of the proxy")); n != 1 {
		c.broken("the proxy answered %d times: %q, %q", n, r.Stdout, r.Stderr)
	}
	j = c.attack("dial", "word", "tcp", sandbox.ProxyAddr, "tcp", "127.0.0.1:4040", "tcp", metadata+":80")
	j.Serve = func(l net.Listener) { _ = l.Close() }
	if r := c.run(j); bytes.Contains(r.Stdout, []byte("answer")) {
		c.harm("something answered in place of the proxy: %q", r.Stdout)
	}
}
