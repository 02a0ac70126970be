package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"metier/internal/intake"
	"metier/internal/termtext"
	"metier/record"
	"metier/sandbox/group"
)

// Limits for what is kept of a program's standard error.
const (
	mostLines = 200
	lineBytes = 1 << 10

	shownLines = 3 // in the error of a server that cannot be used
	shownBytes = 200
)

// process is a server started by metier. Its standard output is read through it, so that its end is
// noticed at once and it never stays a zombie.
type process struct {
	c     *connection
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   io.ReadCloser
	gone  chan struct{} // its output ended
	said  chan struct{} // its standard error ended
	once  sync.Once
	ended sync.Once
	guard intake.Guard
	err   error
	last  lastLines // of its standard error
}

// program starts the server in a separate process group. Its environment is only PATH, HOME and the
// configured variables.
func (c *connection) program() (*process, error) {
	s := c.server
	path, err := c.find(s.Command)
	if err != nil {
		return nil, err
	}
	p := &process{c: c, gone: make(chan struct{}), said: make(chan struct{}), guard: intake.Guard{Most: int64(c.host.opts.Message), Many: mostValues}}
	p.cmd = &exec.Cmd{Path: path, Args: append([]string{s.Command}, s.Args...), Dir: c.base(), Env: c.environment(), WaitDelay: c.host.opts.Grace}
	if s.Cwd != "" {
		if p.cmd.Dir = s.Cwd; !filepath.IsAbs(s.Cwd) {
			p.cmd.Dir = filepath.Join(c.base(), s.Cwd)
		}
	}
	if err := isFolder(p.cmd.Dir); err != nil {
		return nil, err
	}
	group.Head(p.cmd)
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if p.out, err = p.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	logs, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(err, p.in.Close())
	}
	go func() { defer close(p.said); c.logs(logs, &p.last) }()
	return p, nil
}

// base returns the folder in which the server's program starts if it has no cwd: that of the file
// that configures the server. Programs such as npx and python3 -m run files of the folder they start
// in.
func (c *connection) base() string {
	if filepath.IsAbs(c.server.File) {
		return filepath.Dir(c.server.File)
	}
	return c.host.opts.Dir
}

// find looks a program up on the PATH that the server will have.
func (c *connection) find(name string) (string, error) {
	if filepath.Base(name) != name {
		if !filepath.IsAbs(name) {
			name = filepath.Join(c.base(), name)
		}
		found, err := exec.LookPath(name)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("its command %s does not exist", name)
		}
		return found, err
	}
	path, _ := c.host.opts.Env("PATH")
	if v, ok := c.server.Env["PATH"]; ok {
		path = v
	}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		if found, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("its command %q is not on the PATH", name)
}

func (c *connection) environment() []string {
	keep := []string{"PATH", "HOME"}
	if runtime.GOOS == "windows" {
		keep = append(keep, "SYSTEMROOT", "USERPROFILE", "TEMP")
	}
	out := []string{}
	for _, k := range keep {
		if _, named := c.server.Env[k]; named {
			continue
		}
		if v, ok := c.host.opts.Env(k); ok {
			out = append(out, k+"="+v)
		}
	}
	for k, v := range c.server.Env {
		out = append(out, k+"="+v)
	}
	return out
}

// isFolder fails if a server cannot start in dir. The error of the system would name its command
// instead.
func isFolder(dir string) error {
	if dir == "" {
		return nil
	}
	switch info, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("its cwd %s does not exist", dir)
	case err == nil && !info.IsDir():
		return fmt.Errorf("its cwd %s is not a folder", dir)
	}
	return nil
}

// logs writes the first lines of standard error to the log, and keeps the last ones, without the
// operator's secrets. A program can end while it writes one, so at the end the first part of a secret
// is dropped, unless it is shorter than any secret.
func (c *connection) logs(r io.Reader, last *lastLines) {
	l := &splitter{line: c.logged(last)}
	s := c.secrets.Stream(l.write)
	_, _ = io.Copy(s, r) // it ends with the program
	s.Close(s.Held() >= record.MinSecret)
	l.end()
}

// logged returns a function that logs and keeps a line of standard error, or the next part of it.
func (c *connection) logged(last *lastLines) func(text string, part, more bool) {
	n := 0
	return func(text string, part, more bool) {
		if !part {
			last.add(text)
		}
		if n++; n <= mostLines {
			c.host.opts.Logger.Info("server wrote", "server", c.server.Label, "text", text, "cut", more)
		} else if n == mostLines+1 {
			c.host.opts.Logger.Info("dropped further output of a server", "server", c.server.Label)
		}
	}
}

// splitter splits text into lines, and long lines into parts of lineBytes.
type splitter struct {
	line func(text string, part, more bool) // part: not the first of its line; more: not the last
	kept []byte
	part bool
}

func (l *splitter) write(b []byte) {
	for _, c := range b {
		if c == '\n' {
			l.end()
			continue
		}
		if len(l.kept) == lineBytes {
			l.line(string(l.kept), l.part, true)
			l.kept, l.part = l.kept[:0], true
		}
		l.kept = append(l.kept, c)
	}
}

// end ends a line.
func (l *splitter) end() {
	if len(l.kept) > 0 {
		l.line(strings.TrimSuffix(string(l.kept), "\r"), l.part, false)
	}
	l.kept, l.part = l.kept[:0], false
}

// lastLines are the last lines of standard error that have text.
type lastLines struct {
	mu   sync.Mutex
	list []string
}

func (l *lastLines) add(line string) {
	if line = termtext.Line(line); line == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.list = append(l.list, clipped(line, shownBytes)); len(l.list) > shownLines {
		l.list = l.list[1:]
	}
}

func (l *lastLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.list, " | ")
}

// explain ends the program, and adds to an error what it last wrote to standard error. If the error
// is that it is gone, it adds how it exited.
func (p *process) explain(err error) error {
	p.end()
	if state := p.cmd.ProcessState; state != nil && errors.Is(err, errEnded) && state.ExitCode() >= 0 { // else it was killed
		err = fmt.Errorf("it exited with status %d before answering", state.ExitCode())
	}
	if text := p.last.String(); text != "" {
		err = fmt.Errorf("%w; standard error: %s", err, text)
	}
	return err
}

// Read reads the program's standard output.
func (p *process) Read(b []byte) (int, error) {
	n, err := p.out.Read(b)
	if bad := p.c.seen(&p.guard, b[:n]); bad != nil {
		n, err = 0, bad
	}
	if err != nil {
		p.once.Do(func() { close(p.gone) })
		go p.end()
	}
	return n, err
}

// Close stops the program.
func (p *process) Close() error { p.end(); return nil }

// end closes the program's input, waits briefly, and then kills it with everything it started. It
// returns when nothing is left.
func (p *process) end() {
	p.ended.Do(func() {
		_ = p.in.Close()
		t := time.NewTimer(p.c.host.opts.Grace)
		defer t.Stop()
		select {
		case <-p.gone:
		case <-t.C:
		}
		p.err = group.End(p.cmd)
		t.Reset(max(p.c.host.opts.Grace, defaultGrace)) // also a killed process needs a moment on a busy machine
		select {
		case <-p.said:
		case <-t.C: // Wait closes it
			p.c.host.note(p.c, "mcp-process-left", "a process that it started left its group and still holds standard error open")
		}
		_ = p.cmd.Wait() // how it ended says nothing that the calls did not
		<-p.said
		if !group.Gone(p.cmd, max(p.c.host.opts.Grace, defaultGrace)) {
			p.c.host.note(p.c, "mcp-process-left", "a process that it started still runs")
		}
	})
}

// transport is the connection as the protocol library takes it.
func (p *process) transport(limit int) mcp.Transport {
	return inTurn{&mcp.IOTransport{Reader: p, Writer: writer{p}, MaxLineLength: limit}, p.c.heard}
}

// writer is its standard input; the end of it comes with Close of the reader. A
// program that does not read is ended: nothing else could end the write.
type writer struct{ p *process }

func (w writer) Write(b []byte) (int, error) {
	limit := w.p.c.server.call()
	t := time.AfterFunc(limit, func() {
		w.p.c.blame("mcp_timeout", "start a new run to restart the server", fmt.Errorf("the server read nothing for %s and was killed", limit))
		w.p.end()
	})
	defer t.Stop()
	return w.p.in.Write(b)
}

func (w writer) Close() error { return nil }

// stuck reports whether an error is a deadline and no fault of the server's word.
func stuck(ctx context.Context, err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}
