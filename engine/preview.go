package engine

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"

	"metier"
	"metier/agent"
	"metier/agent/subagent"
	"metier/mcp/host"
	"metier/model"
	"metier/policy"
	"metier/record"
	"metier/run"
	"metier/sandbox"
	"metier/skillroots"
)

// Preview is the initial state of a run. Its lists are never nil.
type Preview struct {
	Phase     string              `json:"phase,omitempty"`
	Model     string              `json:"model"`
	Scripted  bool                `json:"scripted"`
	Mode      string              `json:"mode"`
	Workspace string              `json:"workspace"`
	Batch     bool                `json:"batch"`
	Mounts    []PreviewMount      `json:"mounts"`
	Roots     []skillroots.Root   `json:"roots"`
	Skills    []PreviewSkill      `json:"skills"`       // preloaded
	Available []string            `json:"available"`    // skills in the catalog
	Catalog   string              `json:"catalog"`      // as the model sees it; "": it sees none
	Place     string              `json:"catalogPlace"` // of the catalog: in the description of a tool, or in the system prompt
	Omitted   int                 `json:"omitted"`
	Cut       int                 `json:"descriptionsCut"`
	Dropped   int                 `json:"descriptionsDropped"`
	Budget    int                 `json:"catalogBudget"` // in tokens; 0: none
	Tools     []string            `json:"tools"`         // as the model sees them
	Replaced  []string            `json:"replacedTools"` // default tools that are missing because others were named
	Policy    *LaunchPolicy       `json:"policy,omitempty"`
	Subagents []PreviewSubagent   `json:"subagents"`         // that the model may start
	Sandbox   *sandbox.Report     `json:"sandbox,omitempty"` // nil: no tool runs programs
	System    string              `json:"system"`
	Prompt    string              `json:"prompt"`
	Enforcing policy.Mode         `json:"enforcementMode"`
	Role      policy.Role         `json:"promptSlotRole"`  // of the prompt
	Tokens    int                 `json:"estimatedTokens"` // of the first request, four bytes each
	Problems  []metier.Diagnostic `json:"diagnostics"`

	Shortened string `json:"-"` // how the catalog was shortened to fit, or ""
	Unshown   bool   `json:"-"` // the model is shown no catalog of the skills that exist
}

// PreviewMount is a mount of a run.
type PreviewMount struct {
	Name   string `json:"name"`
	Source string `json:"source"`
	Target string `json:"target"`
	Mode   string `json:"mode"`
}

// PreviewSkill is a skill that is loaded before the task.
type PreviewSkill struct {
	Name   string `json:"name"`
	Path   string `json:"path"`
	Digest string `json:"digest"`
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
	v = Preview{Phase: l.Phase, Model: l.Spec.Model, Scripted: p.model.Script != "", Mode: l.Spec.Mode, Workspace: l.Workspace, Batch: l.Batch, Mounts: []PreviewMount{}, Roots: l.Roots,
		Skills: []PreviewSkill{}, Tools: []string{}, Policy: l.Policy, Subagents: r.previewSubagents(), System: req.System, Prompt: l.Prompt, Enforcing: r.grants().Mode, Role: l.PromptRole,
		Tokens: estimate(req), Problems: append([]metier.Diagnostic{}, r.snapshot.Diagnostics()...)}
	for _, m := range l.Mounts {
		v.Mounts = append(v.Mounts, PreviewMount{m.Name, m.Source, m.Target, cmp.Or(m.Mode, "ro")})
	}
	for _, s := range r.session.State().Active {
		v.Skills = append(v.Skills, PreviewSkill{s.Name, s.Path, s.Hash})
	}
	for _, t := range req.Tools {
		v.Tools = append(v.Tools, t.Name)
	}
	v.show(r.session.Catalog(ctx))
	if v.Replaced, err = r.replaced(); err != nil {
		return v, err
	}
	if r.sandbox != nil {
		report := r.sandbox.Probe(ctx)
		v.Sandbox = &report
	}
	return v, nil
}

// show sets the fields about the catalog.
func (v *Preview) show(cat metier.Catalog) {
	v.Catalog, v.Place, v.Available = cat.Text, "none", []string{}
	v.Omitted, v.Cut, v.Dropped, v.Budget = cat.Omitted, cat.Cut, cat.Dropped, cat.Budget
	switch {
	case cat.InTool():
		v.Place = "tool"
	case cat.InSystem():
		v.Place = "system"
	default:
		v.Unshown, cat.Entries = len(cat.Entries) > 0, nil
	}
	for _, e := range cat.Entries {
		v.Available = append(v.Available, e.Name)
	}
	v.Shortened = Shortened(run.CatalogReport{Listed: len(v.Available), Omitted: v.Omitted, Cut: v.Cut, Dropped: v.Dropped, Budget: v.Budget})
}

// estimate counts the tokens of a request at four bytes each.
func estimate(r model.Request) int {
	n := len(r.System)
	for _, m := range r.Messages {
		n += len(m.Text())
	}
	for _, t := range r.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	return n / 4
}

// replaced returns the default tools that the run would have if no tools were named.
func (r *Run) replaced() ([]string, error) {
	defaults, err := grantedTools([]string{ToolsDefault}, nil, r.op, r.settings, r.launch.Spec.Mode)
	missing := slices.DeleteFunc(defaults, func(name string) bool { return slices.Contains(r.launch.Tools, name) })
	return append([]string{}, missing...), err
}

// PreviewSubagent is a profile that a run's model may start.
type PreviewSubagent struct {
	Name            string   `json:"name"`
	Skills          []string `json:"skills"`        // that it starts with and that exist
	MissingSkills   []string `json:"missingSkills"` // and that are not
	Tools           []string `json:"tools"`
	MissingTools    []string `json:"missingTools"` // tools of servers that the run does not have
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
