package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"metier"
	"metier/agent/subagent"
	"metier/config"
	"metier/engine"
	"metier/internal/namedfile"
	"metier/internal/nearest"
	"metier/internal/plural"
)

func (a *app) subagentsCommand() *cobra.Command {
	var dirs []string
	c := &cobra.Command{Use: "subagents", GroupID: "setup", Short: "List the subagent profiles that a model can delegate tasks to",
		Long: `Subagents lists the built-in subagent profiles and the operator's profiles, which
override built-in profiles with the same name. A run can use the profiles listed
with --allow-subagent-profile or under subagents.allow in the configuration.
docs/SUBAGENTS.md describes what a subagent gets and what it returns.`,
		Example: "  metier subagents\n  metier subagents show browser\n  metier subagents check subagents/painter.yaml\n  metier run --allow-subagent-profile default --prompt \"Compare the two reports\"",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return a.listSubagents(dirs) }}
	c.PersistentFlags().StringArrayVar(&dirs, "subagent-profiles", nil, "`folder` with more subagent profiles, as NAME.yaml files (repeatable)")
	show := &cobra.Command{Use: "show NAME", Short: "Show what subagents with this profile may do",
		Example: "  metier subagents show browser\n  metier subagents show author --json", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return a.showSubagent(dirs, args[0]) }}
	check := &cobra.Command{Use: "check FILE", Short: "Validate a profile file",
		Long:    "Check reports whether a file is a valid subagent profile.\nExit 0: the file is valid. 1: the file is invalid.",
		Example: "  metier subagents check subagents/painter.yaml", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return a.checkSubagent(args[0]) }}
	for _, sub := range []*cobra.Command{c, show, check} {
		a.completions(sub)
	}
	show.ValidArgsFunction = firstArg(1, a.completeSubagents)
	check.ValidArgsFunction = firstArg(1, func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return []cobra.Completion{"yaml"}, cobra.ShellCompDirectiveFilterFileExt
	})
	c.AddCommand(show, check)
	return c
}

// subagentDoc is a profile in the output of `subagents --json`. Its lists are never null.
type subagentDoc struct {
	Name            string   `json:"name"`
	Description     string   `json:"description"`
	Skills          []string `json:"skills"`
	AllowSkills     []string `json:"allowSkills"`
	Scripts         []string `json:"scripts"`
	Tools           []string `json:"tools"`
	Hosts           []string `json:"hosts"`
	Model           string   `json:"model"` // "": its parent's
	MaxTurns        int      `json:"maxTurns"`
	MaxTokens       int64    `json:"maxTokens"` // 0: what its parent has left
	ExecutionTarget string   `json:"executionTarget"`
	Browser         bool     `json:"browser"` // its scripts on the host need the lent one
	Instructions    string   `json:"instructions"`
	Allowed         bool     `json:"allowed"` // by the configuration
	File            string   `json:"file"`    // "": metier brings it
}

func docOf(p engine.KnownProfile, op config.Operator) subagentDoc {
	list := func(in []string) []string { return append([]string{}, in...) }
	return subagentDoc{Name: p.Name, Description: strings.TrimSpace(p.Description), Skills: list(p.Skills), AllowSkills: list(p.AllowSkills), Scripts: list(p.Scripts), Tools: list(p.Tools),
		Hosts: list(p.Hosts), Model: p.Model, MaxTurns: p.MaxTurns, MaxTokens: p.MaxTokens, ExecutionTarget: p.Target, Browser: p.Browser, Instructions: p.Instructions,
		Allowed: slices.Contains(op.Subagents.Allow, p.Name), File: p.File}
}

// subagentDocs are all profiles.
func (a *app) subagentDocs(dirs []string) ([]subagentDoc, error) {
	op, err := config.Load(a.env)
	if err != nil {
		return nil, err
	}
	all, err := a.engine().SubagentProfiles(op, dirs)
	out := []subagentDoc{}
	for _, p := range all {
		out = append(out, docOf(p, op))
	}
	return out, err
}

func (a *app) listSubagents(dirs []string) error {
	all, err := a.subagentDocs(dirs)
	if err != nil {
		return err
	}
	if a.json {
		return a.document(map[string]any{"subagents": all})
	}
	t := table{heads: []string{"NAME", "TOOLS", "SCRIPTS", "RUNS IN", "TURNS", "ALLOWED", "DESCRIPTION"}}
	for _, d := range all {
		scripts, in := "none", ""
		if len(d.Scripts) > 0 {
			scripts, in = plural.Of(len(d.Scripts), "script"), d.ExecutionTarget
		}
		t.add(d.Name, strings.Join(d.Tools, ", "), scripts, in, fmt.Sprint(d.MaxTurns), yesNo(d.Allowed), d.Description)
	}
	t.print(a.Out, "")
	return nil
}

func (a *app) showSubagent(dirs []string, name string) error {
	all, err := a.subagentDocs(dirs)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(d subagentDoc) bool { return d.Name == name })
	if i < 0 {
		var names []string
		for _, d := range all {
			names = append(names, d.Name)
		}
		return &metier.Error{Op: "subagents", Kind: metier.NotFound, Code: "subagent_profile_unknown", Hint: "profiles: " + strings.Join(names, ", "),
			Err: fmt.Errorf("there is no subagent profile %q%s", name, nearest.Hint(name, names))}
	}
	d := all[i]
	if a.json {
		return a.document(d)
	}
	t := table{}
	t.add("profile", d.Name)
	t.add("description", d.Description)
	t.add("allowed", map[bool]string{true: "yes, in the configuration", false: "only with --allow-subagent-profile"}[d.Allowed])
	t.add("skills", orNone(d.Skills))
	t.add("may load", orNone(d.AllowSkills))
	t.add("tools", strings.Join(d.Tools, ", "))
	t.add("scripts", orNone(d.Scripts))
	if len(d.Scripts) > 0 {
		in := d.ExecutionTarget
		if d.Browser {
			in += ", with the shared browser session"
		}
		t.add("run in", in)
	}
	t.add("hosts", orNone(d.Hosts))
	t.add("model", cmp.Or(d.Model, "its parent's"))
	t.add("turns", fmt.Sprint(d.MaxTurns))
	if d.MaxTokens > 0 {
		t.add("tokens", plural.Thousands(d.MaxTokens))
	}
	t.add("from", cmp.Or(d.File, "metier"))
	t.print(a.Out, "")
	if s := strings.TrimRight(d.Instructions, "\n"); s != "" {
		fmt.Fprintf(a.Out, "\n%s\n", printable(s))
	}
	return nil
}

// checkSubagent validates one file.
func (a *app) checkSubagent(file string) error {
	bad := func(err error) error {
		return &problem{exit: exitFailed, code: "subagent_profile_invalid", hint: "docs/SUBAGENTS.md lists the keys of a profile", err: fmt.Errorf("%s: %w", file, err)}
	}
	b, err := namedfile.Read(a.env.Path(file), subagent.MaxFile)
	if errors.Is(err, os.ErrNotExist) {
		return &metier.Error{Op: "subagents", Path: file, Kind: metier.NotFound, Code: "not_found", Hint: "specify the path to a profile file", Err: errors.New("the file does not exist")}
	}
	if err != nil {
		return bad(namedfile.Cause(err))
	}
	p, err := subagent.Parse(b)
	if err != nil {
		return bad(err)
	}
	if err := engine.CheckProfile(p); err != nil {
		return bad(err)
	}
	if want := p.Name + ".yaml"; filepath.Base(file) != want {
		return bad(fmt.Errorf("the file for the profile %q must be named %s", p.Name, want))
	}
	op, err := config.Load(a.env)
	if err != nil {
		return err
	}
	if a.json {
		return a.document(docOf(engine.KnownProfile{Profile: p, File: a.env.Path(file)}, op))
	}
	_, err = fmt.Fprintf(a.Out, "%s is a valid profile, %s: %s, %s\n", oneLine(file), p.Name, plural.Of(len(p.Tools), "tool"), plural.Of(len(p.Scripts), "script"))
	return err
}

// completeSubagents completes names of profiles.
func (a *app) completeSubagents(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	all, _ := a.subagentDocs(nil) // completion shows no errors
	var out []cobra.Completion
	for _, d := range all {
		out = append(out, cobra.CompletionWithDesc(d.Name, oneLine(d.Description)))
	}
	return starting(out, typed), cobra.ShellCompDirectiveNoFileComp
}
