package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"metier"
	"metier/agent"
	"metier/model"
	"metier/policy"
	"metier/record"
	"metier/run"
	"metier/skillroots"
)

// dryPlan is what a run would begin with.
type dryPlan struct {
	Phase     string            `json:"phase,omitempty"`
	Model     string            `json:"model"`
	Scripted  bool              `json:"scripted"`
	Mode      string            `json:"mode"`
	Workspace string            `json:"workspace"`
	Batch     bool              `json:"batch"`
	Roots     []skillroots.Root `json:"roots"`
	Skills    []drySkill        `json:"skills"`    // preloaded
	Available []string          `json:"available"` // what the catalog tells the model of
	Omitted   int               `json:"omitted"`
	Cut       int               `json:"descriptionsCut"`
	Dropped   int               `json:"descriptionsDropped"`
	Budget    int               `json:"catalogBudget"` // in tokens; 0: none
	Tools     []string          `json:"tools"`         // as the model sees them
	Policy    *launchPolicy     `json:"policy,omitempty"`
	Subagents []drySubagent     `json:"subagents"`         // that its model may begin
	Sandbox   *probed           `json:"sandbox,omitempty"` // where one of the tools runs programs
	System    string            `json:"system"`
	Prompt    string            `json:"prompt"`
	Enforcing policy.Mode       `json:"enforcementMode"`
	Role      policy.Role       `json:"promptSlotRole"`  // of the prompt
	Tokens    int               `json:"estimatedTokens"` // of the first request, four bytes each
	Problems  []diagnostic      `json:"diagnostics"`
}

type drySkill struct {
	Name   string `json:"name"`
	Path   string `json:"path"`
	Digest string `json:"digest"`
}

type diagnostic struct {
	Severity string `json:"severity"`
	Code     string `json:"code"`
	Detail   string `json:"detail"`
	Path     string `json:"path,omitempty"`
	Line     int    `json:"line,omitempty"`
	Column   int    `json:"column,omitempty"`
}

// dryRun shows what each phase would begin with. It asks no model and leaves
// no record.
func (a *app) dryRun(ctx context.Context, plans []planned) error {
	var out []dryPlan
	for _, p := range plans {
		d, err := a.dryPhase(ctx, p)
		if err != nil {
			return err
		}
		out = append(out, d)
	}
	if a.json {
		return a.document(map[string]any{"phases": out})
	}
	for _, d := range out {
		a.showDry(d)
	}
	return nil
}

func (a *app) dryPhase(ctx context.Context, p planned) (d dryPlan, err error) {
	j, err := a.prepare(ctx, p)
	if err != nil {
		return d, err
	}
	defer func() { err = closed(j.close(context.WithoutCancel(ctx)), err) }()
	if err := j.known(); err != nil {
		return d, err
	}
	mem := record.NewMemory()
	j.session, err = metier.Open(ctx, metier.Config{ID: "dry-run", By: a.principal(), Log: mem, Blobs: mem, Snapshot: j.snapshot, Tools: j.tools(),
		Settings: j.settings, Grants: j.grants(), View: j.view, Batch: p.launch.Batch, Now: a.now})
	if err != nil {
		return d, err
	}
	if err := j.begin(ctx); err != nil {
		return d, err
	}
	req, err := agent.Preview(ctx, agent.Config{Session: j.session, Log: mem, Blobs: mem, Model: p.model.Model, Spec: p.launch.Spec, Inject: p.settings.Activate.Role,
		Prompt: agent.Prompt{Workspace: j.where(), Project: j.project()}})
	if err != nil {
		return d, err
	}
	if p.model.Model == (unasked{}) && !a.json {
		fmt.Fprintf(a.Err, "note: a run needs a model: %s\n", oneLine(p.model.Note))
	}
	cat := j.session.Catalog(ctx)
	d = dryPlan{Phase: p.launch.Phase, Model: p.launch.Spec.Model, Scripted: p.model.Script != "", Mode: p.launch.Spec.Mode, Workspace: p.launch.Workspace,
		Batch: p.launch.Batch, Policy: p.launch.Policy, Roots: p.launch.Roots, Skills: []drySkill{}, Available: []string{}, Omitted: cat.Omitted, Cut: cat.Cut, Dropped: cat.Dropped, Budget: cat.Budget, Tools: []string{},
		Subagents: j.drySubagents(), System: req.System, Prompt: p.launch.Prompt, Enforcing: j.grants().Mode, Role: p.launch.PromptRole, Tokens: estimate(req), Problems: []diagnostic{}}
	for _, act := range j.session.State().Active {
		d.Skills = append(d.Skills, drySkill{act.Name, act.Path, act.Hash})
	}
	for _, e := range cat.Entries {
		d.Available = append(d.Available, e.Name)
	}
	for _, t := range req.Tools {
		d.Tools = append(d.Tools, t.Name)
	}
	if j.sandbox != nil {
		p := probedOf(j.sandbox.Probe(ctx))
		d.Sandbox = &p
	}
	for _, g := range j.snapshot.Diagnostics() {
		d.Problems = append(d.Problems, diagnostic{string(g.Severity), g.Code, g.Detail, g.Path, g.Line, g.Column})
	}
	return d, nil
}

// estimate counts a request at four bytes a token.
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

func (a *app) showDry(d dryPlan) {
	if d.Phase != "" {
		fmt.Fprintf(a.Out, "phase      %s\n", oneLine(d.Phase))
	}
	model := d.Model
	if d.Scripted {
		model += " (recorded turns)"
	}
	fmt.Fprintf(a.Out, "model      %s\nmode       %s\nworkspace  %s\n", oneLine(model), d.Mode, oneLine(d.Workspace))
	fmt.Fprintf(a.Out, "enforcing  %s; the task is %s\n", d.Enforcing, map[policy.Role]string{policy.DirectCommand: "a direct command", policy.Context: "context", policy.Quote: "a quote"}[d.Role])
	for _, r := range d.Roots {
		fmt.Fprintf(a.Out, "root       %s (%s, %s)\n", oneLine(cmp.Or(r.Path, "embedded")), r.Label, r.Tier.Or())
	}
	var names []string
	for _, s := range d.Skills {
		names = append(names, s.Name)
	}
	fmt.Fprintf(a.Out, "skills     %s\n", oneLine(orNone(names)))
	fmt.Fprintf(a.Out, "catalog    %s\n", oneLine(orNone(d.Available)))
	if s := shortened(run.CatalogReport{Listed: len(d.Available), Omitted: d.Omitted, Cut: d.Cut, Dropped: d.Dropped, Budget: d.Budget}); s != "" {
		fmt.Fprintf(a.Out, "           %s\n", s)
	}
	fmt.Fprintf(a.Out, "tools      %s\n", oneLine(orNone(d.Tools)))
	a.showDrySubagents(d.Subagents)
	if d.Policy != nil {
		fmt.Fprintf(a.Out, "policy     %s\n", oneLine(d.Policy.words()))
	}
	if p := d.Sandbox; p != nil && p.Available {
		fmt.Fprintf(a.Out, "sandbox    %s, %s\n", p.Name, p.Level)
	} else if p != nil && len(p.Missing) > 0 {
		fmt.Fprintf(a.Out, "sandbox    %s cannot run here: %s: %s\n", p.Name, p.Missing[0].Primitive, oneLine(p.Missing[0].Detail))
	}
	fmt.Fprintf(a.Out, "request    about %d tokens\n", d.Tokens)
	for _, g := range d.Problems {
		fmt.Fprintf(a.Out, "%-10s %s: %s: %s\n", g.Severity, oneLine(place(metier.Diagnostic{Path: g.Path, Line: g.Line, Column: g.Column})), g.Code, oneLine(g.Detail))
	}
	fmt.Fprintf(a.Out, "task       %s\n\n", printable(strings.TrimSpace(d.Prompt)))
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// unasked is the model of a dry run on a host that has none.
type unasked struct{}

func (unasked) Stream(context.Context, model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) { yield(model.Chunk{}, errors.New("a dry run asks no model")) }
}
