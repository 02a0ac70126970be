package cli

import (
	"errors"
	"io"
	"sync"
)

// output is standard output that remembers write errors. Code that prints a table does not check
// them, and output must not be lost silently.
type output struct {
	io.Writer
	err error // the first one
}

func (o *output) Write(b []byte) (int, error) {
	n, err := o.Writer.Write(b)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// printed adds a write error of standard output to the error of a command.
func (a *app) printed(err error) error {
	o, ok := a.Out.(*output)
	if !ok || o.err == nil || err != nil && !errors.Is(err, o.err) {
		return err
	}
	p := &problem{exit: exitFailed, code: "output_unwritable", err: o.err, hint: "check the disk, or the program that reads the pipe"}
	if r := a.working.Load(); r != nil {
		p.hint += "; the record is complete, and 'metier runs show " + a.named(*r) + "' prints the answer"
	}
	return p
}

// together is a standard error stream for concurrent writers, because subagents run beside their
// parent.
type together struct {
	mu sync.Mutex
	w  io.Writer
}

func (t *together) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.w.Write(b)
}
