package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"metier/engine"
	"metier/policy"
)

// dryRun shows the initial state of each phase. It calls no model and records nothing.
func (a *app) dryRun(ctx context.Context, plans []*engine.Plan) error {
	var out []engine.Preview
	for _, p := range plans {
		v, err := a.engine().Preview(ctx, p)
		if err != nil {
			return err
		}
		out = append(out, v)
	}
	return a.put(map[string]any{"phases": out}, func() {
		for _, d := range out {
			a.showDry(d)
		}
	})
}

func (a *app) showDry(d engine.Preview) {
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
	if d.Unshown {
		fmt.Fprintf(a.Out, "catalog    not shown to the model\n")
	} else {
		fmt.Fprintf(a.Out, "catalog    %s\n", oneLine(orNone(d.Available)))
	}
	if d.Shortened != "" {
		fmt.Fprintf(a.Out, "           %s\n", d.Shortened)
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
		fmt.Fprintf(a.Out, "sandbox    %s, %s\n", p.Backend, p.Level)
	} else if p != nil && len(p.Missing) > 0 {
		fmt.Fprintf(a.Out, "sandbox    %s cannot run here: %s: %s\n", p.Backend, p.Missing[0].Primitive, oneLine(p.Missing[0].Detail))
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

func (a *app) showDrySubagents(list []engine.PreviewSubagent) {
	for _, s := range list {
		words := s.Name + ": " + strings.Join(s.Tools, ", ")
		if len(s.Skills) > 0 {
			words += "; starts with " + strings.Join(s.Skills, ", ")
		}
		if none := slices.Concat(s.MissingSkills, s.MissingTools); len(none) > 0 {
			words += "; missing: " + strings.Join(none, ", ")
		}
		if len(s.Scripts) > 0 {
			words += "; " + s.ExecutionTarget + " runs " + strings.Join(s.Scripts, ", ")
		}
		if len(s.Hosts) > 0 {
			words += "; may reach " + strings.Join(s.Hosts, ", ")
		}
		fmt.Fprintf(a.Out, "subagent   %s\n", oneLine(words))
	}
}
