package engine

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"metier/config"
	"metier/internal/atomicfile"
	"metier/internal/confine"
	"metier/internal/distinct"
	"metier/run"
)

// Lists in the state folder.
const (
	knownProjects = "projects" // workspaces in which metier has run, which runs in a parent folder protect
	knownRecords  = "records"  // folders of records, except .metier/runs, which all runs hide
	knownSources  = "sources"  // files and folders that commands were given, which all runs protect
)

// mostSources is how many files and folders that commands were given are remembered. Each run reads them.
const mostSources = 200

// remember adds a folder to a list.
func (e *Engine) remember(list, folder string) error {
	dir := e.Env.StateDir()
	if dir == "" {
		return nil
	}
	dir = filepath.Join(dir, list)
	path := filepath.Join(dir, fmt.Sprintf("%x", sha256.Sum256([]byte(folder))))
	if _, err := os.Lstat(path); err == nil {
		if list != knownSources {
			return nil
		}
		now := e.Now() // the oldest ones are forgotten first
		if err := os.Chtimes(path, now, now); err != nil {
			return run.StateUnwritable(dir, err)
		}
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return run.StateUnwritable(dir, err)
	}
	if list != knownSources { // a file that was given may be away for a while
		e.forget(list)
	}
	if err := atomicfile.Write(path, []byte(folder), 0o600); err != nil {
		return run.StateUnwritable(dir, err)
	}
	return nil
}

// forget removes the folders that no longer exist from a list.
func (e *Engine) forget(list string) {
	for file, folder := range e.known(list) {
		if _, err := os.Lstat(folder); errors.Is(err, fs.ErrNotExist) {
			_ = os.Remove(filepath.Join(e.Env.StateDir(), list, file)) // an extra entry is harmless
		}
	}
}

// rememberRecords notes a folder of records, unless it is the default one of a workspace.
func (e *Engine) rememberRecords(workspace, artifacts string) error {
	if artifacts == filepath.Join(workspace, ".metier", "runs") {
		return nil
	}
	return e.remember(knownRecords, confine.RealPathOfExisting(artifacts))
}

// records returns the folders in a workspace in which runs keep records, except .metier/runs.
func (e *Engine) records(workspace string) (out []string) {
	var real confine.Paths
	for _, dir := range e.known(knownRecords) {
		if _, err := os.Lstat(dir); err == nil && real.Within(workspace, dir) {
			out = append(out, dir)
		}
	}
	slices.Sort(out)
	return out
}

// noteSources is rememberSources for plans, which may never run. If it fails, a notice reports it.
func (e *Engine) noteSources(l Launch, op config.Operator) {
	if e.o.ReadOnly {
		return
	}
	l.Sources = slices.Clone(l.Sources)
	for _, s := range op.Secrets {
		if s.File != "" {
			l.Sources = append(l.Sources, s.File)
		}
	}
	if err := e.rememberSources(l); err != nil {
		e.note("sources_not_remembered", "later runs may be able to change the files that this command was given: %v", err)
	}
}

// rememberSources notes the files and folders that a command was given: the next command with one of
// them obeys what is written there. Beyond the most, it forgets those that were not given for longest.
func (e *Engine) rememberSources(l Launch) error {
	given := slices.Concat(e.Env.Files(), l.Sources, l.Closed)
	for _, r := range l.Roots {
		if r.Named {
			given = append(given, r.Path)
		}
	}
	var all error
	var real confine.Paths
	for _, p := range given {
		p = filepath.Clean(p) // with its links, which lead to it the next time
		for _, path := range distinct.Of([]string{p, real.RealPathOfExisting(p)}) {
			all = errors.Join(all, e.remember(knownSources, path))
		}
	}
	list := e.known(knownSources)
	if len(list) <= mostSources {
		return all
	}
	at := func(file string) string { return filepath.Join(e.Env.StateDir(), knownSources, file) }
	age := func(file string) time.Time {
		info, err := os.Lstat(at(file))
		if err != nil {
			return time.Time{}
		}
		return info.ModTime()
	}
	files := slices.SortedFunc(maps.Keys(list), func(a, b string) int { return cmp.Or(age(a).Compare(age(b)), strings.Compare(a, b)) })
	for _, file := range files[:len(files)-mostSources] {
		if err := os.Remove(at(file)); !errors.Is(err, fs.ErrNotExist) {
			all = errors.Join(all, err)
		}
	}
	return all
}

// sources returns the files and folders in a workspace that commands were given.
func (e *Engine) sources(workspace string) (out []string) {
	var real confine.Paths
	for _, p := range e.known(knownSources) {
		if p != workspace && (real.Within(workspace, p) || real.Within(workspace, filepath.Dir(p))) {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}

func (e *Engine) projects() map[string]string { return e.known(knownProjects) }

// known returns the folders of a list, by file.
func (e *Engine) known(name string) map[string]string {
	if e.Env.StateDir() == "" {
		return nil
	}
	dir := filepath.Join(e.Env.StateDir(), name)
	list, err := os.ReadDir(dir)
	out := map[string]string{}
	for _, file := range list {
		if len(file.Name()) != 2*sha256.Size {
			continue
		}
		b, readErr := os.ReadFile(filepath.Join(dir, file.Name()))
		if readErr == nil && filepath.IsAbs(string(b)) {
			out[file.Name()] = string(b)
		} else if !errors.Is(readErr, fs.ErrNotExist) {
			err = errors.Join(err, readErr)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		if _, reported := e.unlisted.LoadOrStore(name, true); !reported {
			e.note("projects_unreadable", "the list of %s cannot be read completely, so some below this workspace may be unprotected: %v", name, err)
		}
	}
	return out
}
