package cli

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"metier/engine"
	"metier/internal/plural"
	"metier/skillmd"
	"metier/skillmd/folder"
)

func (a *app) validateCommand() *cobra.Command {
	var format, profile string
	var ref bool
	c := &cobra.Command{Use: "validate PATH...", GroupID: "author", Short: "Check skills against the specification",
		Long: `Validate checks each skill folder, or the SKILL.md in it, against the Agent Skills
specification, and prints the messages of the reference validator skills-ref. It
also prints warnings (broken links) and advice (descriptions that do not explain
when to use the skill, scripts that no program on this machine can run). These do
not make a skill invalid.

With --reference, it prints exactly the results and messages of skills-ref,
including its quirks, and no advice. docs/internal/conformance.md lists the
differences. With --profile, a skill is valid if it would be loaded under that
profile.

Exit 0: every skill is valid. 1: at least one is invalid. 4: a path does not exist.`,
		Example: "  metier validate .agents/skills/*\n  metier validate --reference my-skill\n  metier validate --profile agent-runtime my-skill\n  metier validate --format sarif skills/* > skills.sarif",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := a.setFormat(c, &format); err != nil {
				return err
			}
			judge := func(p string) folder.Verdict { return folder.Validate(a.Dir, p, a.has) }
			switch {
			case ref && profile != "":
				return wrong("usage", "omit one of them", "--reference and --profile cannot be combined")
			case ref:
				judge = func(p string) folder.Verdict { return folder.ValidateAsReference(a.Dir, p) }
			case profile != "":
				s, err := profileSettings(profile)
				if err != nil {
					return err
				}
				judge = func(p string) folder.Verdict { return engine.ValidateUnder(c.Context(), a.Dir, p, s) }
			}
			return a.validate(c.Context(), args, judge, format, ref, profile)
		}}
	c.Flags().StringVar(&format, "format", formatText, "output `format`: text, json, or sarif")
	c.Flags().BoolVar(&ref, "reference", false, "check exactly as the reference validator skills-ref 0.1.0 does")
	c.Flags().StringVar(&profile, "profile", "", "check whether skills would load under this `profile`; see 'metier profile list'")
	a.completions(c)
	c.ValidArgsFunction = folders
	return c
}

// The formats of `validate`.
const (
	formatText  = "text"
	formatJSON  = "json"
	formatSARIF = "sarif"
)

// setFormat checks the format. --json means --format json. From then on, errors are JSON too,
// unless the format is text.
func (a *app) setFormat(c *cobra.Command, format *string) error {
	if a.json && !c.Flags().Changed("format") {
		*format = formatJSON
	}
	switch *format {
	case formatText:
		if a.json {
			return wrong("usage", "omit one of them", "--json and --format text cannot be combined")
		}
	case formatJSON, formatSARIF:
		a.json = true
	default:
		return wrong("usage", "formats: text, json, sarif", "there is no format %q", *format)
	}
	return nil
}

// validate validates the paths in order. It prints each verdict at once if the format allows it.
func (a *app) validate(ctx context.Context, paths []string, judge func(path string) folder.Verdict, format string, quiet bool, profile string) (err error) {
	invalid, missing, repairable, foreign := 0, 0, 0, ""
	seen, list := map[string]folder.Verdict{}, []folder.Verdict{}
	for _, p := range paths {
		if err := ctx.Err(); err != nil {
			return err
		}
		v := judge(p)
		if !quiet {
			v = v.Compared(seen)
		}
		switch {
		case v.Missing && !quiet:
			missing++
		case !v.OK:
			invalid++
		}
		if profile == "" && slices.ContainsFunc(v.Diagnostics, func(d skillmd.Diagnostic) bool { return d.Code == skillmd.CodeUnexpectedField }) {
			foreign = "; fields of Claude Code and other agents are not in the specification: to check whether a run loads such a skill, use --profile default"
		}
		repairs := 0
		if !quiet && len(v.Diagnostics) > 0 {
			repairs = len(folder.Fix(a.Dir, p, false).Fixed)
		}
		if repairs > 0 && !v.OK {
			repairable++
		}
		if format == formatText {
			a.showVerdict(v, repairs)
		} else {
			list = append(list, v)
		}
	}
	switch format {
	case formatJSON:
		err = a.document(struct {
			OK      bool             `json:"ok"`
			Results []folder.Verdict `json:"results"`
		}{invalid+missing == 0, list})
	case formatSARIF:
		err = a.document(folder.SARIF("metier validate", "metier "+buildVersion(), list))
	}
	if err != nil {
		return err
	}
	switch bad := invalid + missing; {
	case bad == 0:
		return nil
	case invalid == 0:
		return &problem{exit: exitNotFound, code: "path_missing", err: fmt.Errorf("%s missing", countOf(missing, len(paths), "path")),
			hint: "specify folders that contain a SKILL.md"}
	default:
		hint := "fix the listed problems; see the rules at https://agentskills.io/specification"
		if repairable > 0 {
			hint = "fix the listed problems; 'metier fix PATH' repairs some of them; see the rules at https://agentskills.io/specification"
		}
		return &problem{exit: exitFailed, code: "skill_invalid", err: fmt.Errorf("%s invalid", countOf(bad, len(paths), "skill")), silent: quiet && !a.json, hint: hint + foreign}
	}
}

// showVerdict prints the verdict like the reference validator, followed by warnings, advice, and how
// to write the repairs.
func (a *app) showVerdict(v folder.Verdict, repairs int) {
	w := a.Out
	if v.OK {
		fmt.Fprintf(w, "Valid skill: %s\n", oneLine(v.Path))
	} else {
		w = a.Err
		fmt.Fprintf(w, "Validation failed for %s:\n", oneLine(v.Path))
	}
	for _, m := range v.Errors {
		fmt.Fprintf(w, "  - %s\n", oneLine(m))
	}
	for _, d := range v.Diagnostics {
		if d.Severity != skillmd.Error {
			fmt.Fprintf(w, "  %s: %s%s\n", d.Severity, onLine(d), oneLine(d.Detail))
		}
	}
	if repairs > 0 {
		fmt.Fprintf(w, "  %s\n", unwritten(repairs, v.Path))
	}
}

// onLine returns the line of a diagnostic as a prefix, or "" if it is unknown.
func onLine(d skillmd.Diagnostic) string {
	if d.Line == 0 {
		return ""
	}
	return fmt.Sprintf("line %d: ", d.Line)
}

// onPath reports whether a program is in a folder of PATH.
func (a *app) onPath(name string) bool {
	for _, dir := range filepath.SplitList(a.env.Get("PATH")) {
		if _, err := exec.LookPath(filepath.Join(dir, name)); err == nil && filepath.IsAbs(dir) {
			return true
		}
	}
	return false
}

// countOf returns a phrase such as "1 of 3 skills is".
func countOf(n, of int, word string) string {
	if of == 1 {
		return "the " + word + " is"
	}
	verb := " are"
	if n == 1 {
		verb = " is"
	}
	return fmt.Sprintf("%d of %s", n, plural.Of(of, word)) + verb
}
