package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"metier"
	"metier/agent"
	"metier/agent/step"
	"metier/config"
	"metier/internal/errorcodes"
	"metier/model"
	"metier/policy"
	"metier/settings"
)

// AgentOptions configure an [Agent]. Most programs need only a model and skills or tools.
type AgentOptions struct {
	Skills []string      // folders that hold skills, relative to the working folder; nil: those of the workspace and the user
	Model  string        // PROVIDER:NAME; "": METIER_MODEL, or the first provider with a key
	Client model.Model   // your own model, used instead
	Tools  []metier.Tool // your own tools, granted to the model; see [metier.FuncTool]

	Workspace string   // folder that the agent works in; "": the working folder of the process
	Records   string   // folder of the records; "": .metier/runs in the workspace
	Allow     []string // built-in tools, exactly; "default" stands for the profile's tools; nil: these, and run_skill_script if Scripts is set
	Scripts   []string // scripts of skills that may run, as SKILL:scripts/PATH; a non-nil Allow must contain run_skill_script
	MaxTurns  int      // per answer; 0 means 50
	MaxTokens int64    // per answer; 0 means no limit
	Environ   []string // NAME=value; nil: the environment of the process

	// Approve answers a question that policy asks before a call, such as whether a script may run.
	// The call has no effect until then. Approve runs in goroutines of the agent, and if several
	// calls of a turn need an answer, at the same time. It may block until ctx ends, in which case
	// the question stays open.
	//
	// An answer needs only Allow: without Scope, it applies once, and without By, it is the user's.
	// A Scope that is not in [Question.Scopes] is an error. If Approve returns an error, the run
	// fails with the code ask_failed. If Approve is nil, every answer is no, and the model gets the
	// code refused.
	Approve func(context.Context, Question) (policy.Answer, error)
	// Progress receives progress, such as text while the model writes it.
	Progress func(agent.Progress)
	// Notify receives notices for the user. If nil, they are dropped.
	Notify func(Notice)
}

// Agent is a conversation with a model that has skills and tools. Its methods are safe for
// concurrent use. It works on one answer at a time.
type Agent struct {
	engine *Engine
	o      AgentOptions

	mu     sync.Mutex
	run    *Run // nil before the first question
	closed bool
}

// NewAgent returns an agent. It opens the model, the skills, and the tools, so that problems with
// them are found before the first question.
func NewAgent(ctx context.Context, o AgentOptions) (*Agent, error) {
	dir, err := os.Getwd()
	if err != nil && o.Workspace == "" {
		return nil, metier.Errorf(metier.Unavailable, "workspace_missing", "set AgentOptions.Workspace", "find the working folder: %w", err)
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Environ == nil {
		o.Environ = os.Environ()
	}
	a := &Agent{engine: New(config.NewEnv(o.Environ, dir), Options{Notify: o.Notify}), o: o}
	p, err := a.engine.Plan(ctx, a.request("Hello."))
	if err != nil {
		return nil, ofAgent(err)
	}
	if err := a.engine.Check(ctx, p); err != nil {
		return nil, ofAgent(err)
	}
	return a, nil
}

// check finds options that would have no effect.
func (o AgentOptions) check() error {
	switch {
	case o.Model != "" && o.Client != nil:
		return metier.Fieldf(metier.Invalid, "AgentOptions.Model", "usage", "set one of them", "AgentOptions.Model and AgentOptions.Client cannot both be set")
	case slices.Contains(o.Skills, ""):
		return metier.Fieldf(metier.Invalid, "AgentOptions.Skills", "usage", "specify a folder, or leave the list nil", "AgentOptions.Skills has an empty name")
	case len(o.Scripts) > 0 && o.Allow != nil && !slices.Contains(o.Allow, settings.ToolRunSkillScript):
		return metier.Fieldf(metier.Invalid, "AgentOptions.Scripts", "usage", "add run_skill_script to AgentOptions.Allow", "AgentOptions.Scripts has no effect without the tool run_skill_script")
	}
	for _, v := range o.Environ {
		if name, _, ok := strings.Cut(v, "="); !ok || name == "" {
			return metier.Fieldf(metier.Invalid, "AgentOptions.Environ", "usage", "write each variable as NAME=value", "AgentOptions.Environ has an entry without a name and a value")
		}
	}
	return nil
}

// optionOf maps fields of the request to those that an agent's program sets.
var optionOf = strings.NewReplacer("Request.Roots", "AgentOptions.Skills", "Request.Artifacts", "AgentOptions.Records", "Request.Workspace", "AgentOptions.Workspace",
	"Request.Model", "AgentOptions.Model", "Request.Tools", "AgentOptions.Allow", "Request.Scripts", "AgentOptions.Scripts", "Request.Custom", "AgentOptions.Tools",
	"Request.MaxTurns", "AgentOptions.MaxTurns", "Request.MaxTokens", "AgentOptions.MaxTokens", "set Request.Prompt, or prompt in a run file", "pass a prompt", "Request.Prompt", "prompt")

// optionError is an error whose text names options.
type optionError struct{ error }

func (e optionError) Error() string { return optionOf.Replace(e.error.Error()) }
func (e optionError) Unwrap() error { return e.error }

// ofAgent names the options of an agent in an error about a request.
func ofAgent(err error) error {
	e, ok := errors.AsType[*metier.Error](err)
	if !ok {
		return err
	}
	with := *e
	with.Field, with.Hint, with.Err = optionOf.Replace(e.Field), optionOf.Replace(e.Hint), optionError{e.Err}
	return &with
}

func (a *Agent) request(prompt string) Request {
	o := a.o
	if len(o.Scripts) > 0 && o.Allow == nil {
		o.Allow = []string{ToolsDefault, settings.ToolRunSkillScript}
	}
	return Request{Surface: "embedded", Workspace: o.Workspace, Artifacts: o.Records, Roots: a.engine.Env.Paths(o.Skills), Model: o.Model, Prompt: prompt, Tools: o.Allow, Scripts: o.Scripts,
		MaxTurns: o.MaxTurns, MaxTokens: o.MaxTokens, Batch: o.Approve == nil, Custom: Custom{Tools: o.Tools, Model: o.Client}}
}

// Ask sends a message and returns the answer. The first message begins a run, and later ones
// continue its conversation. If the run ends without an answer, the error has the code of the
// reason, such as turn_limit.
func (a *Agent) Ask(ctx context.Context, prompt string) (string, error) {
	o, err := a.Run(ctx, prompt)
	if err != nil {
		return "", err
	}
	if o.Status == agentDone {
		return o.Answer, nil
	}
	kind, how := metier.Unavailable, "is "+o.Status
	switch o.Status {
	case "failed":
		how = o.Status
	case "denied":
		kind = metier.Denied
	case "parked":
		kind = metier.Approval
	case "cancelled", "interrupted":
		kind = metier.Conflict
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if o.Code == step.CodeTurnLimit || o.Code == step.CodeTokenBudget {
		kind = metier.LimitReached
	}
	known, _ := errorcodes.Of(o.Code)
	return "", &metier.Error{Op: "ask", Kind: kind, Code: cmp.Or(o.Code, "run_"+o.Status), Hint: known.Fix, Err: fmt.Errorf("run %s %s: %w", o.Run, how, errors.New(cmp.Or(o.Reason, o.Code, "no reason is known")))}
}

const agentDone = "done"

// Run is like Ask but returns the full outcome. A run that ends without an answer is not an error of
// Run: check Outcome.Status and Outcome.Reason.
func (a *Agent) Run(ctx context.Context, prompt string) (o Outcome, err error) {
	defer func() { err = ofAgent(err) }()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return Outcome{}, metier.Errorf(metier.Conflict, "agent_closed", "make another one with NewAgent", "the agent is closed")
	}
	if a.run != nil {
		if err := a.run.Send(ctx, prompt); err != nil {
			return Outcome{}, err
		}
		return a.run.Drive(ctx)
	}
	p, err := a.engine.Plan(ctx, a.request(prompt))
	if err != nil {
		return Outcome{}, err
	}
	r, err := a.engine.Start(ctx, p, a.engine.RunID(), Hooks{Ask: a.o.Approve, Notify: a.o.Notify, Progress: a.o.Progress})
	if err != nil {
		return Outcome{}, err
	}
	a.run = r
	return r.Drive(ctx)
}

// Close makes the record durable and ends the conversation.
func (a *Agent) Close(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil
	}
	a.closed = true
	defer a.engine.Close()
	if a.run == nil {
		return nil
	}
	r := a.run
	a.run = nil
	return r.Close(ctx)
}
