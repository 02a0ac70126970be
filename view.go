package metier

import (
	"path"
	"path/filepath"
	"strings"

	"metier/settings"
)

// View determines how host paths are shown to the model (setting paths).
type View struct {
	Paths     settings.Paths
	Workspace string // host path after links, or "" without a workspace
	// Repository is the base of paths with paths=repo: the workspace or a
	// folder above it. "" is the workspace.
	Repository string
}

// The roots that the model sees with paths=sandbox.
const (
	WorkspacePath = "/workspace"
	SkillsPath    = "/skills"
)

// None reports whether the model sees no paths.
func (v View) None() bool { return v.Paths == settings.PathsNone }

// Root returns the workspace path that the model sees.
func (v View) Root() string {
	if v.Paths == settings.PathsHost && v.Workspace != "" {
		return filepath.ToSlash(v.Workspace)
	}
	return WorkspacePath
}

// Dir returns the path of a skill's folder that the model sees, or "" if the
// setting shows none. With paths=sandbox, it is below /workspace if the folder
// is in the workspace. Otherwise it is the declared target of its mount, or
// /skills/NAME.
func (v View) Dir(sk Skill) string {
	dir := sk.Dir()
	switch v.Paths {
	case settings.PathsSandbox, settings.PathsAuto: // file tools map these paths, so auto shows no host path
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

// Sandbox returns the path of a skill's folder in the sandbox, regardless of
// what the model sees.
func (v View) Sandbox(sk Skill) string {
	if sk.target != "" {
		return sk.target
	}
	if rel, ok := inside(v.Workspace, sk.Dir()); ok {
		return path.Join(WorkspacePath, rel)
	}
	return path.Join(SkillsPath, sk.Slug)
}

// named returns a path for the registry: the sandbox path with paths=sandbox,
// else the host path. "" stays "".
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

// Locate returns the skill that contains a path of the model, and the path
// inside the skill. It accepts the results of Dir, /skills/NAME in every
// profile, and host paths below a skill's folder if the setting shows host
// paths. It is lexical: the caller must confine the file when it opens it.
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

// places maps each skill folder, as shown by a view, to its skill.
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
