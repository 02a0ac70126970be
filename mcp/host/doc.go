// Package host connects to the MCP servers that the operator configured. Their tools join a run,
// and their skills (SEP-2640) become a source.
//
// A server is never trusted. It is identified by the operator's label, whatever it calls itself.
// Its tools are side effects unless the operator declares them read-only, and its skills have the
// tier third_party. A server that dies, hangs, floods or lies affects only its own tools and
// skills.
package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"metier"
	"metier/internal/skillsext"
	"metier/internal/termtext"
)

// Options are optional.
type Options struct {
	Version string                           // of this build
	Dir     string                           // where programs start if their server has neither a cwd nor a File
	Env     func(name string) (string, bool) // the environment; nil: none
	Client  *http.Client                     // nil: one that follows no redirects
	Logger  *slog.Logger
	// Message is the maximum size of a server's message in bytes. 0 means 32 MiB, enough for a
	// skill's largest file.
	Message int
	// Output is the maximum number of bytes of a result that a model is shown. 0 means 64 KiB.
	Output int
	// Pins are the tools, by metier's names, when a run began (Host.Pins). Tools that have changed
	// are left out.
	Pins map[string]string
	// Cache is a folder for files of skills. It must belong to this user only and not be below a
	// root of skills. "" disables the cache.
	Cache string
	// Now returns the time for the cache. The default is time.Now.
	Now func() time.Time
	// Grace is how long a program may take to exit by itself. 0 means 2 seconds.
	Grace time.Duration
}

const defaultGrace = 2 * time.Second

func (o *Options) fill() {
	if o.Env == nil {
		o.Env = func(string) (string, bool) { return "", false }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Message <= 0 {
		o.Message = 32 << 20
	}
	if o.Output <= 0 {
		o.Output = 64 << 10
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Grace <= 0 {
		o.Grace = defaultGrace
	}
}

// Host holds the connections. It is safe for concurrent use.
type Host struct {
	opts    Options
	servers []*connection // in the order of their labels
	tools   []*tool
	sources map[string]*Source
	cache   *cache

	mu    sync.Mutex
	notes []metier.Diagnostic
}

// Open connects to the servers in parallel and lists what they offer. An unusable server results in
// a note. Only an invalid configuration (two servers with the same label) is an error.
func Open(ctx context.Context, servers []Server, o *Options) (*Host, error) {
	h := &Host{sources: map[string]*Source{}}
	if o != nil {
		h.opts = *o
	}
	h.opts.fill()
	if h.opts.Cache != "" {
		h.cache = &cache{dir: h.opts.Cache, now: h.opts.Now}
	}
	for _, s := range servers {
		if err := s.check(); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(h.servers, func(c *connection) bool { return c.server.Label == s.Label }) {
			return nil, wrong("", s.Label, "two servers have this label")
		}
		h.servers = append(h.servers, &connection{host: h, replies: newReplies(), server: s, secrets: s.redactor()})
	}
	slices.SortFunc(h.servers, func(a, b *connection) int { return strings.Compare(a.server.Label, b.server.Label) })
	var wg sync.WaitGroup
	for _, c := range h.servers {
		wg.Go(func() { c.open(ctx) })
	}
	wg.Wait()
	for _, c := range h.servers {
		switch {
		case c.failed != nil || !c.server.Skills:
		case c.skills:
			h.sources[c.server.Label] = newSource(c)
		default:
			h.note(c, "mcp-no-skills", "it does not offer skills (%s)", skillsext.Name)
		}
	}
	h.name()
	return h, ctx.Err()
}

// note stores a diagnostic about a server.
func (h *Host) note(c *connection, code, format string, args ...any) {
	d := metier.Diagnostic{Severity: "warning", Code: code, Path: MountLabel(c.server.Label),
		Detail: "server " + c.server.Label + ": " + termtext.Line(c.clip(fmt.Sprintf(format, args...), mostText))}
	h.opts.Logger.Warn(d.Detail, "code", code, "server", c.server.Label)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.notes = append(h.notes, d)
}

// Notes returns the diagnostics: unusable servers, and tools and skills that were left out, with
// the reasons.
func (h *Host) Notes() []metier.Diagnostic {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.notes)
}

// Tools returns the tools of all servers, by name.
func (h *Host) Tools() []metier.Tool {
	out := make([]metier.Tool, len(h.tools))
	for i, t := range h.tools {
		out[i] = t
	}
	return out
}

// Pins identifies the tools of the servers that responded, to detect later changes.
func (h *Host) Pins() map[string]string {
	out := map[string]string{}
	for _, t := range h.tools {
		out[t.ours] = t.pinned
	}
	return out
}

// Source returns the skills of a server, or nil if it has none or the operator did not request
// them.
func (h *Host) Source(label string) *Source { return h.sources[label] }

// Labels returns the labels of all servers, in order.
func (h *Host) Labels() []string {
	var out []string
	for _, c := range h.servers {
		out = append(out, c.server.Label)
	}
	return out
}

// Status is the state of one server.
type Status struct {
	Label, Transport string // stdio or http
	Version          string // of the protocol, as agreed
	Info             string // its own name and version: for people, decides nothing
	Tools            int    // that it offers, refused ones included
	Skills           bool   // it declares the extension
	Err              error  // why it cannot be used
}

// Servers returns the status of all servers, sorted by label.
func (h *Host) Servers() []Status {
	var out []Status
	for _, c := range h.servers {
		s := Status{Label: c.server.Label, Transport: "stdio", Version: c.version, Info: termtext.Line(c.info), Tools: len(c.offered), Skills: c.skills, Err: c.failed}
		if c.server.URL != "" {
			s.Transport = "http"
		}
		out = append(out, s)
	}
	return out
}

// Close closes all connections and stops every process that was started.
func (h *Host) Close() error {
	errs := make([]error, len(h.servers))
	var wg sync.WaitGroup
	for i, c := range h.servers {
		wg.Go(func() { errs[i] = c.close() })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// mostText is the maximum size of the text of an error or a diagnostic, in bytes.
const mostText = 1000

// clipped cuts text to at most most bytes.
func clipped(s string, most int) string {
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
