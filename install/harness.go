package install

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"metier"
	"metier/harness"
	"metier/internal/plural"
	"metier/internal/termtext"
	"metier/skillmd"
)

// maxProblems limits the problems of a harness that an error lists.
const maxProblems = 100

// entryFile returns the name of the file that makes a folder a harness, or "" for skills.
func entryFile(harnesses bool) string {
	if harnesses {
		return harness.File
	}
	return ""
}

// isEntry reports whether a path is that of the file that makes the top of a source a skill or a harness.
func (f *Fetched) isEntry(p string) bool {
	if f.harnesses {
		return p == harness.File
	}
	return isSkillFile(p)
}

// asHarnesses removes findings about the names of skills. It returns an error if the source contains no
// harness.
func (f *Found) asHarnesses() error {
	for i := range f.Skills {
		f.Skills[i].Diagnostics = nil
	}
	if len(f.Skills) > 0 {
		return nil
	}
	return metier.Fieldf(metier.NotFound, "Request.Source", "source_without_skills", "use a folder that contains a "+harness.File, "%s contains no harness%s", f.Source, f.also())
}

// validate checks the staged files of a harness, as runs read them. The error lists all its problems.
func (p *Plan) validate(ctx context.Context, c *Change, r Request) error {
	h, err := harness.Load(ctx, p.store.path(work, p.id, "new", c.Name), &harness.Options{Layout: r.harness.Layout, Summary: r.harness.GroupSummary})
	if err != nil {
		return err
	}
	var lines []string
	for _, d := range h.Diagnostics {
		if d.Severity == skillmd.Error {
			lines = append(lines, termtext.Line(d.Path+": "+d.Detail))
		}
	}
	if len(lines) == 0 {
		return nil
	}
	n := len(lines)
	if n > maxProblems {
		lines = append(lines[:maxProblems], fmt.Sprintf("and %d more", n-maxProblems))
	}
	return &metier.Error{Path: strings.TrimPrefix(c.Entry.Path, "."), Kind: metier.Invalid, Code: "harness_invalid", Hint: "ask the author of the harness to fix it; see 'metier harness validate DIR'",
		Err: errors.New("it is not a valid harness: " + plural.Of(n, "error") + "\n  - " + strings.Join(lines, "\n  - "))}
}
