package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"metier"
	"metier/internal/digest"
	"metier/internal/plural"
	"metier/internal/skillsext"
	"metier/record"
)

// Limits on what a server may list.
const (
	maxPages  = 200
	maxTools  = 512
	maxOffer  = 512 << 10 // bytes of the definitions of its tools
	maxSkills = 10_000
)

// connection is the connection to one server: what was negotiated, and what it offered when the run
// began.
type connection struct {
	host    *Host
	server  Server
	secrets *record.Redactor

	session *mcp.ClientSession
	process *process // nil for a URL
	failed  error    // why it cannot be used
	info    string   // its own name and version, for people only
	version string   // of the protocol
	skills  bool     // it declares the extension
	offered []*mcp.Tool

	received atomic.Int64 // bytes it sent
	replies  *replies     // to its requests, over HTTP

	mu     sync.Mutex
	dirty  bool              // it said that its tools changed
	now    map[string]string // digests of the tools as last listed, by name
	blamed *metier.Error     // why the connection breaks, where that is known here
}

// clean removes the operator's secrets from a text.
func (c *connection) clean(s string) string {
	b, _ := c.secrets.Clean([]byte(s))
	return string(b)
}

// head returns at most most bytes of the start of a text, without the operator's secrets, and
// whether there is more. It does not search far beyond them.
func (c *connection) head(s string, most int) (start string, more bool) {
	far := s[:min(len(s), 4*most)]
	b, _ := c.secrets.Clean([]byte(far))
	if len(far) < len(s) {
		b, more = b[:len(b)-c.secrets.Begun(b)], true
	}
	if len(b) > most {
		b, more = b[:most], true
	}
	return strings.ToValidUTF8(string(b), ""), more
}

// clip returns the start of a text without the operator's secrets, and marks where it was cut.
func (c *connection) clip(s string, most int) string {
	s, more := c.head(s, most)
	if more {
		s += "…"
	}
	return s
}

// fault returns an error of the server with a code and a hint.
func (c *connection) fault(op, code, hint string, err error) *metier.Error {
	return &metier.Error{Op: op, Path: MountLabel(c.server.Label), Kind: metier.Unavailable, Code: code, Hint: hint, Err: errors.New(c.clip(err.Error(), mostText))}
}

// open connects and lists the tools. It stores any error.
func (c *connection) open(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, c.server.start())
	defer cancel()
	if err := c.connect(ctx); err != nil {
		code, hint := "mcp-server-failed", "check its command, args, cwd, and env; METIER_LOG=info shows all that it writes to standard error"
		if c.server.URL != "" {
			hint = "check its url and headers"
		}
		if stuck(ctx, err) {
			code, err = "mcp-server-timeout", fmt.Errorf("it did not answer within %s", c.server.start())
			hint = "raise startTimeoutMs of the server, or check what it waits for"
		}
		if gone(err) {
			err = errEnded
		}
		if why := c.reason(); why != nil {
			err = why.Err
		}
		if c.process != nil {
			err = c.process.explain(err)
		}
		c.failed = c.fault("connect", code, hint, err)
		c.host.note(c, code, "it cannot be used: %v", err)
	}
}

var errEnded = errors.New("it exited or closed the connection before answering")

func (c *connection) connect(ctx context.Context) error {
	o := &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}, MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { c.heard(toolsChanged) }} // where there is one, servers are asked for news
	client := mcp.NewClient(&mcp.Implementation{Name: "metier", Version: c.host.opts.Version}, o)
	if err := mcp.AddSendingCustomMethod[*listParams, *listResult](client, "skills/list"); err != nil {
		return err
	}
	if err := mcp.AddSendingCustomMethod[*getParams, *getResult](client, "skills/get"); err != nil {
		return err
	}
	client.AddSendingMiddleware(fresh)
	var t mcp.Transport
	if c.server.URL != "" {
		t = c.remote()
	} else {
		p, err := c.program()
		if err != nil {
			return err
		}
		c.process, t = p, p.transport(c.host.opts.Message)
	}
	type dialled struct {
		s   *mcp.ClientSession
		err error
	}
	done := make(chan dialled, 1)
	live := context.WithoutCancel(ctx) // the connection outlives the time it has to begin
	calls, cancel := context.WithCancel(live)
	stop := context.AfterFunc(ctx, cancel)
	go func() { s, err := client.Connect(calls, t, nil); done <- dialled{s, err} }()
	select {
	case d := <-done:
		if !stop() && d.err == nil {
			_ = d.s.Close()
			return ctx.Err()
		}
		if d.err != nil {
			cancel()
			return d.err
		}
		c.session = d.s
	case <-ctx.Done():
		if c.process != nil {
			c.process.end()
		}
		go func() {
			if d := <-done; d.err == nil {
				_ = d.s.Close()
			}
		}()
		return ctx.Err()
	}
	c.agreed()
	return c.listTools(ctx)
}

// agreed stores what the server declares.
func (c *connection) agreed() {
	r := c.session.InitializeResult()
	c.version = r.ProtocolVersion
	if r.ServerInfo != nil {
		c.info = c.clip(r.ServerInfo.Name+" "+r.ServerInfo.Version, 200)
	}
	if r.Capabilities == nil {
		return
	}
	_, c.skills = r.Capabilities.Extensions[skillsext.Name]
}

// fresh bypasses the library's cache, because what is read is checked against the server's current
// state.
func fresh(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		r, err := next(ctx, method, req)
		switch v := r.(type) {
		case *mcp.ReadResourceResult:
			if v != nil {
				v.Cacheable = mcp.Cacheable{}
			}
		case *mcp.ListToolsResult:
			if v != nil {
				v.Cacheable = mcp.Cacheable{}
			}
		}
		return r, err
	}
}

// all lists the tools, page by page.
func (c *connection) all(ctx context.Context) ([]*mcp.Tool, error) {
	if caps := c.session.InitializeResult().Capabilities; caps == nil || caps.Tools == nil {
		return nil, nil
	}
	var out []*mcp.Tool
	seen, begun := map[string]bool{}, c.received.Load()
	for p := (&mcp.ListToolsParams{}); ; {
		r, err := c.session.ListTools(ctx, p)
		if err != nil {
			return nil, err
		}
		out = append(out, r.Tools...)
		switch {
		case r.NextCursor == "", len(out) > maxTools:
			return out, nil
		case seen[r.NextCursor] || len(seen) >= maxPages || c.received.Load()-begun > c.listing():
			return nil, errors.New("its list of tools does not end")
		}
		seen[r.NextCursor] = true
		p = &mcp.ListToolsParams{Cursor: r.NextCursor}
	}
}

func (c *connection) listTools(ctx context.Context) error {
	tools, err := c.all(ctx)
	if err != nil {
		return fmt.Errorf("list its tools: %w", err)
	}
	if len(tools) > maxTools {
		c.host.note(c, "mcp-tools-cut", "it has more than %d tools; only the first ones are used", maxTools)
		tools = tools[:maxTools]
	}
	if n := fitting(tools); n < len(tools) {
		c.host.note(c, "mcp-tools-cut", "the definitions of its %d tools have more than %d KiB; the first %d are taken", len(tools), maxOffer>>10, n)
		tools = tools[:n]
	}
	c.offered, c.now = tools, digests(tools)
	return nil
}

// fitting returns how many of the tools the model can be offered. It reads their definitions on each
// turn.
func fitting(tools []*mcp.Tool) int {
	size := 0
	for i, t := range tools {
		schema, err := json.Marshal(t.InputSchema)
		if err != nil {
			continue // refused later
		}
		if size += len(t.Name) + min(len(t.Description), maxDescription) + len(schema); size > maxOffer {
			return i
		}
	}
	return len(tools)
}

// listing returns the maximum size of all pages of a list, in bytes.
func (c *connection) listing() int64 { return 2 * int64(c.host.opts.Message) }

// digests identify the offered tools, to detect changes.
func digests(tools []*mcp.Tool) map[string]string {
	out := map[string]string{}
	for _, t := range tools {
		b, err := json.Marshal(map[string]any{"name": t.Name, "description": t.Description, "schema": t.InputSchema, "annotations": t.Annotations})
		if err != nil {
			continue
		}
		out[t.Name] += digest.Bytes(b)
	}
	return out
}

// same checks that a tool has not changed since the run began. If the server reported a change, the
// list is read again.
func (c *connection) same(ctx context.Context, name, was string) error {
	c.mu.Lock()
	dirty := c.dirty
	c.dirty = false
	c.mu.Unlock()
	if dirty {
		tools, err := c.all(ctx)
		c.mu.Lock()
		if err != nil {
			c.dirty = true
			c.mu.Unlock()
			return c.broken(ctx, err)
		}
		old := c.now
		c.now = digests(tools)
		fresh := slices.DeleteFunc(slices.Sorted(maps.Keys(c.now)), func(n string) bool { return old[n] != "" })
		c.mu.Unlock()
		if len(fresh) > 0 {
			c.host.note(c, "mcp-tools-new", "it has %s since the run started, which this run does not use: %s", plural.Of(len(fresh), "new tool"), strings.Join(fresh[:min(len(fresh), 10)], ", "))
		}
	}
	c.mu.Lock()
	now, there := c.now[name]
	c.mu.Unlock()
	switch {
	case !there:
		return c.refusal("mcp_tool_gone", "the server does not have this tool any more")
	case now != was:
		return c.refusal("mcp_tool_changed", "the server changed this tool since the run began")
	}
	return nil
}

func (c *connection) refusal(code, text string) error {
	return &metier.Error{Op: "call", Path: MountLabel(c.server.Label), Kind: metier.Drift, Code: code, Hint: "start a new run to see the tool as it is now", Err: errors.New(text)}
}

// broken describes the failure of a request.
func (c *connection) broken(ctx context.Context, err error) error {
	if e, ok := errors.AsType[*metier.Error](err); ok {
		return e
	}
	if why := c.reason(); why != nil {
		return why
	}
	if wire, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return c.fault("call", "mcp_error", "", fmt.Errorf("the server answers with error %d: %s", wire.Code, wire.Message))
	}
	switch {
	case stuck(ctx, err):
		return c.fault("call", "mcp_timeout", "raise callTimeoutMs of the server, or ask for less", fmt.Errorf("the server did not answer within %s", c.server.call()))
	case gone(err):
		return c.fault("call", "mcp_server_gone", "start a new run to restart the server", errors.New("the server exited or closed the connection"))
	}
	return c.fault("call", "mcp_failed", "", err)
}

// gone reports whether an error means that the server is no longer running.
func gone(err error) bool {
	return errors.Is(err, mcp.ErrConnectionClosed) || errors.Is(err, io.EOF) || errors.Is(err, os.ErrClosed) || errors.Is(err, syscall.EPIPE)
}

func (c *connection) close() error {
	if c.session != nil {
		done := make(chan struct{})
		go func() { defer close(done); _ = c.session.Close() }()
		if c.process != nil {
			c.process.end()
		}
		<-done
	}
	if c.process != nil {
		c.process.end()
		return c.process.err
	}
	return nil
}
