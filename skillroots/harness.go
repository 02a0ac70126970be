package skillroots

import (
	"os"
	"path/filepath"

	"metier/harness"
)

// Harnesses is the folder of a project, and of a home, in which harnesses are installed, with slashes.
const Harnesses = ".agents/harnesses"

// installed returns the folder of an installed harness with a name: of the workspace, or else of the user.
// It returns "" if there is none.
func (f Finder) installed(name, workspace string) string {
	if name != filepath.Base(name) {
		return ""
	}
	for _, base := range []string{workspace, f.Env.Home()} {
		if p := filepath.Join(base, filepath.FromSlash(Harnesses), name); base != "" && isHarness(p) {
			return p
		}
	}
	return ""
}

// harnessRoots are the harnesses that flags name. A name that is not that of a folder of the workspace can
// be the name of an installed harness.
func (f Finder) harnessRoots(named []string, workspace string) []Root {
	var out []Root
	for _, p := range named {
		if !filepath.IsAbs(p) {
			name := p
			p = filepath.Join(workspace, p)
			if at := f.installed(name, workspace); at != "" && !isHarness(p) {
				p = at
			}
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
