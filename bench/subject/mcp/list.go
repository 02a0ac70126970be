package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"metier"
	"metier/bench/subject"
	"metier/mcp/server"
	"metier/policy"
	"metier/record"
	"metier/settings"
	"metier/source/local"
)

const (
	newest = "2026-07-28"
	older  = "2025-11-25"

	pageSize = 200 // of both servers
)

// shop is the backend of our server: the default settings, records in memory.
type shop struct{ dir string }

func (s shop) Snapshot(ctx context.Context) (*metier.Snapshot, error) {
	set, _, err := settings.Resolve()
	if err != nil {
		return nil, err
	}
	src, err := local.New(s.dir, nil)
	if err != nil {
		return nil, err
	}
	return metier.Build(ctx, []metier.Mount{{Label: "bench", Tier: policy.User, Source: src, Root: s.dir}}, set.Parse, set.Names, set.Read.IndexRoot, false)
}

func (s shop) Serves(metier.Skill) bool { return true }
func (s shop) Blocks(policy.Tier) bool  { return false }

func (s shop) Open(ctx context.Context, _ server.Client, snapshot func(context.Context) (*metier.Snapshot, error)) (*metier.Session, func() error, error) {
	set, _, err := settings.Resolve()
	if err != nil {
		return nil, nil, err
	}
	snap, err := snapshot(ctx)
	if err != nil {
		return nil, nil, err
	}
	log := record.NewMemory()
	ses, err := metier.Open(ctx, metier.Config{ID: "s", Log: log, Blobs: log, Snapshot: snap, Tools: server.Tools(), Settings: set, Grants: policy.Grants{Tools: []string{settings.ToolLoadSkill}}, ToolsOnly: true})
	if err != nil {
		return nil, nil, err
	}
	return ses, func() error { return ses.Close(context.WithoutCancel(ctx)) }, nil
}

type listParams struct {
	mcp.ParamsBase
	Cursor string `json:"cursor,omitempty"`
}

type uriParams struct {
	mcp.ParamsBase
	URI string `json:"uri"`
}

// entry is a skill, as the bare server holds it ready.
type entry struct {
	URI         string          `json:"uri"`
	Frontmatter json.RawMessage `json:"frontmatter"`
	Resources   []file          `json:"resources"`
}

type file struct {
	URI    string `json:"uri"`
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
}

type listResult struct {
	mcp.ResultBase
	Skills []*entry `json:"skills"`
	Next   string   `json:"nextCursor,omitempty"`
	Type   string   `json:"resultType,omitempty"`
	TTL    *int     `json:"ttlMs,omitempty"`
	Scope  string   `json:"cacheScope,omitempty"`
}

type getResult struct {
	mcp.ResultBase
	Skill entry `json:"skill"`
}

// unread is a result whose skills the client of the race does not look into:
// its own work would only make servers look alike.
type unread struct {
	mcp.ResultBase
	Skills json.RawMessage `json:"skills"`
	Next   string          `json:"nextCursor,omitempty"`
}

// bare is a server of the protocol's library alone, which has the pages ready.
func bare(pages map[string]*listResult) (*mcp.Server, error) {
	s := mcp.NewServer(&mcp.Implementation{Name: "bare", Version: "1"}, nil)
	return s, mcp.AddReceivingCustomMethod(s, "skills/list", func(_ context.Context, _ *mcp.ServerSession, p *listParams) (*listResult, error) {
		if r := pages[p.Cursor]; r != nil {
			return r, nil
		}
		return nil, errors.New("no such page")
	})
}

func connect(ctx context.Context, t mcp.Transport, version string) (*mcp.ClientSession, error) {
	c := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	if err := errors.Join(mcp.AddSendingCustomMethod[*listParams, *unread](c, "skills/list"), mcp.AddSendingCustomMethod[*uriParams, *getResult](c, "skills/get")); err != nil {
		return nil, err
	}
	return c.Connect(ctx, t, &mcp.ClientSessionOptions{ProtocolVersion: version})
}

// list reads all pages and counts the bytes of their skills.
func list(ctx context.Context, c *mcp.ClientSession) (bytes int, pages []*unread, err error) {
	for p := (&listParams{}); ; {
		r, err := mcp.CallCustomMethod[*listParams, *unread](ctx, c, "skills/list", p)
		if err != nil {
			return 0, nil, err
		}
		bytes, pages = bytes+len(r.Skills), append(pages, r)
		if p.Cursor = r.Next; p.Cursor == "" {
			return bytes, pages, nil
		}
	}
}

// ready makes the pages of the bare server from what ours answers.
func ready(ctx context.Context, c *mcp.ClientSession) (map[string]*listResult, error) {
	out, at, ttl := map[string]*listResult{}, "", 5000
	_, pages, err := list(ctx, c)
	for _, u := range pages {
		r := &listResult{Next: u.Next, Type: "complete", TTL: &ttl, Scope: "private"}
		if err := json.Unmarshal(u.Skills, &r.Skills); err != nil {
			return nil, err
		}
		out[at], at = r, u.Next
	}
	return out, err
}

// way is how clients reach a server.
type way struct {
	name string
	to   func(ctx context.Context, s *mcp.Server, ours *server.Server) (mcp.Transport, error)
	done []func()
}

func (w *way) http(_ context.Context, s *mcp.Server, ours *server.Server) (mcp.Transport, error) {
	var h http.Handler
	if ours != nil {
		h = ours.Handler(server.Access{})
	} else {
		h = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true})
	}
	t := httptest.NewServer(h)
	w.done = append(w.done, t.Close)
	return &mcp.StreamableClientTransport{Endpoint: t.URL}, nil
}

func (w *way) stdio(ctx context.Context, s *mcp.Server, ours *server.Server) (mcp.Transport, error) {
	in, theirs := io.Pipe()
	mine, out := io.Pipe()
	go func() { // ends with its pipes
		if ours != nil {
			_ = ours.Serve(ctx, in, out)
		} else {
			_ = s.Run(ctx, &mcp.IOTransport{Reader: in, Writer: out})
		}
	}()
	w.done = append(w.done, func() { theirs.Close(); out.Close() })
	return &mcp.IOTransport{Reader: mine, Writer: theirs}, nil
}

// race lists all skills of a folder, by turns from ours and from the bare one.
func race(ctx context.Context, dir string, rounds int) (all []subject.Timing, err error) {
	ours, err := server.New(ctx, shop{dir}, &server.Options{PageSize: pageSize})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, ours.Close()) }()
	for _, kind := range []string{"HTTP, 2026-07-28", "streams, 2026-07-28"} {
		t, err := raceOver(ctx, kind, ours, rounds)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
		all = append(all, t...)
	}
	return all, nil
}

func raceOver(ctx context.Context, kind string, ours *server.Server, rounds int) ([]subject.Timing, error) {
	w := &way{}
	w.to = w.http
	if kind[:1] != "H" {
		w.to = w.stdio
	}
	defer func() {
		for _, f := range w.done {
			f()
		}
	}()
	client := func(s *mcp.Server, o *server.Server) (*mcp.ClientSession, error) {
		t, err := w.to(ctx, s, o)
		if err != nil {
			return nil, err
		}
		return connect(ctx, t, newest)
	}
	mine, err := client(nil, ours)
	if err != nil {
		return nil, err
	}
	defer mine.Close()
	pages, err := ready(ctx, mine)
	if err != nil {
		return nil, err
	}
	s, err := bare(pages)
	if err != nil {
		return nil, err
	}
	theirs, err := client(s, nil)
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	all := []subject.Timing{{Group: kind, Name: "the protocol's library alone"}, {Group: kind, Name: "metier"}}
	clients := []*mcp.ClientSession{theirs, mine}
	size := [2]int{}
	for round := range rounds + 3 { // the first ones fill caches
		for turn := range 2 {
			i := (turn + round) % 2
			runtime.GC() // what the one before left behind is not this one's work
			begin := time.Now()
			n, _, err := list(ctx, clients[i])
			took := time.Since(begin)
			if err != nil {
				return nil, err
			}
			if size[i] = n; round >= 3 {
				all[i].Nanos = append(all[i].Nanos, took.Nanoseconds())
			}
		}
	}
	if size[0] != size[1] {
		return nil, fmt.Errorf("the servers answer with %d and %d bytes", size[0], size[1])
	}
	return all, nil
}
