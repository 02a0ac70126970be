// Package serve is the MCP server of an engine. Each client has a session, and each session leaves
// a record, like a run.
package serve

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"metier"
	"metier/engine"
	"metier/mcp/server"
	"metier/policy"
	"metier/record"
	"metier/settings"
)

// Options configure a server.
type Options struct {
	Version   string
	Watch     time.Duration // how often to look for changed skills; 0: never
	Anonymous int           // records of anonymous requests to keep; 0: all
}

// Server serves the skills of one plan.
type Server struct {
	*server.Server
	run    *engine.Run
	guests *anonymousSessions
	stop   func()
}

// over holds the settings that differ where a client may be on another machine:
// paths of this one mean nothing there.
var over = settings.Layer{Name: "mcp", Operator: true, Values: map[string]string{"paths": "none"}}

// Plan resolves a request of a server: the tools for skills, and scripts if the
// operator named some.
func Plan(ctx context.Context, e *engine.Engine, q engine.Request) (*engine.Plan, error) {
	q.Layers = slices.Concat([]settings.Layer{over}, q.Layers)
	q.PromptRole, q.Batch = policy.Context, true
	q.Tools = []string{settings.ToolLoadSkill, settings.ToolReadSkillResource, settings.ToolListSkills, settings.ToolSearchSkills, server.ToolPrompt, server.ToolFile}
	p, granted, err := e.PlanTools(ctx, q)
	if err != nil {
		return nil, err
	}
	p.GrantHarness()
	p.GrantScripts(granted)
	return p, nil
}

// Open starts serving a plan.
func Open(ctx context.Context, e *engine.Engine, p *engine.Plan, o Options) (*Server, error) {
	r, err := e.Open(ctx, p, engine.Hooks{})
	if err != nil {
		return nil, err
	}
	workspace, root := r.Records()
	if err := e.CheckRecords(root); err != nil {
		return nil, errors.Join(err, r.Close(context.WithoutCancel(ctx)))
	}
	b := &backend{run: r, guests: newAnonymousSessions(e, workspace, root, o.Anonymous)}
	full := func(code, text string) {
		e.Logger().Warn(text, "code", code)
		e.Notify(engine.Notice{Code: code, Severity: engine.Warning, Text: text})
	}
	s, err := server.New(ctx, b, &server.Options{Version: o.Version, Now: e.Now, Logger: e.Logger(), OnRecordFull: full})
	if err != nil {
		return nil, errors.Join(err, r.Close(context.WithoutCancel(ctx)))
	}
	b.server.Store(s)
	stop := func() {}
	if o.Watch > 0 {
		watching, enough := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() { defer close(done); s.Watch(watching, o.Watch) }()
		stop = func() { enough(); <-done }
	}
	return &Server{s, r, b.guests, stop}, nil
}

// NoteReadOnly reports if programs cannot write to the workspace.
func (s *Server) NoteReadOnly() { s.run.NoteReadOnly() }

// Close ends all sessions and makes their records durable.
func (s *Server) Close(ctx context.Context) error {
	s.stop()
	err := s.Server.Close()
	s.guests.close()
	return errors.Join(err, s.run.Close(ctx))
}

// backend opens sessions for the server. Each has its own record, except those of anonymous
// requests, which share one.
type backend struct {
	run    *engine.Run
	guests *anonymousSessions
	own    *metier.Session               // the server's
	server atomic.Pointer[server.Server] // set once it is there
}

// Snapshot implements server.Backend.
func (b *backend) Snapshot(ctx context.Context) (*metier.Snapshot, error) { return b.run.Skills(ctx) }

// Serves implements server.Backend.
func (b *backend) Serves(sk metier.Skill) bool {
	g := b.run.Grants()
	return sk.Effect(&g) != policy.RuleDeny
}

// Blocks implements server.Backend.
func (b *backend) Blocks(t policy.Tier) bool {
	return metier.BlocksInjection(b.run.Settings().Activate.Injection, t)
}

func (b *backend) Open(ctx context.Context, c server.Client, snapshot func(context.Context) (*metier.Snapshot, error)) (*metier.Session, func() error, error) {
	ctx = context.WithoutCancel(ctx) // the session outlives the request that opens it
	o := engine.SessionOptions{Tools: server.Tools(), Snapshot: snapshot, Like: b.own, ID: b.guests.id, Output: func(call, _ string, p []byte) {
		if srv := b.server.Load(); srv != nil {
			srv.Wrote(call, len(p))
		}
	}}
	switch c {
	case server.Client{Server: true}:
		o.Log, o.Blobs = ownLog{record.NewMemory(), b.guests}, b.guests.clean
		s, end, err := b.run.Session(ctx, o)
		b.own = s
		return s, end, err
	case server.Client{}:
		log, leave, err := b.guests.enter(ctx)
		if err != nil {
			return nil, nil, err
		}
		o.Log, o.Blobs = log, log.book
		s, _, err := b.run.Session(ctx, o)
		if err != nil {
			leave()
			return nil, nil, err
		}
		return s, func() error { leave(); return nil }, nil
	}
	o.Brief = !c.Process // the other artifacts would repeat what the log has, many times
	return b.run.Session(ctx, o)
}
