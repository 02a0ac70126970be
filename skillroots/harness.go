package skillroots

import (
	"os"
	"path/filepath"

	"metier/harness"
)

// harnessRoots are the harnesses that flags name.
func (f Finder) harnessRoots(named []string, workspace string) []Root {
	var out []Root
	for _, p := range named {
		if !filepath.IsAbs(p) {
			p = filepath.Join(workspace, p)
		}
		r := Root{Path: p, Label: "harness", Named: true, Harness: true}
		r.Tier, r.Kind = f.TierOf(p, workspace)
		out = append(out, r)
	}
	return out
}

// isHarness reports whether a folder has a HARNESS.md.
func isHarness(dir string) bool {
	info, err := os.Lstat(filepath.Join(dir, harness.File))
	return err == nil && !info.IsDir()
}
