package metier

import (
	"path"
	"path/filepath"
	"strings"

	"metier/settings"
)

// View is how host paths look to the model (setting paths).
type View struct {
	Paths     settings.Paths
	Workspace string // host path after links, or "" when there is none
	// Repository is the folder above the workspace, or the workspace itself,
	// that paths=repo is relative to. "" is the workspace.
	Repository string
}

// The model's own roots in the profiles with paths=sandbox.
const (
	WorkspacePath = "/workspace"
	SkillsPath    = "/skills"
)

// None reports whether the model is shown no paths at all.
func (v View) None() bool { return v.Paths == settings.PathsNone }

// Root returns the workspace as the model is shown it.
func (v View) Root() string {
	if v.Paths == settings.PathsHost && v.Workspace != "" {
		return filepath.ToSlash(v.Workspace)
	}
	return WorkspacePath
}

// Dir returns a skill's folder as the model is shown it, or "" where the
// setting shows none. Under paths=sandbox it is /workspace/… when the folder
// lies in the workspace, the declared target of its mount, or
// /skills/NAME.
func (v View) Dir(sk Skill) string {
	dir := sk.Dir()
	switch v.Paths {
	case settings.PathsSandbox, settings.PathsAuto: // file tools map what was shown, so auto shows no host path
		return v.Sandbox(sk)
	case settings.PathsHost:
		return dir
	case settings.PathsRepo:
		rel, _ := inside(firstOf(v.Repository, v.Workspace), dir)
		return rel
	case settings.PathsSkill:
		return sk.ID.Path
	}
	return ""
}

// Sandbox returns a skill's folder as programs in the sandbox see it, whatever
// the model is shown.
func (v View) Sandbox(sk Skill) string {
	if sk.target != "" {
		return sk.target
	}
	if rel, ok := inside(v.Workspace, sk.Dir()); ok {
		return path.Join(WorkspacePath, rel)
	}
	return path.Join(SkillsPath, sk.Slug)
}

// named is a path as the registry names it: the sandbox's under paths=sandbox,
// else the host's. "" stays "".
func (v View) named(host, sandbox string) string {
	if v.Paths == settings.PathsSandbox && host != "" {
		return sandbox
	}
	return host
}

// inside returns the slash path of a host path below a folder.
func inside(dir, host string) (string, bool) {
	if dir == "" || host == "" {
		return "", false
	}
	rel, err := filepath.Rel(dir, host)
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) || filepath.IsAbs(rel) {
		return "", false
	}
	return filepath.ToSlash(rel), true
}

// Locate finds the skill a model path lies in, and the path inside it. It
// takes the forms Dir gives, /skills/NAME in every profile, and host paths
// below a skill's folder where the setting shows host paths. It is lexical:
// who opens the file confines it.
func (v View) Locate(snap *Snapshot, p string) (Skill, string, bool) {
	folders := snap.places(v)
	clean := path.Clean(filepath.ToSlash(p))
	for dir := clean; ; dir = path.Dir(dir) {
		if i, ok := folders[dir]; ok {
			rel := strings.TrimPrefix(strings.TrimPrefix(clean, dir), "/")
			return snap.skills[i], firstOf(rel, "."), true
		}
		if dir == "." || dir == path.Dir(dir) {
			return Skill{}, "", false
		}
	}
}

// places returns which skill has which folder under a view.
func (n *Snapshot) places(v View) map[string]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if m, ok := n.folders[v]; ok {
		return m
	}
	m := map[string]int{}
	for i := range n.skills {
		sk := &n.skills[i]
		if !sk.usable() {
			continue
		}
		dirs := []string{path.Join(SkillsPath, sk.Slug)}
		if d := v.Dir(*sk); d != "" && d != "." && v.Paths != settings.PathsSkill {
			dirs = append(dirs, path.Clean(filepath.ToSlash(d)))
		}
		for _, d := range dirs {
			if _, taken := m[d]; !taken {
				m[d] = i
			}
		}
	}
	if n.folders != nil {
		n.folders[v] = m
	}
	return m
}
