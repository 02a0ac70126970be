package cli_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A client can request progress of its script and how much it wrote. Canceling the call ends the
// script, and the record says so.
func TestAScriptTellsOfItsProgressAndCanBeCancelled(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"", "2025-11-25", "2026-07-28"} { // "": on standard input and output
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.write(map[string]string{"shelf/report/scripts/slow.sh": "echo 0123456789\necho $$ >/workspace/slow.txt\nwhile :; do sleep 1; done\n",
				"tokens": "ann token-of-ann-0123456789\n"})
			told := make(chan string, 100)
			o := &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
				told <- r.Params.Message
			}}
			var transport mcp.Transport
			args := []string{"--allow-skill-script", "report:scripts/slow.sh"}
			end := func() {}
			if version == "" {
				transport = &mcp.CommandTransport{Command: p.command("metier", append([]string{"mcp"}, args...)...), TerminateDuration: 30 * time.Second}
			} else {
				w := p.servesHTTP(append(args, "--token-file", filepath.Join(p.home, "tokens"))...)
				transport, end = w.bearing("token-of-ann-0123456789"), func() { w.end(false) }
			}
			c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o).Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
			if err != nil {
				t.Fatal(err)
			}
			(mcpClient{c, t}).call("load_skill", map[string]any{"name": "report"})
			ctx, cancel := context.WithCancel(t.Context())
			call := &mcp.CallToolParams{Name: "run_skill_script", Arguments: map[string]any{"skill": "report", "path": "scripts/slow.sh"}}
			call.SetProgressToken("p1")
			done := make(chan error, 1)
			go func() { _, err := c.CallTool(ctx, call); done <- err }()
			for said := ""; !strings.Contains(said, "11 bytes of output"); said = <-told {
				select {
				case err := <-done:
					t.Fatalf("the call ended: %v", err)
				default:
				}
			}
			cancel()
			if err := <-done; err == nil {
				t.Error("a cancelled call gave a result")
			}
			script := p.script(t)
			for ; script == nil && t.Context().Err() == nil; script = p.script(t) { // notifications reach the server asynchronously
			}
			if script["status"] != "executed" || script["limit"] != "cancelled" {
				t.Errorf("the record: %v", script)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			end()
		})
	}
}

// A client's scripts run at most eight at a time, so that their limits protect the machine.
func TestMCP_BoundsScriptsThatRunAtOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(map[string]string{"shelf/report/scripts/slow.sh": "until test -e /workspace/go; do sleep 0.1; done\n"})
	transport := &mcp.CommandTransport{Command: p.command("metier", "mcp", "--allow-skill-script", "report:scripts/slow.sh"), TerminateDuration: 30 * time.Second}
	told := make(chan any, 1000)
	o := &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
		told <- r.Params.ProgressToken
	}}
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o).Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	(mcpClient{c, t}).call("load_skill", map[string]any{"name": "report"})
	run := func(token string) error {
		call := &mcp.CallToolParams{Name: "run_skill_script", Arguments: map[string]any{"skill": "report", "path": "scripts/slow.sh"}}
		call.SetProgressToken(token)
		_, err := c.CallTool(t.Context(), call)
		return err
	}
	done := make(chan error, 8)
	for i := range 8 {
		go func() { done <- run(string(rune('a' + i))) }()
	}
	for running := map[any]bool{}; len(running) < 8; {
		select {
		case token := <-told:
			running[token] = true
		case err := <-done:
			t.Fatalf("a call ended: %v", err)
		}
	}
	if err := run("x"); err == nil || !strings.Contains(err.Error(), "too_many_calls") {
		t.Errorf("one more: %v", err)
	}
	if err := os.WriteFile(filepath.Join(p.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if err := run("y"); err != nil {
		t.Errorf("one after them: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// script returns the entry of the newest record for the one script that ended,
// or nil.
func (p *place) script(t *testing.T) map[string]any {
	t.Helper()
	_, out := p.metier("runs", "show", "latest", "--json")
	var r struct {
		Scripts []map[string]any
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if len(r.Scripts) == 0 {
		return nil
	}
	return r.Scripts[0]
}
