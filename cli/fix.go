package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"metier/internal/plural"
	"metier/internal/termtext"
	"metier/skillmd"
	"metier/skillmd/folder"
)

func (a *app) fixCommand() *cobra.Command {
	var write bool
	c := &cobra.Command{Use: "fix PATH...", GroupID: "author", Short: "Repair the frontmatter of skills",
		Long: `Some problems in frontmatter are repaired in memory when a skill is read. Fix
writes these repairs to the file. It handles values that need quotes, a missing
closing line, a code fence around the file, lines before the frontmatter, broken
escapes, and misspelled fields. The values and the rest of the file stay the same.

Fix prints the change as a diff and writes it only with --write. It skips files
and folders that are symlinks.

Exit 0: nothing is left to fix. 1: something needs a manual fix, or a file
cannot be written. 4: a path does not exist.`,
		Example: "  metier fix .agents/skills/*\n  metier fix my-skill --write\n  metier fix my-skill | patch -p1",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.fix(c.Context(), args, write)
		}}
	c.Flags().BoolVar(&write, "write", false, "write the files instead of printing what would change")
	a.completions(c)
	c.ValidArgsFunction = folders
	return c
}

func (a *app) fix(ctx context.Context, paths []string, write bool) error {
	doc := struct {
		OK      bool           `json:"ok"`
		Results []folder.Fixed `json:"results"`
	}{OK: true, Results: []folder.Fixed{}}
	left, missing := 0, 0
	for _, p := range paths {
		if err := ctx.Err(); err != nil {
			return err
		}
		f := folder.Fix(a.Dir, p, write)
		switch {
		case f.Missing:
			missing++
		case !f.OK:
			left++
		}
		doc.OK, doc.Results = doc.OK && f.OK, append(doc.Results, f)
		if !a.json {
			a.showFixed(f, write)
		}
	}
	if a.json {
		if err := a.document(doc); err != nil {
			return err
		}
	}
	switch {
	case left > 0:
		return &problem{exit: exitFailed, code: "skill_not_fixed", err: fmt.Errorf("%s not fixed", countOf(left+missing, len(paths), "skill")),
			hint: "fix the listed problems by hand; their meaning cannot be determined automatically"}
	case missing > 0:
		return &problem{exit: exitNotFound, code: "path_missing", err: fmt.Errorf("%s missing", countOf(missing, len(paths), "path")),
			hint: "specify folders that contain a SKILL.md"}
	}
	return nil
}

func (a *app) showFixed(f folder.Fixed, write bool) {
	switch {
	case f.Written:
		fmt.Fprintf(a.Out, "fixed %s: %s\n", oneLine(f.File), oneLine(codesOf(f.Fixed)))
	case f.Changed && a.outTerminal():
		io.WriteString(a.Out, printable(strings.ToValidUTF8(f.Diff, "\uFFFD")))
	case f.Changed:
		io.WriteString(a.Out, f.Diff)
	}
	switch {
	case f.Changed && !write:
		fmt.Fprintf(a.Err, "%s: %s\n", oneLine(f.File), unwritten(len(f.Fixed), f.Path))
	case !f.Changed && f.OK:
		fmt.Fprintf(a.Err, "%s: nothing to repair ('metier validate' checks the rest)\n", oneLine(f.File))
	}
	for _, d := range f.Left {
		fmt.Fprintf(a.Err, "%s: not fixed: %s%s [%s]\n", oneLine(f.File), onLine(d), oneLine(d.Detail), d.Code)
	}
}

// unwritten reports how many repairs a skill needs, and the command that writes them.
func unwritten(n int, path string) string {
	is, them := "are", "them"
	if n == 1 {
		is, them = "is", "it"
	}
	return fmt.Sprintf("%s %s available; to write %s, run: metier fix --write %s", plural.Of(n, "repair"), is, them, termtext.Word(path))
}

// codesOf lists codes with their lines.
func codesOf(diags []skillmd.Diagnostic) string {
	var out []string
	for _, d := range diags {
		out = append(out, fmt.Sprintf("%s on line %d", d.Code, max(d.Line, 1)))
	}
	return strings.Join(out, ", ")
}
