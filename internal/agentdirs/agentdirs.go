// Package agentdirs lists the folders in which coding agents keep skills.
package agentdirs

import (
	"path/filepath"
	"slices"
	"strings"
)

// Agent is a coding agent and its skill folders.
type Agent struct {
	// Name identifies the agent on the command line and in settings, such as
	// "cursor".
	Name string
	// Title is the name of the product, such as "Cursor".
	Title string
	// Project lists folders relative to a project, and Home lists folders
	// relative to the home, both with slashes and in order of precedence.
	Project, Home []string
	// HomeVar is the environment variable that moves the first component of
	// Home[0]: with CODEX_HOME=/x, .codex/skills is also /x/skills.
	HomeVar string
	// Plain means that the Project folders have ordinary names, such as
	// "skills", which projects also use for other things.
	Plain bool
}

// Shared is the name of the .agents folder, which all agents share.
const Shared = "agents"

// All returns every known agent: the shared .agents folder first, then the
// agents whose folders metier can search by setting, then the others by name.
// The caller must not change the result.
func All() []Agent { return agents }

// Names returns the names of all agents, in the order of [All].
func Names() []string {
	out := make([]string, len(agents))
	for i, a := range agents {
		out[i] = a.Name
	}
	return out
}

// ProjectFolders returns the skill folders that agents have in a project,
// relative and with slashes. It leaves out ordinary names ([Agent.Plain]).
func ProjectFolders() []string {
	var out []string
	for _, a := range agents {
		if !a.Plain {
			out = append(out, a.Project...)
		}
	}
	return out
}

// HomeFolders returns the host paths of an agent's skill folders for a user
// with this home and environment. It returns nil unless home is absolute.
func (a Agent) HomeFolders(home string, env func(string) string) []string {
	if !filepath.IsAbs(home) {
		return nil
	}
	var out []string
	if dir := env(a.HomeVar); a.HomeVar != "" && filepath.IsAbs(dir) {
		_, rest, _ := strings.Cut(a.Home[0], "/")
		out = append(out, filepath.Join(dir, filepath.FromSlash(rest)))
	}
	for _, sub := range a.Home {
		base := home
		if rest, ok := strings.CutPrefix(sub, ".config/"); ok && filepath.IsAbs(env("XDG_CONFIG_HOME")) {
			base, sub = env("XDG_CONFIG_HOME"), rest
		}
		if p := filepath.Join(base, filepath.FromSlash(sub)); !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}
