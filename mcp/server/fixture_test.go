package server_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"metier"
	"metier/event"
	"metier/mcp/server"
	"metier/policy"
	"metier/record"
	"metier/settings"
	"metier/source/local"
)

// fixture is a folder of skills, a server over it, and the records that its
// sessions leave.
type fixture struct {
	t       *testing.T
	dir     string
	profile string
	grants  func(*policy.Grants)
	tools   []metier.Tool
	options func(*server.Options)
	opening func(server.Client) error // before a session is opened
	body    time.Duration             // server.Options.Body
	nested  settings.Nested
	client  string // clientInfo.name; "": test
	blocks  bool   // injections are withheld, whatever the tier
	server  *server.Server

	mu   sync.Mutex
	logs map[server.Client][]*record.Memory
	kept []weak.Pointer[metier.Session] // that were opened
	open atomic.Int64
	ends chan server.Client // whose session ended
}

func skill(name, description, body string) string {
	return "---\nname: " + name + "\ndescription: " + description + "\n---\n" + body + "\n"
}

// start serves files; change is the difference from the default profile.
func start(t *testing.T, files map[string]string, change ...func(*fixture)) *fixture {
	t.Helper()
	w := &fixture{t: t, dir: t.TempDir(), profile: settings.DefaultProfile, logs: map[server.Client][]*record.Memory{}, ends: make(chan server.Client, 100)}
	for _, c := range change {
		c(w)
	}
	for name, text := range files {
		w.put(name, text)
	}
	var n atomic.Int64
	o := &server.Options{Version: "test", PageSize: 3, Body: w.body, NewID: func() string { return "id" + strconv.FormatInt(n.Add(1), 10) }}
	if w.options != nil {
		w.options(o)
	}
	s, err := server.New(t.Context(), w, o)
	if err != nil {
		t.Fatal(err)
	}
	w.server = s
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if n := w.open.Load(); n != 0 {
			t.Errorf("%d sessions were left open", n)
		}
	})
	return w
}

func (w *fixture) put(name, text string) {
	w.t.Helper()
	p := filepath.Join(w.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w *fixture) settings() (settings.Settings, error) {
	layer, err := settings.Profile(w.profile)
	if err != nil {
		return settings.Settings{}, err
	}
	set, _, err := settings.Resolve(layer, settings.Layer{Name: "test", Operator: true, Values: map[string]string{"paths": "none"}})
	return set, err
}

func (w *fixture) Snapshot(ctx context.Context) (*metier.Snapshot, error) {
	set, err := w.settings()
	if err != nil {
		return nil, err
	}
	src, err := local.New(w.dir, &local.Options{Nested: w.nested})
	if err != nil {
		return nil, err
	}
	return metier.Build(ctx, []metier.Mount{{Label: "project", Tier: policy.Project, Source: src, Root: w.dir}}, set.Parse, set.Names, set.Read.IndexRoot, false)
}

func (w *fixture) granted() policy.Grants {
	set, err := w.settings()
	if err != nil {
		w.t.Fatal(err)
	}
	p, x := set.Policy, set.Exec
	g := policy.Grants{Mode: policy.Mode(p.Mode), Narrow: policy.Narrowing(p.AllowedTools), Merge: policy.Merge(p.Merge),
		ScriptRule: policy.ScriptRule(x.Scripts), Approval: policy.Approval(x.Approval), Network: policy.NetworkRule(x.Network), Tools: []string{settings.ToolLoadSkill, settings.ToolReadSkillResource, settings.ToolListSkills, settings.ToolSearchSkills, server.ToolPrompt, server.ToolFile}}
	for _, t := range w.tools {
		spec, _ := t.Spec(w.t.Context(), nil)
		g.Tools = append(g.Tools, spec.Canonical)
	}
	if w.grants != nil {
		w.grants(&g)
	}
	return g
}

func (w *fixture) Serves(sk metier.Skill) bool {
	g := w.granted()
	effect, _ := g.Skill(sk.ID.String(), sk.Name)
	return effect != policy.RuleDeny
}

func (w *fixture) Blocks(policy.Tier) bool {
	return w.blocks
}

func (w *fixture) Open(ctx context.Context, c server.Client, snapshot func(context.Context) (*metier.Snapshot, error)) (*metier.Session, func() error, error) {
	snap, err := snapshot(ctx)
	if err != nil {
		return nil, nil, err
	}
	if w.opening != nil {
		if err := w.opening(c); err != nil {
			return nil, nil, err
		}
	}
	set, err := w.settings()
	if err != nil {
		return nil, nil, err
	}
	log := record.NewMemory()
	s, err := metier.Open(ctx, metier.Config{ID: "s", By: "operator", Log: log, Blobs: log, Snapshot: snap, Tools: append(server.Tools(), w.tools...), Settings: set, Grants: w.granted(),
		View: metier.View{Paths: set.Catalog.Paths}, ToolsOnly: true, Refresh: snapshot})
	if err != nil {
		return nil, nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logs[c] = append(w.logs[c], log)
	w.kept = append(w.kept, weak.Make(s))
	w.open.Add(1)
	return s, func() error { w.open.Add(-1); w.ends <- c; return s.Close(context.WithoutCancel(ctx)) }, nil
}

// events returns those of one type that the sessions of a client recorded.
func events[E event.Event](w *fixture, c server.Client) (out []E) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, log := range w.logs[c] {
		for en, err := range log.Read(context.Background(), 1) {
			if err != nil {
				w.t.Fatal(err)
			}
			e, err := event.Decode(en)
			if err != nil {
				w.t.Fatal(err)
			}
			if e, is := e.(E); is {
				out = append(out, e)
			}
		}
	}
	return out
}

// actors returns the actors of the entries of one type in the records of a
// client's sessions.
func (w *fixture) actors(c server.Client, of event.Event) (out []string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, log := range w.logs[c] {
		for en, err := range log.Read(context.Background(), 1) {
			if err != nil {
				w.t.Fatal(err)
			}
			if en.Type == of.Type() {
				out = append(out, en.By)
			}
		}
	}
	return out
}

// client is one connection through the protocol library.
type client struct {
	*mcp.ClientSession
	t       *testing.T
	changed chan string // names of notifications about lists
}

// named connects as the client with that name.
func (w *fixture) named(name string) *client {
	w.client = name
	return w.stdio(nil)
}

// stdio connects like a program that started the server.
func (w *fixture) stdio(o *mcp.ClientOptions) *client { return w.stdioOf("", o) }

func (w *fixture) stdioOf(version string, o *mcp.ClientOptions) *client {
	w.t.Helper()
	in, theirs := io.Pipe()
	ours, out := io.Pipe()
	ended := make(chan struct{})
	go func() { defer close(ended); _ = w.server.Serve(w.t.Context(), in, out) }()
	c := w.connect(&mcp.IOTransport{Reader: ours, Writer: theirs}, version, o)
	w.t.Cleanup(func() { c.Close(); <-ended })
	return c
}

func (w *fixture) connect(t mcp.Transport, version string, o *mcp.ClientOptions) *client {
	w.t.Helper()
	c := &client{t: w.t, changed: make(chan string, 100)}
	if o == nil {
		o = &mcp.ClientOptions{}
	}
	o.ToolListChangedHandler = func(context.Context, *mcp.ToolListChangedRequest) { c.changed <- "tools" }
	o.PromptListChangedHandler = func(context.Context, *mcp.PromptListChangedRequest) { c.changed <- "prompts" }
	o.ResourceListChangedHandler = func(context.Context, *mcp.ResourceListChangedRequest) { c.changed <- "resources" }
	m := mcp.NewClient(&mcp.Implementation{Name: cmp.Or(w.client, "test"), Version: "1"}, o)
	err := errors.Join(mcp.AddSendingCustomMethod[*listParams, *extResult](m, "skills/list"), mcp.AddSendingCustomMethod[*uriParams, *extResult](m, "skills/get"),
		mcp.AddSendingCustomMethod[*uriParams, *extResult](m, "resources/directory/read"))
	if err != nil {
		w.t.Fatal(err)
	}
	if c.ClientSession, err = m.Connect(w.t.Context(), t, &mcp.ClientSessionOptions{ProtocolVersion: version}); err != nil {
		w.t.Fatal(err)
	}
	return c
}

// bearer sends a token with each request.
type bearer struct{ token string }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if b.token != "" {
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	return http.DefaultTransport.RoundTrip(r)
}

func (w *fixture) http(a server.Access) *httptest.Server {
	h := httptest.NewServer(w.server.Handler(a))
	w.t.Cleanup(h.Close)
	return h
}

func (w *fixture) over(h *httptest.Server, token, version string, o *mcp.ClientOptions) *client {
	w.t.Helper()
	c := w.connect(&mcp.StreamableClientTransport{Endpoint: h.URL, HTTPClient: &http.Client{Transport: bearer{token}}}, version, o)
	w.t.Cleanup(func() { c.Close() })
	return c
}

// call calls a tool that succeeds.
func (c *client) call(name string, args map[string]any) *mcp.CallToolResult {
	c.t.Helper()
	r, err := c.CallTool(c.t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

func said(r *mcp.CallToolResult) string {
	text := ""
	for _, p := range r.Content {
		if p, is := p.(*mcp.TextContent); is {
			text += p.Text
		}
	}
	return text
}

// into decodes a structured result.
func into[T any](t *testing.T, v any) (out T) {
	t.Helper()
	b, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}
