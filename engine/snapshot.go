package engine

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"metier"
	"metier/internal/termtext"
	"metier/settings"
	"metier/skillroots"
)

// Snapshot lists the roots and applies the rules and the user's decisions. kept is the index on
// disk, or nil to read only the files themselves.
func (e *Engine) Snapshot(ctx context.Context, roots []skillroots.Root, s settings.Settings, workspace string, kept *skillroots.Scans, more ...metier.Mount) (*metier.Snapshot, error) {
	mounts, err := skillroots.Mounts(roots, s, kept)
	if err != nil {
		return nil, err
	}
	e.State().Decisions(s.Discover, workspace).Apply(mounts)
	e.origins(mounts, workspace)
	return build(ctx, append(mounts, more...), s)
}

// build lists the mounts and applies the rules.
func build(ctx context.Context, mounts []metier.Mount, s settings.Settings) (*metier.Snapshot, error) {
	return metier.Build(ctx, mounts, s.Operator.Parse, s.Names, s.Read.IndexRoot, indexesAtStart(s.Discover))
}

// indexesAtStart reports whether the files of all skills are indexed when a run begins.
func indexesAtStart(s settings.Discover) bool { return s.ResourceIndex == settings.ResourceIndexStart }

// Scans returns the index on disk for commands that show skills. A notice reports an unusable
// index.
func (e *Engine) Scans(ctx context.Context) *skillroots.Scans {
	dir, _ := e.Env.IndexDir()
	if _, err := os.Lstat(dir); dir != "" && errors.Is(err, fs.ErrNotExist) {
		if err := e.Claim(ctx, dir); err != nil { // a run beside this would take it for the work of its program
			e.Notify(Notice{Severity: Warning, Text: "the index of skills is not used: " + termtext.Line(err.Error())})
			dir = ""
		}
	}
	return &skillroots.Scans{Index: dir, Now: e.o.Now}
}
