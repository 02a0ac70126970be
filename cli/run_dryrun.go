package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"metier"
	"metier/engine"
	"metier/model"
	"metier/policy"
	"metier/run"
	"metier/skillroots"
)

// dryRun shows the initial state of each phase. It calls no model and records nothing.
func (a *app) dryRun(ctx context.Context, plans []*engine.Plan) error {
	var out []dryPlan
	for _, p := range plans {
		v, err := a.engine().Preview(ctx, p)
		if err != nil {
			return err
		}
		out = append(out, dryPlanOf(v))
	}
	return a.put(map[string]any{"phases": out}, func() {
		for _, d := range out {
			a.showDry(d)
		}
	})
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
	for _, m := range d.Mounts {
		fmt.Fprintf(a.Out, "mount      %s (%s): %s, from %s\n", oneLine(m.Target), m.Mode, oneLine(m.Name), oneLine(m.Source))
	}
	for _, r := range d.Roots {
		fmt.Fprintf(a.Out, "root       %s (%s, %s)\n", oneLine(cmp.Or(r.Path, "embedded")), r.Label, r.Tier.Or())
	}
	var names []string
	for _, s := range d.Skills {
		names = append(names, s.Name)
	}
	fmt.Fprintf(a.Out, "skills     %s\n", oneLine(orNone(names)))
	if d.unshown {
		fmt.Fprintf(a.Out, "catalog    not shown to the model\n")
	} else {
		fmt.Fprintf(a.Out, "catalog    %s\n", oneLine(orNone(d.Available)))
	}
	if s := engine.Shortened(run.CatalogReport{Listed: len(d.Available), Omitted: d.Omitted, Cut: d.Cut, Dropped: d.Dropped, Budget: d.Budget}); s != "" {
		fmt.Fprintf(a.Out, "           %s\n", s)
	}
	fmt.Fprintf(a.Out, "tools      %s\n", oneLine(orNone(d.Tools)))
	if len(d.Replaced) > 0 {
		fmt.Fprintf(a.Out, "           not allowed: the default tools %s; to add them, use --allow-tool %s\n", oneLine(strings.Join(d.Replaced, ", ")), engine.ToolsDefault)
	}
	a.showDrySubagents(d.Subagents)
	if d.Policy != nil {
		fmt.Fprintf(a.Out, "policy     %s\n", oneLine(d.Policy.Words()))
	}
	if p := d.Sandbox; p != nil && p.Available {
		fmt.Fprintf(a.Out, "sandbox    %s, %s\n", p.Name, p.Level)
	} else if p != nil && len(p.Missing) > 0 {
		fmt.Fprintf(a.Out, "sandbox    %s cannot run here: %s: %s\n", p.Name, p.Missing[0].Primitive, oneLine(p.Missing[0].Detail))
	}
	fmt.Fprintf(a.Out, "request    about %d tokens\n", d.Tokens)
	for _, g := range d.Problems {
		fmt.Fprintf(a.Out, "%-10s %s: %s: %s\n", g.Severity, oneLine(g.At()), g.Code, oneLine(g.Detail))
	}
	fmt.Fprintf(a.Out, "task       %s\n\n", printable(strings.TrimSpace(d.Prompt)))
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// dryPlan is the initial state of a run.
type dryPlan struct {
	Phase     string                   `json:"phase,omitempty"`
	Model     string                   `json:"model"`
	Scripted  bool                     `json:"scripted"`
	Mode      string                   `json:"mode"`
	Workspace string                   `json:"workspace"`
	Batch     bool                     `json:"batch"`
	Mounts    []dryMount               `json:"mounts"`
	Roots     []skillroots.Root        `json:"roots"`
	Skills    []drySkill               `json:"skills"`       // preloaded
	Available []string                 `json:"available"`    // skills in the catalog
	Catalog   string                   `json:"catalog"`      // as the model sees it; "": it sees none
	Place     string                   `json:"catalogPlace"` // of the catalog: in the description of a tool, or in the system prompt
	Omitted   int                      `json:"omitted"`
	Cut       int                      `json:"descriptionsCut"`
	Dropped   int                      `json:"descriptionsDropped"`
	Budget    int                      `json:"catalogBudget"` // in tokens; 0: none
	Tools     []string                 `json:"tools"`         // as the model sees them
	Replaced  []string                 `json:"replacedTools"` // default tools that are missing because others were named
	Policy    *engine.LaunchPolicy     `json:"policy,omitempty"`
	Subagents []engine.PreviewSubagent `json:"subagents"`         // that its model may begin
	Sandbox   *probed                  `json:"sandbox,omitempty"` // where one of the tools runs programs
	System    string                   `json:"system"`
	Prompt    string                   `json:"prompt"`
	Enforcing policy.Mode              `json:"enforcementMode"`
	Role      policy.Role              `json:"promptSlotRole"`  // of the prompt
	Tokens    int                      `json:"estimatedTokens"` // of the first request, four bytes each
	Problems  []metier.Diagnostic      `json:"diagnostics"`

	unshown bool // the model is shown no catalog of the skills that exist
}

type dryMount struct {
	Name   string `json:"name"`
	Source string `json:"source"`
	Target string `json:"target"`
	Mode   string `json:"mode"`
}

type drySkill struct {
	Name   string `json:"name"`
	Path   string `json:"path"`
	Digest string `json:"digest"`
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

func dryPlanOf(v engine.Preview) dryPlan {
	cat := v.Catalog
	d := dryPlan{Phase: v.Phase, Model: v.Model, Scripted: v.Scripted, Mode: v.Mode, Workspace: v.Workspace, Batch: v.Batch, Policy: v.Policy, Mounts: []dryMount{}, Roots: v.Roots, Skills: []drySkill{}, Available: []string{},
		Catalog: cat.Text, Place: "none",
		Omitted: cat.Omitted, Cut: cat.Cut, Dropped: cat.Dropped, Budget: cat.Budget, Tools: []string{}, Replaced: append([]string{}, v.Replaced...), Subagents: v.Subagents, System: v.Request.System, Prompt: v.Prompt,
		Enforcing: v.Enforcing, Role: v.Role, Tokens: estimate(v.Request), Problems: diagnostics(v.Diagnostics)}
	for _, act := range v.Active {
		d.Skills = append(d.Skills, drySkill{act.Name, act.Path, act.Hash})
	}
	for _, m := range v.Mounts {
		d.Mounts = append(d.Mounts, dryMount{m.Name, m.Source, m.Target, cmp.Or(m.Mode, "ro")})
	}
	switch {
	case cat.InTool():
		d.Place = "tool"
	case cat.InSystem():
		d.Place = "system"
	default:
		d.unshown, cat.Entries = len(cat.Entries) > 0, nil
	}
	for _, e := range cat.Entries {
		d.Available = append(d.Available, e.Name)
	}
	for _, t := range v.Request.Tools {
		d.Tools = append(d.Tools, t.Name)
	}
	if v.Sandbox != nil {
		p := probedOf(*v.Sandbox)
		d.Sandbox = &p
	}
	return d
}
