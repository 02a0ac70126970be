package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"metier/internal/typeahead"
)

// keyboard reads lines from the user on demand.
type keyboard struct {
	lines   chan entered
	wanted  chan struct{}
	reading bool // a line is wanted that did not come yet
}

// entered is a line that was typed.
type entered struct {
	line string
	err  error
}

// typed shows a prompt and returns the line typed after it. Lines typed earlier are ignored.
func (a *app) typed(ctx context.Context, prompt string) (string, error) {
	k := &a.keyboard
	dropped, err := k.forget(a.In)
	if err != nil {
		return "", fmt.Errorf("discard what was typed before the question: %w", err)
	}
	if dropped {
		fmt.Fprintln(a.Err, "note: input typed before this question is ignored")
	}
	fmt.Fprint(a.Err, prompt)
	return k.line(ctx, a.In)
}

// line reads a line, or returns when ctx ends. A line that arrives later is dropped by the next
// call.
func (k *keyboard) line(ctx context.Context, in io.Reader) (string, error) {
	if k.lines == nil {
		k.lines, k.wanted = make(chan entered, 1), make(chan struct{}, 1)
		go func() {
			lines := bufio.NewReader(in)
			for range k.wanted {
				line, err := lines.ReadString('\n')
				k.lines <- entered{line, err}
			}
		}()
	}
	if !k.reading {
		k.wanted <- struct{}{}
		k.reading = true
	}
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case e := <-k.lines:
		k.reading = false
		return e.line, e.err
	}
}

// forget drops the lines typed so far and reports whether there were any.
func (k *keyboard) forget(in io.Reader) (dropped bool, err error) {
	if f, is := in.(*os.File); is && term.IsTerminal(int(f.Fd())) {
		if dropped, err = typeahead.Drop(f); err != nil {
			return false, err
		}
	}
	select {
	case e := <-k.lines:
		k.reading, dropped = false, dropped || e.line != ""
	default:
	}
	return dropped, nil
}
