package engine

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"

	"metier"
	"metier/agent"
	"metier/agent/subagent"
	"metier/filetool"
	"metier/mcp/host"
	"metier/model"
	"metier/policy"
	"metier/record"
	"metier/sandbox"
	"metier/skillroots"
)

// Preview is the initial state of a run.
type Preview struct {
	Phase     string
	Model     string
	Scripted  bool
	Mode      string
	Workspace string
	Batch     bool
	Policy    *LaunchPolicy
	Mounts    []filetool.Mount
	Roots     []skillroots.Root
	Prompt    string
	Role      policy.Role // of the prompt
	Enforcing policy.Mode

	Active      []metier.Activation // skills that are loaded before the task
	Catalog     metier.Catalog
	Subagents   []PreviewSubagent // that the model may start
	Sandbox     *sandbox.Report   // nil: no tool runs programs
	Replaced    []string          // default tools that are missing because others were named
	Request     model.Request     // the first one
	Diagnostics []metier.Diagnostic
}

// Preview returns the initial state of a plan's run. It calls no model and records nothing.
func (e *Engine) Preview(ctx context.Context, p *Plan) (v Preview, err error) {
	r, err := e.prepare(ctx, p, Hooks{})
	if err != nil {
		return v, err
	}
	defer func() { err = closed(r.Close(context.WithoutCancel(ctx)), err) }()
	if err := r.known(); err != nil {
		return v, err
	}
	mem := record.NewMemory()
	r.session, err = metier.Open(ctx, metier.Config{ID: "dry-run", By: e.Principal(), Log: mem, Blobs: mem, Snapshot: r.snapshot, Tools: r.tools(),
		Settings: r.settings, Grants: r.grants(), View: r.view, Batch: p.launch.Batch, Now: e.Now})
	if err != nil {
		return v, err
	}
	r.noteGrants()
	if err := r.begin(ctx); err != nil {
		return v, err
	}
	req, err := agent.Preview(ctx, agent.Config{Session: r.session, Log: mem, Blobs: mem, Model: p.model.Model, Spec: p.launch.Spec, Inject: p.settings.Activate.Role,
		Prompt: agent.Prompt{Workspace: r.where(), Project: r.project()}})
	if err != nil {
		return v, err
	}
	if p.model.Model == (unasked{}) {
		r.note("no_model", "a run needs a model: %s", p.model.Note)
	}
	l := p.launch
	v = Preview{Phase: l.Phase, Model: l.Spec.Model, Scripted: p.model.Script != "", Mode: l.Spec.Mode, Workspace: l.Workspace, Batch: l.Batch, Policy: l.Policy, Mounts: l.Mounts, Roots: l.Roots,
		Prompt: l.Prompt, Role: l.PromptRole, Enforcing: r.grants().Mode, Active: r.session.State().Active, Catalog: r.session.Catalog(ctx), Subagents: r.previewSubagents(),
		Request: req, Diagnostics: r.snapshot.Diagnostics()}
	if v.Replaced, err = r.replaced(); err != nil {
		return v, err
	}
	if r.sandbox != nil {
		report := r.sandbox.Probe(ctx)
		v.Sandbox = &report
	}
	return v, nil
}

// replaced returns the default tools that the run would have if no tools were named.
func (r *Run) replaced() ([]string, error) {
	defaults, err := grantedTools([]string{ToolsDefault}, nil, r.op, r.settings, r.launch.Spec.Mode)
	return slices.DeleteFunc(defaults, func(name string) bool { return slices.Contains(r.launch.Tools, name) }), err
}

// PreviewSubagent is a profile that a run's model may start.
type PreviewSubagent struct {
	Name            string   `json:"name"`
	Skills          []string `json:"skills"`        // that it begins with and that are here
	MissingSkills   []string `json:"missingSkills"` // and that are not
	Tools           []string `json:"tools"`
	MissingTools    []string `json:"missingTools"` // of servers, that the run has not
	Scripts         []string `json:"scripts"`
	ExecutionTarget string   `json:"executionTarget"`
	Hosts           []string `json:"hosts"` // that it may reach; *: every one
	MaxTurns        int      `json:"maxTurns"`
}

// previewSubagents returns the profiles that the run's model may start.
func (r *Run) previewSubagents() []PreviewSubagent {
	out := []PreviewSubagent{}
	if !r.launch.Subagents.may() {
		return out
	}
	for _, p := range r.launch.Subagents.Profiles {
		have, missing := r.there(p.Skills)
		without := []string{}
		for _, t := range p.Tools {
			if strings.HasPrefix(t, host.Prefix) && len(childTools(subagent.Profile{Tools: []string{t}}, r.launch.Tools, false)) == 0 {
				without = append(without, t)
			}
		}
		out = append(out, PreviewSubagent{p.Name, have, missing, childTools(p, r.launch.Tools, r.launch.Subagents.At+1 < r.launch.Subagents.Depth), without, append([]string{}, p.Scripts...), p.Target, r.reached(p), p.MaxTurns})
	}
	return out
}

// reached returns the hosts that a profile's child may reach under the settings.
func (r *Run) reached(p subagent.Profile) []string {
	hosts, inherits := profileHosts(p, r.launch.Hosts)
	switch policy.NetworkRule(r.settings.Exec.Exact(len(hosts) > 0, inherits).Network) {
	case policy.NetworkOff:
		return []string{}
	case policy.NetworkOn:
		return []string{"*"}
	}
	return append([]string{}, hosts...)
}

// unasked is the model of a dry run on a host that has no model.
type unasked struct{}

func (unasked) Stream(context.Context, model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) { yield(model.Chunk{}, errors.New("a dry run asks no model")) }
}
