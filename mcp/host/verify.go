package host

import (
	"context"

	"metier"
	"metier/internal/termtext"
	"metier/skillmd"
)

// Verify fetches every file of a skill, SKILL.md first, and returns a problem for each one that does
// not match the skill's entry. For a dynamic skill it fetches SKILL.md, and nothing proves that this
// is what a run will get.
func Verify(ctx context.Context, b metier.Bundle, m metier.Manifest) (bad []metier.Diagnostic) {
	names := []string{mainFile}
	for _, f := range m.Files {
		if f.Path != mainFile {
			names = append(names, f.Path)
		}
	}
	for _, f := range names {
		r, err := b.Open(ctx, f)
		if err == nil {
			err = r.Close()
		}
		if err != nil {
			bad = append(bad, metier.Diagnostic{Severity: skillmd.Error, Code: metier.CodeOf(err), Detail: termtext.Line(err.Error()), Path: f})
		}
	}
	return bad
}
