package server_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"metier/mcp/server"
)

// tokens of two principals.
var tokens = map[string]string{"ann": "token-of-ann-0123456789", "bob": "token-of-bob-0123456789"}

// Opening a session takes a while, since it creates a record. Calls of the same
// client wait for it and share it. Other clients do not wait, and the session
// knows what was found meanwhile.
func TestOpeningASessionHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	entered, open := make(chan struct{}, 10), make(chan struct{})
	w := start(t, library, func(w *fixture) {
		w.opening = func(c server.Client) error {
			if c.Principal == "ann" {
				entered <- struct{}{}
				<-open
			}
			return nil
		}
	})
	release := sync.OnceFunc(func() { close(open) })
	t.Cleanup(release) // before the server is closed
	h := w.http(server.Access{Tokens: tokens})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // only if it fails
	defer cancel()
	load := func(who, skill string) (string, error) {
		c := w.over(h, tokens[who], newest, nil)
		r, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "load_skill", Arguments: map[string]any{"name": skill}})
		if err != nil {
			return "", err
		}
		return said(r), nil
	}
	type answer struct {
		text string
		err  error
	}
	ann := make(chan answer, 2)
	go func() { text, err := load("ann", "guide"); ann <- answer{text, err} }()
	<-entered
	go func() { text, err := load("ann", "new"); ann <- answer{text, err} }()
	if text, err := load("bob", "guide"); err != nil || !strings.Contains(text, "Read references/way.md.") {
		t.Fatalf("bob, while the session of ann is opened: %q, %v", text, err)
	}
	w.put("new/SKILL.md", skill("new", "A new one.", "New."))
	if err := w.server.Refresh(ctx); err != nil {
		t.Errorf("looking for changes meanwhile: %v", err)
	}
	release()
	for range 2 {
		if a := <-ann; a.err != nil || !strings.Contains(a.text, "Read references/way.md.") && !strings.Contains(a.text, "New.") {
			t.Errorf("ann: %q, %v", a.text, a.err)
		}
	}
	if n := len(w.logs[server.Client{Principal: "ann"}]); n != 1 {
		t.Errorf("ann has %d sessions", n)
	}
}

// A session that cannot be opened fails its calls, and the next call tries
// again.
func TestASessionThatCannotBeOpenedIsTriedAgain(t *testing.T) {
	t.Parallel()
	var full atomic.Bool
	full.Store(true)
	w := start(t, library, func(w *fixture) {
		w.opening = func(c server.Client) error {
			if c.Principal == "ann" && full.Load() {
				return &os.PathError{Op: "mkdir", Path: filepath.Join(w.dir, "records"), Err: errors.New("no space")}
			}
			return nil
		}
	})
	c := w.over(w.http(server.Access{Tokens: tokens}), tokens["ann"], newest, nil)
	load := &mcp.CallToolParams{Name: "load_skill", Arguments: map[string]any{"name": "guide"}}
	if r, err := c.CallTool(t.Context(), load); err == nil || strings.Contains(err.Error(), w.dir) {
		t.Errorf("%+v, %v", r, err)
	}
	full.Store(false)
	if r := c.call("load_skill", map[string]any{"name": "guide"}); r.IsError {
		t.Error(said(r))
	}
}
