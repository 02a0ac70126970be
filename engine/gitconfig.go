package engine

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"

	"metier/config"
	"metier/internal/gitconfig"
	"metier/internal/gitrepos"
)

// gitConfig lists other files that git obeys, from git's configuration files.
type gitConfig struct {
	env     config.Env
	files   []string // of the user, and included ones
	hooks   []string // values of core.hooksPath
	partial bool     // a file could not be read
}

// userGitConfig reads the configuration of the machine and of the user.
func userGitConfig(env config.Env) *gitConfig {
	g := &gitConfig{env: env}
	global := []string{filepath.Join(cmp.Or(env.Get("XDG_CONFIG_HOME"), filepath.Join(env.Home(), ".config")), "git", "config"), filepath.Join(env.Home(), ".gitconfig")}
	if f, set := env.Lookup("GIT_CONFIG_GLOBAL"); set {
		global = []string{f}
	}
	for _, f := range append(global, cmp.Or(env.Get("GIT_CONFIG_SYSTEM"), "/etc/gitconfig")) {
		if filepath.IsAbs(f) {
			g.files = append(g.files, f)
			g.read(f, 0)
		}
	}
	return g
}

// with returns the configuration with more files.
func (g *gitConfig) with(files ...string) *gitConfig {
	out := *g
	out.files, out.hooks = slices.Clip(g.files), slices.Clip(g.hooks)
	for _, f := range files {
		out.read(f, 0)
	}
	return &out
}

// read adds the variables of a file and of those that it includes. It ignores the conditions of
// includes, because they can become true later. A file that the user cannot read is skipped, because
// git cannot read it either.
func (g *gitConfig) read(file string, depth int) {
	const deepest = 10 // as in git
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
		return // git reads nothing there
	}
	b, err := gitrepos.ReadFile(file, 1<<20)
	if err != nil {
		g.partial = g.partial || !errors.Is(err, fs.ErrPermission)
		return
	}
	for name, value := range gitconfig.Variables(string(b)) {
		switch {
		case value == "":
		case name == "core.hookspath":
			g.hooks = append(g.hooks, value)
		case name == "include.path" || strings.HasPrefix(name, "includeif.") && strings.HasSuffix(name, ".path"):
			p := g.path(filepath.Dir(file), value)
			if slices.Contains(g.files, p) {
				continue
			}
			if g.files = append(g.files, p); depth < deepest {
				g.read(p, depth+1)
			}
		}
	}
}

// path returns what a value means. It expands a home folder at the start. A relative path is below
// dir.
func (g *gitConfig) path(dir, p string) string {
	rest, is := strings.CutPrefix(p, "~")
	if !is {
		return gitrepos.Resolve(dir, p)
	}
	name, rest, _ := strings.Cut(rest, "/")
	home := g.env.Home()
	if name != "" {
		u, err := user.Lookup(name)
		if err != nil {
			return gitrepos.Resolve(dir, p)
		}
		home = u.HomeDir
	}
	return gitrepos.Resolve(home, strings.TrimLeft(rest, "/"))
}

// obeyed returns the files that the configuration names, in the working tree top.
func (g *gitConfig) obeyed(top string) []string {
	out := slices.Clone(g.files)
	for _, value := range g.hooks {
		p := g.path(top, value)      // a relative one is below each working tree
		if filepath.Base(p) == "_" { // of husky: its hooks start those in the folder above
			p = filepath.Dir(p)
		}
		out = append(append(out, p), linksIn(p, 3)...)
	}
	return out
}

// relativeHooks returns the folders of hooks that are below each working tree.
func (g *gitConfig) relativeHooks() (out []string) {
	for _, p := range g.hooks {
		if !filepath.IsAbs(p) && !strings.HasPrefix(p, "~") {
			out = append(out, p)
		}
	}
	return out
}

// linksIn returns the symbolic links in a folder, and in those below to a depth.
func linksIn(folder string, depth int) (out []string) {
	entries, _ := os.ReadDir(folder) // none: nothing there leads elsewhere
	for _, e := range entries {
		p := filepath.Join(folder, e.Name())
		if e.Type()&os.ModeSymlink != 0 {
			out = append(out, p)
		} else if e.IsDir() && depth > 1 {
			out = append(out, linksIn(p, depth-1)...)
		}
	}
	return out
}
