package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"metier"
	"metier/config"
	"metier/harness"
	"metier/internal/plural"
	"metier/internal/termtext"
	"metier/skillmd"
)

func (a *app) harnessCommand() *cobra.Command {
	c := &cobra.Command{Use: "harness", GroupID: "author", Short: "Create, validate, and show harnesses",
		Long: "A harness is a folder with a HARNESS.md that groups skills and references for an\nagent. To run an agent with a harness, use 'metier run --harness DIR'. See docs/HARNESS.md.", Args: cobra.NoArgs,
		RunE: a.help}
	c.AddCommand(a.harnessValidateCommand(), a.harnessShowCommand(), a.harnessReadCommand(), a.harnessPromptCommand(), a.harnessInitCommand())
	return c
}

// ofFolder completes a command about a folder that is or will become a harness. about describes its
// --layout. Without that flag, the settings choose.
func (a *app) ofFolder(c *cobra.Command, layout *string, about string) {
	c.Flags().StringVar(layout, "layout", "", about)
	a.completions(c)
	c.ValidArgsFunction = firstArg(1, folders)
}

const layoutAbout = "harness `layout`: v1, v2, or auto (default: the harness_layout setting)"

// harnessOptions returns how harnesses are read.
func (a *app) harnessOptions(ctx context.Context, layout string) (*harness.Options, error) {
	op, err := config.Load(a.env)
	if err != nil {
		return nil, err
	}
	ws, err := a.engine().Enter(ctx, "")
	if err != nil {
		return nil, err
	}
	set, _, _, err := op.Resolve(a.env, "", ws)
	if err != nil {
		return nil, err
	}
	o := &harness.Options{Layout: set.Harness.Layout, Summary: set.Harness.GroupSummary, Links: set.Discover.FollowsLinks()}
	if layout == "" {
		return o, nil
	}
	if o.Layout, err = harness.ParseLayout(layout); err != nil {
		return nil, wrong("usage", "layouts: v1, v2, auto", "--layout: %w", err)
	}
	return o, nil
}

// harnessAt reads the harness named by an argument.
func (a *app) harnessAt(ctx context.Context, dir, layout string, usable bool, also ...func(*harness.Options)) (*harness.Harness, error) {
	o, err := a.harnessOptions(ctx, layout)
	if err != nil {
		return nil, err
	}
	for _, set := range also {
		set(o)
	}
	h, err := harness.Load(ctx, a.env.Path(dir), o)
	if err == nil && usable {
		err = h.Err()
	}
	if err == nil {
		return h, nil
	}
	if e, ok := errors.AsType[*metier.Error](err); ok && e.Kind == metier.Invalid { // it is the harness that is wrong, not the use
		return nil, &problem{exit: exitFailed, code: e.Code, hint: e.Hint, err: err}
	}
	return nil, err
}

// anySkill treats every SKILL.md as a skill.
func anySkill(o *harness.Options) { o.AnySkill = true }

// harnessVerdict is one path of `harness validate --json`.
type harnessVerdict struct {
	Path        string               `json:"path"`
	OK          bool                 `json:"ok"`
	Layout      harness.Layout       `json:"layout"`
	Errors      []string             `json:"errors"`
	Warnings    []string             `json:"warnings"`
	Advice      []string             `json:"advice"`
	Diagnostics []skillmd.Diagnostic `json:"diagnostics"`
}

func (a *app) harnessValidateCommand() *cobra.Command {
	var layout string
	c := &cobra.Command{Use: "validate DIR", Short: "Check a harness",
		Long: `Validate checks whether a harness can be loaded and prints the messages of its
layout's reference validator. HARNESS.md and each skill need a name and a
description; in v1, a Markdown reference also needs a description. A group without
a summary file causes a warning. In v2, so does a Markdown file without a
description.

Errors and warnings go to standard error. Exit 0: the harness is valid, possibly
with warnings. 1: it is invalid. 4: the folder does not exist.`,
		Example: "  metier harness validate examples/sales-desk\n  metier harness validate --json examples/release-desk", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			h, err := a.harnessAt(c.Context(), args[0], layout, false)
			if err != nil {
				return err
			}
			return a.checkHarness(h, filepath.Clean(args[0]))
		}}
	a.ofFolder(c, &layout, layoutAbout)
	return c
}

func (a *app) checkHarness(h *harness.Harness, shown string) error {
	v := harnessVerdict{Path: shown, Layout: h.Layout, Errors: []string{}, Warnings: []string{}, Advice: []string{}, Diagnostics: h.Diagnostics}
	if v.Diagnostics == nil {
		v.Diagnostics = []skillmd.Diagnostic{}
	}
	for _, d := range h.Diagnostics {
		text := d.Path + ": " + d.Detail
		switch d.Severity {
		case skillmd.Error:
			v.Errors = append(v.Errors, text)
		case skillmd.Warning:
			v.Warnings = append(v.Warnings, text)
		default:
			v.Advice = append(v.Advice, text)
		}
	}
	v.OK = len(v.Errors) == 0
	if a.json {
		if err := a.document(v); err != nil {
			return err
		}
	} else {
		for _, l := range []struct {
			mark string
			list []string
		}{{"✗", v.Errors}, {"⚠", v.Warnings}, {"·", v.Advice}} {
			for _, text := range l.list {
				fmt.Fprintf(a.Err, "%s %s\n", l.mark, oneLine(text))
			}
		}
		if v.OK {
			_, err := fmt.Fprintf(a.Out, "✓ %s is a valid harness (layout %s): %s, %s\n", oneLine(shown), h.Layout, plural.Of(len(h.Skills()), "skill"), plural.Of(len(h.References()), "reference"))
			return err
		}
	}
	if v.OK {
		return nil
	}
	return &problem{exit: exitFailed, code: "harness_invalid", hint: "fix the listed problems; see the rules in docs/HARNESS.md", err: fmt.Errorf("%s is not a valid harness: %s", shown, plural.Of(len(v.Errors), "error"))}
}

// harnessNode is a node of `harness show --json`.
type harnessNode struct {
	Path        string        `json:"path"`
	Kind        harness.Kind  `json:"kind"`
	Type        string        `json:"type,omitempty"`
	File        string        `json:"file,omitempty"`
	Name        string        `json:"name"`
	Description string        `json:"description"`
	Children    []harnessNode `json:"children,omitempty"`
}

func nodeOf(n *harness.Node) harnessNode {
	out := harnessNode{Path: n.Path, Kind: n.Kind, Type: n.Type, File: n.File, Name: n.Name, Description: n.Description}
	for _, c := range n.Children {
		out.Children = append(out.Children, nodeOf(c))
	}
	return out
}

// harnessSkill and harnessReference are entries of `harness show --json`.
type harnessSkill struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Path        string `json:"path"`
}

type harnessReference struct {
	Filename    string `json:"filename"`
	Description string `json:"description"`
	Path        string `json:"path"`
}

func (a *app) harnessShowCommand() *cobra.Command {
	var layout string
	c := &cobra.Command{Use: "show DIR", Short: "Show a harness as a tree",
		Long: `Show prints a harness as a tree of groups, skills, other leaves, and documents,
with their descriptions. A folder with a SKILL.md is shown as a skill even if no
line in .leaf-detectors matches it. 'metier harness validate' reports such
folders.`,
		Example: "  metier harness show examples/sales-desk\n  metier harness show --json examples/release-desk", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			h, err := a.harnessAt(c.Context(), args[0], layout, true, anySkill)
			if err != nil {
				return err
			}
			return a.showHarness(h)
		}}
	a.ofFolder(c, &layout, layoutAbout)
	return c
}

func (a *app) showHarness(h *harness.Harness) error {
	if !a.json {
		_, err := fmt.Fprint(a.Out, h.Draw(a.columns()))
		return err
	}
	skills, refs := []harnessSkill{}, []harnessReference{}
	for _, n := range h.Skills() {
		skills = append(skills, harnessSkill{n.Name, n.Description, n.Path})
	}
	for _, n := range h.References() {
		refs = append(refs, harnessReference{n.Name, n.Description, n.Path})
	}
	return a.document(map[string]any{"name": h.Name, "description": h.Description, "body": h.Body, "layout": h.Layout, "dir": h.Dir,
		"skills": skills, "references": refs, "tree": nodeOf(h.Root), "diagnostics": diagnostics(h.Diagnostics)})
}

func (a *app) harnessReadCommand() *cobra.Command {
	var layout string
	c := &cobra.Command{Use: "read DIR name|description", Short: "Print the name or description of a harness",
		Long:    "Read prints one field of HARNESS.md, as the reference tool does.\n\nExit 1: the harness cannot be loaded. 4: it does not exist.",
		Example: "  metier harness read examples/sales-desk name", Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			if args[1] != "name" && args[1] != "description" {
				return wrong("usage", "fields: name, description", "%q is not a field of a harness", args[1])
			}
			h, err := a.harnessAt(c.Context(), args[0], layout, true)
			if err != nil {
				return err
			}
			value := map[string]string{"name": h.Name, "description": h.Description}[args[1]]
			if a.json {
				return a.document(map[string]string{args[1]: value})
			}
			_, err = fmt.Fprintln(a.Out, oneLine(value))
			return err
		}}
	a.ofFolder(c, &layout, layoutAbout)
	c.ValidArgsFunction = func(c *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		switch len(args) {
		case 0:
			return folders(c, args, typed)
		case 1:
			return []cobra.Completion{"name", "description"}, cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c
}

func (a *app) harnessPromptCommand() *cobra.Command {
	var layout string
	c := &cobra.Command{Use: "prompt DIR", Short: "Print a harness as XML for a prompt",
		Long: `Prompt prints a harness's name, description, body, and contents as XML, in the
reference library's format. Unlike the library, it escapes all text, so a name or
description cannot open an element.`,
		Example: "  metier harness prompt examples/sales-desk > prompt.xml", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			h, err := a.harnessAt(c.Context(), args[0], layout, true)
			if err != nil {
				return err
			}
			if a.json {
				return a.document(map[string]string{"prompt": h.Prompt()})
			}
			text := h.Prompt()
			if a.outTerminal() {
				text = printable(text)
			}
			_, err = fmt.Fprint(a.Out, text)
			return err
		}}
	a.ofFolder(c, &layout, layoutAbout)
	return c
}

func (a *app) harnessInitCommand() *cobra.Command {
	var layout string
	var empty bool
	c := &cobra.Command{Use: "init DIR", Short: "Create a new harness",
		Long: `Init creates a valid harness: HARNESS.md, a skill with a script, and a reference,
each in a group with a summary. With --empty, it creates only HARNESS.md
and, in v2, .leaf-detectors. It never overwrites existing files.`,
		Example: "  metier harness init sales-desk\n  metier harness init release-desk --layout v2 --empty", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			l, err := harness.ParseLayout(layout)
			if err != nil {
				return wrong("usage", "layouts: v1, v2", "--layout %s is not a layout", termtext.Quote(layout))
			}
			shown := filepath.Clean(args[0])
			if err := a.engine().Claim(c.Context(), filepath.Join(a.env.Path(shown), harness.File)); err != nil {
				return err
			}
			files, err := harness.Create(a.env.Path(shown), filepath.Base(a.env.Path(shown)), l, empty)
			switch {
			case errors.Is(err, harness.ErrThere):
				return &problem{exit: exitFailed, code: "harness_exists", err: fmt.Errorf("nothing was written to %s: %w", shown, err), hint: "choose another folder"}
			case err != nil:
				return &problem{exit: exitFailed, code: "harness_not_written", err: fmt.Errorf("%s was not written: %w", shown, err), hint: "choose a writable folder"}
			}
			if a.json {
				return a.document(map[string]any{"dir": shown, "files": files})
			}
			for _, f := range files {
				fmt.Fprintf(a.Out, "created %s\n", oneLine(filepath.Join(shown, filepath.FromSlash(f))))
			}
			_, err = fmt.Fprintf(a.Out, "Next: describe the agent's purpose in %s, then run: metier harness validate %s\n", harness.File, termtext.Word(shown))
			return err
		}}
	c.Flags().BoolVar(&empty, "empty", false, "create HARNESS.md without skills or references")
	a.ofFolder(c, &layout, "`layout` of the new harness: v1 or v2 (default v1)")
	return c
}
