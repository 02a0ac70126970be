package cli

import (
	"errors"
	"io"
	"sync"
)

// output is standard output that remembers that it failed: whoever prints a
// table does not look, and what was asked for must not be lost without a word.
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

// printed is the error of a command whose output may not have gone out.
func (a *app) printed(err error) error {
	o, ok := a.Out.(*output)
	if !ok || o.err == nil || err != nil && !errors.Is(err, o.err) {
		return err
	}
	return &problem{exit: exitFailed, code: "output_unwritable", err: o.err,
		hint: "send standard output where there is space; nothing recorded is lost, 'metier runs show latest' prints it again"}
}

// together is standard error of several at once: subagents work beside their
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
