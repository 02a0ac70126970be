package config

import (
	"os"
	"path/filepath"
	"strings"

	"metier/run"
)

// Env is what a process or a request brings along: variables and the folder that
// relative paths start at. The zero value has neither.
type Env struct {
	Vars map[string]string
	Dir  string
}

// NewEnv reads variables written as NAME=value.
func NewEnv(environ []string, dir string) Env {
	e := Env{Vars: map[string]string{}, Dir: dir}
	for _, kv := range environ {
		if k, v, ok := strings.Cut(kv, "="); ok {
			e.Vars[k] = v
		}
	}
	return e
}

// Get returns a variable, or "".
func (e Env) Get(name string) string { return e.Vars[name] }

// Lookup returns a variable and whether it is set.
func (e Env) Lookup(name string) (string, bool) {
	v, set := e.Vars[name]
	return v, set
}

// Path makes a path absolute. It returns "" for "".
func (e Env) Path(p string) string {
	if p == "" || filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(e.Dir, p)
}

// Paths makes each path of a list absolute.
func (e Env) Paths(list []string) []string {
	var out []string
	for _, p := range list {
		out = append(out, e.Path(p))
	}
	return out
}

// Home returns the user's home folder, or "".
func (e Env) Home() string {
	if h := e.Vars["HOME"]; h != "" {
		return h
	}
	return e.Vars["USERPROFILE"]
}

// Files returns the paths of the operator's configuration files, weakest first.
func (e Env) Files() []string {
	paths := []string{"/etc/metier/config.yaml"}
	switch {
	case e.Vars["METIER_CONFIG"] != "":
		return []string{e.Path(e.Vars["METIER_CONFIG"])}
	case e.Vars["XDG_CONFIG_HOME"] != "":
		paths = append(paths, filepath.Join(e.Vars["XDG_CONFIG_HOME"], "metier", "config.yaml"))
	case e.Home() != "":
		paths = append(paths, filepath.Join(e.Home(), ".config", "metier", "config.yaml"))
	}
	return paths
}

// StateDir returns the folder of what metier keeps for the user, such as the
// heads of records, or "" if there is no home folder.
func (e Env) StateDir() string { return run.StateDir(e.Get, e.Home()) }

// IndexDir returns the folder of the skill index, or "" and the reason.
// METIER_INDEX names it; the default is in the user's cache.
func (e Env) IndexDir() (dir, why string) {
	x, named := e.Vars["METIER_INDEX"]
	switch {
	case x == "off":
		return "", "METIER_INDEX is off"
	case named && x != "":
		return e.Path(x), ""
	case e.Vars["XDG_CACHE_HOME"] == "" && e.Home() == "":
		return "", "there is no home folder: set HOME, XDG_CACHE_HOME or METIER_INDEX"
	}
	return e.CacheDir("index")
}

// CacheDir returns a folder in the user's cache, or "" and the reason.
func (e Env) CacheDir(name string) (dir, why string) {
	switch h := e.Home(); {
	case e.Vars["XDG_CACHE_HOME"] != "":
		return filepath.Join(e.Vars["XDG_CACHE_HOME"], "metier", name), ""
	case h == "":
		return "", "there is no home folder: set HOME or XDG_CACHE_HOME"
	default:
		if info, err := os.Stat(h); err != nil || !info.IsDir() {
			return "", "the home folder " + h + " does not exist"
		}
		return filepath.Join(h, ".cache", "metier", name), ""
	}
}

// maxFile is the longest configuration, policy, or run file, in bytes.
const maxFile = 1 << 20
