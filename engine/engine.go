// Package engine is the application layer. It plans, starts, resumes, answers, and lists runs, and
// connects all implementations. The command line and the servers are thin clients of it.
package engine

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"metier/agent"
	"metier/config"
	"metier/fetch"
	"metier/internal/egress"
	"metier/model/provider"
	"metier/policy"
	"metier/record"
	"metier/run"
	"metier/signature"
	"metier/skillroots"
	"metier/telemetry"
	"metier/userstate"
)

// Engine starts and manages runs. It is safe for concurrent use.
type Engine struct {
	Env config.Env
	o   Options

	cleaning sync.Mutex
	redact   *record.Redactor // of Clean, made at the first call

	declared declared
	unlisted sync.Map // names of the lists of folders that cannot be read, which were reported
	watch    watchers
	repos    repos
}

// Options configure an engine. The zero value is ready to use.
type Options struct {
	Version string                                     // of the program, for records and servers
	Now     func() time.Time                           // nil: time.Now
	After   func(time.Duration) <-chan time.Time       // waits before a model call is retried; nil: time.After
	Org     string                                     // folder of the machine's skills; "": skillroots.OrgFolder
	Egress  func(egress.Rules) (*egress.Proxy, error)  // network of programs; nil: public addresses alone
	Fetch   fetch.Options                              // of the tool that reads web pages
	Logger  func(secrets []record.Secret) *slog.Logger // returns a log without secrets; nil: no log
	Notify  func(Notice)                               // nil: notices outside of a run are dropped
	Fetched func(line string)                          // receives what git reports while a source is fetched, as lines that are safe to print; nil: it is dropped

	// Verifiers returns verifiers of signatures of skills, beside those for SSH and minisign. sigstoreRoots
	// are the files that policy files name for Sigstore. nil: there are none.
	Verifiers func(sigstoreRoots []string) ([]signature.Verifier, error)

	// ReadOnly keeps Enter and Discover from cleaning up what a killed run left in a workspace.
	ReadOnly bool
}

// New returns an engine for the user of env.
func New(env config.Env, o Options) *Engine {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Org = cmp.Or(o.Org, skillroots.OrgFolder)
	if o.Logger == nil {
		o.Logger = func([]record.Secret) *slog.Logger { return slog.New(slog.DiscardHandler) }
	}
	if o.Notify == nil {
		o.Notify = func(Notice) {}
	}
	return &Engine{Env: env, o: o}
}

// Close sends the remaining telemetry. A notice reports any loss.
func (e *Engine) Close() { e.unwatch() }

// Finder finds the roots of skills.
func (e *Engine) Finder() skillroots.Finder { return skillroots.Finder{Env: e.Env, Org: e.o.Org} }

// State returns the store of the user's decisions.
func (e *Engine) State() userstate.Store { return userstate.New(e.Env) }

// Now returns the current time.
func (e *Engine) Now() time.Time { return e.o.Now() }

// Logger returns the log. Secrets do not appear in it.
func (e *Engine) Logger() *slog.Logger { return e.o.Logger(e.Secrets()) }

// Notify sends a notice to the user of the engine.
func (e *Engine) Notify(n Notice) { e.o.Notify(n) }

// Principal returns the name of the user.
func (e *Engine) Principal() string {
	return cmp.Or(e.Env.Get("METIER_PRINCIPAL"), e.Env.Get("USER"), "operator")
}

// Secrets lists the values that must not appear in records or logs, or reach a model: provider keys,
// passwords in base URLs, the headers sent to a telemetry receiver, and the secrets given to scripts.
func (e *Engine) Secrets() []record.Secret {
	var out []record.Secret
	for _, p := range provider.All() {
		for _, k := range p.Keys {
			if v := e.Env.Get(k); v != "" {
				out = append(out, record.Secret{Name: k, Value: v})
			}
		}
	}
	return slices.Concat(out, telemetry.Secrets(e.Env.Get), e.declared.read(e))
}

// Clean removes secrets from text written by a model or a provider.
func (e *Engine) Clean(s string) string {
	e.cleaning.Lock()
	defer e.cleaning.Unlock()
	if e.redact == nil {
		e.redact = record.Redact(nil, e.Secrets()...)
	}
	b, _ := e.redact.Clean([]byte(s))
	return string(b)
}

// RunOptions returns the options for opening run folders. more are the secrets of one run.
func (e *Engine) RunOptions(more ...record.Secret) *run.Options {
	secrets := append(e.Secrets(), more...)
	return &run.Options{Now: e.o.Now, By: e.Principal(), Logger: e.o.Logger(secrets), StateDir: e.Env.StateDir(), Secrets: secrets}
}

// RunID returns a new ID, see [run.NewID].
func (e *Engine) RunID() string { return run.NewID(e.Now()) }

// Severities of a notice.
const (
	Note    = "note"
	Warning = "warning"
)

// Notice is a message to the user that is not an error.
type Notice struct {
	Code     string `json:"code,omitempty"`
	Severity string `json:"severity"`
	Text     string `json:"text"`
}

// Hooks connect a run with its user or program. Nil hooks are not called. Calls and subagents run
// concurrently, so several goroutines can call a hook at once.
type Hooks struct {
	// Ask asks the user a question before a call, and may block until ctx ends. Without it, or with
	// Request.Batch, every answer is no, unless Request.Park leaves questions open. An answer without
	// By is the user's, and one without Scope applies once. A Scope that is not in [Question.Scopes]
	// is an error. An error of Ask ends the run with the code ask_failed.
	Ask func(context.Context, Question) (policy.Answer, error)
	// Notify receives notices of the run.
	Notify func(Notice)
	// Verbose sends a notice for each finding about a skill. Without it, skills outside the project
	// that the run does not name are counted in one notice.
	Verbose bool
	// Progress receives the progress of the run.
	Progress func(agent.Progress)
	// Child returns a function that receives the progress of a subagent.
	Child func(name string) func(agent.Progress)
	// Output receives the output of programs, by call and stream.
	Output func(call, stream string, p []byte)
}
