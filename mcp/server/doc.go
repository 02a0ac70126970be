// Package server serves the skills of a snapshot over the Model Context Protocol: as tools,
// resources and prompts, and as entries of the extension io.modelcontextprotocol/skills (SEP-2640).
//
// It makes no decisions. Every call, read and prompt goes through the session of its client,
// identified by the stdio process, the legacy session id, or the bearer principal. A request with
// none of these gets a separate session.
package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"metier"
	"metier/internal/skillsext"
	"metier/policy"
)

// Backend opens what is served.
type Backend interface {
	// Snapshot returns the current skills.
	Snapshot(ctx context.Context) (*metier.Snapshot, error)
	// Open opens the session of a client. It includes the tools that Tools returns. snapshot
	// returns the skills as currently served. end closes the session and releases its resources.
	Open(ctx context.Context, c Client, snapshot func(context.Context) (*metier.Snapshot, error)) (s *metier.Session, end func() error, err error)
	// Serves reports whether clients may see a skill. It is false for one that policy denies.
	Serves(sk metier.Skill) bool
	// Blocks reports whether text of a tier that looks like prompt injection is withheld from
	// clients.
	Blocks(t policy.Tier) bool
}

// Client identifies the owner of a session. At most one of the fields is set. If none is, the
// session is for a single request of an anonymous client.
type Client struct {
	Server    bool   // the server itself, to list its tools; it makes no calls
	Process   bool   // the client at the other end of standard input and output
	Session   string // legacy session id, before 2026-07-28
	Principal string // principal of the bearer token
}

// Options are optional.
type Options struct {
	Version  string        // of this build
	PageSize int           // entries per page; 0: 200
	Body     time.Duration // time limit for receiving an HTTP request body, and for each MiB of the response to be read; 0: 1 minute
	Progress time.Duration // interval between progress notifications; 0: 1 second
	Now      func() time.Time
	NewID    func() string
	Key      []byte // signs the state that clients send back; nil: random
	Logger   *slog.Logger
	// Tools adds an embedder's own tools to client sessions: titles by canonical name. Their calls
	// are checked, approved, and recorded like those of skill tools.
	Tools map[string]string
	// Protocol may change the options of the protocol library, such as handlers for completion and
	// subscriptions. Fields that are already set belong to the server.
	Protocol func(*mcp.ServerOptions)
	// Extend is called once, before any client is served, to add tools, resources, and prompts
	// outside of sessions. The embedder alone controls access to them. It must not reuse the names
	// of skills or their tools.
	Extend func(*mcp.Server) error
	// Answer is how long a question to the user of a client waits for its answer; 0: 10 minutes.
	Answer time.Duration
	// Resume is how many bytes of HTTP responses are kept for clients before 2026-07-28 whose
	// connection was lost, so that they can request the rest. 0 disables it.
	Resume int
	// SessionRecord is how many bytes the calls of one session over HTTP can record; 0: 64 MiB.
	SessionRecord int64
	// PrincipalRecords is how many bytes all sessions of a principal over HTTP can record in 24
	// hours; 0: 2 GiB.
	PrincipalRecords int64
	// PrincipalSessions is how many sessions with a record a principal over HTTP can open in 24 hours;
	// 0: 10,000.
	PrincipalSessions int64
	// OnRecordFull is called when a client reaches one of these limits, with the code record_full and
	// a text for the operator. It must not block.
	OnRecordFull func(code, text string)
}

func (o *Options) fill() {
	if o.PageSize <= 0 {
		o.PageSize = 200
	}
	if o.Body <= 0 {
		o.Body = time.Minute
	}
	if o.Answer <= 0 {
		o.Answer = 10 * time.Minute
	}
	if o.Progress <= 0 {
		o.Progress = time.Second
	}
	if o.SessionRecord <= 0 {
		o.SessionRecord = mostRecord
	}
	if o.PrincipalRecords <= 0 {
		o.PrincipalRecords = mostWritten
	}
	if o.PrincipalSessions <= 0 {
		o.PrincipalSessions = mostRecords
	}
	if o.OnRecordFull == nil {
		o.OnRecordFull = func(code, text string) { o.Logger.Warn(text, "code", code) }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = randomID
	}
	if o.Key == nil {
		o.Key = make([]byte, 32)
		_, _ = rand.Read(o.Key) // never fails
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

func randomID() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// Server serves one backend. It is safe for concurrent use.
type Server struct {
	backend Backend
	opts    Options
	mcp     *mcp.Server

	refreshing sync.Mutex
	shown      shown // guarded by refreshing
	leaving    sync.WaitGroup

	index     atomic.Pointer[index]
	checks    checks
	canonical atomic.Pointer[map[string]string] // canonical names of the served tools, by name
	own       *client                           // the server's own session

	writing sync.Map // *atomic.Int64 by call: bytes written by its program

	mu      sync.Mutex // guards clients
	clients map[Client]*client
	closing chan struct{} // limits concurrent closing to two sessions
	getting chan struct{} // limits skills/get to one at a time, so that other requests are answered meanwhile

	sessions sessions
	written  written

	requests                     requests
	content, programs, listeners room
	questions                    room // forms that clients before 2026-07-28 show
	answers                      answers
}

// New creates a server. It lists and hashes the skills once.
func New(ctx context.Context, b Backend, o *Options) (*Server, error) {
	s := &Server{backend: b, clients: map[Client]*client{}, closing: make(chan struct{}, 2), getting: make(chan struct{}, 1),
		content: room{most: mostContent, ofOne: contentOfOne}, programs: room{most: mostPrograms, ofOne: programsOfOne},
		listeners: room{most: mostListeners, ofOne: listenersOfOne}, questions: room{most: mostQuestions, ofOne: questionsOfOne}}
	if o != nil {
		s.opts = *o
	}
	s.opts.fill()
	s.checks.blocks = b.Blocks
	po := &mcp.ServerOptions{
		Logger: s.opts.Logger, PageSize: s.opts.PageSize, SetCacheable: s.cacheable,
		Instructions: "Skills are instructions for tasks. Load the one that fits before you begin.",
		Capabilities: &mcp.ServerCapabilities{
			Tools: &mcp.ToolCapabilities{ListChanged: true}, Prompts: &mcp.PromptCapabilities{ListChanged: true}, Resources: &mcp.ResourceCapabilities{ListChanged: true},
			Extensions: map[string]any{skillsext.Name: map[string]any{"directoryRead": true}}}}
	if s.opts.Protocol != nil {
		s.opts.Protocol(po)
	}
	s.mcp = mcp.NewServer(&mcp.Implementation{Name: "metier", Title: "Agent Skills by metier", Version: s.opts.Version}, po)
	s.mcp.AddReceivingMiddleware(addressed, s.enters, s.listening, s.answered, s.fitted, overHTTP, asksAgain)
	s.mcp.AddSendingMiddleware(s.asking)
	if err := s.extend(); err != nil {
		return nil, err
	}
	s.mcp.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: Scheme + "{+path}", Name: "skill-file", Title: "File of a skill",
		Description: "Any file in a skill, identified by the skill's URI and the file's path."}, s.readResource)
	_, err := s.load(ctx)
	if err == nil {
		s.own, err = s.open(ctx, Client{Server: true})
	}
	if err != nil {
		return nil, err
	}
	s.show(ctx)
	if s.opts.Extend != nil {
		if err := s.opts.Extend(s.mcp); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}
