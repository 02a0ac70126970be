package filetool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"metier"
	"metier/internal/confine"
	"metier/settings"
)

// Mount is a folder outside the workspace that the operator declared
// (--mount name=,source=,target=,mode=).
type Mount struct {
	Name   string
	Source string // host path, without symbolic links
	Target string // the model's path, absolute
	Mode   string // ro or rw; "" is ro
}

// WorkspaceOptions is all that is not the root. The zero value is a workspace
// with nothing beside it.
type WorkspaceOptions struct {
	Cwd    string // slash path below the root that relative paths start at
	Mounts []Mount
	// Protected are host files and folders that no tool writes, there or not
	// yet: roots of skills, configuration and policy files.
	Protected []string
	// Denied are host files and folders that no tool reads or writes.
	Denied []string
	// Home is the user's home: its dot-paths are closed unless they were
	// granted or hold the workspace. "" takes os.UserHomeDir; "-" none.
	Home string
	// Homes are more home folders, whose dot-paths are closed too.
	Homes []string
}

// base is a folder the model knows under a path of its own.
type base struct {
	name   string // mount name; "" is the workspace
	target string // the model's path
	host   string // resolved
	info   fs.FileInfo
	write  bool
	dir    *confine.Dir // for reads
	root   *os.Root     // for writes; nil when read only
}

// Workspace is the files a session may see: one root, mounts, and roots
// granted for reads. It is safe for concurrent use; one Workspace serves any
// number of sessions.
type Workspace struct {
	bases []base
	cwd   string
	home  string
	fixed []rule

	writing sync.Mutex // one write at a time

	mu     sync.Mutex
	grants []rule // AddReadRoot
	last   scan   // of the newest snapshot
}

// OpenWorkspace opens the folder at root. Errors have Kind NotFound or Invalid
// and name the path. Close it when no session uses it any more.
func OpenWorkspace(root string, o *WorkspaceOptions) (*Workspace, error) {
	if o == nil {
		o = &WorkspaceOptions{}
	}
	w := &Workspace{cwd: "."}
	mounts := append([]Mount{{Source: root, Target: metier.WorkspacePath, Mode: "rw"}}, o.Mounts...)
	for _, m := range mounts {
		b, err := openBase(m, w.bases)
		if err != nil {
			w.Close()
			return nil, err
		}
		w.bases = append(w.bases, b)
	}
	if o.Cwd != "" && o.Cwd != "." {
		clean, err := confine.Clean(o.Cwd)
		if err == nil {
			var d *confine.Dir
			if d, err = w.bases[0].dir.Sub(clean); err == nil {
				d.Close()
			}
		}
		if err != nil {
			w.Close()
			if confine.CodeOf(err) == confine.NotFound {
				err = errors.New("the workspace has no such folder")
			}
			return nil, &metier.Error{Op: "workspace", Path: o.Cwd, Kind: metier.Invalid, Code: "cwd_invalid",
				Hint: "specify an existing folder inside the workspace", Err: err}
		}
		w.cwd = clean
	}
	w.fixed = fixedRules(o)
	for _, r := range w.fixed {
		if r.kind == homeDots && w.home == "" {
			w.home = r.path
		}
	}
	return w, nil
}

func openBase(m Mount, others []base) (base, error) {
	op := "workspace"
	if len(others) > 0 {
		op = "mount " + m.Target
	}
	fail := func(code string, err error) (base, error) {
		return base{}, &metier.Error{Op: op, Path: m.Source, Kind: metier.Invalid, Code: code, Err: err}
	}
	switch {
	case m.Mode != "" && m.Mode != "ro" && m.Mode != "rw":
		return fail("mount_invalid", fmt.Errorf("mode %q is not ro or rw", m.Mode))
	case !path.IsAbs(m.Target) || path.Clean(m.Target) != m.Target || m.Target == "/":
		return fail("mount_invalid", fmt.Errorf("target %q is not a clean absolute path", m.Target))
	case m.Target == metier.SkillsPath || strings.HasPrefix(m.Target, metier.SkillsPath+"/"):
		return fail("mount_invalid", fmt.Errorf("target %q is reserved for skills", m.Target))
	case slices.ContainsFunc(others, func(b base) bool { return b.target == m.Target }):
		return fail("mount_invalid", fmt.Errorf("target %q is used twice", m.Target))
	}
	host, err := m.Source, error(nil)
	if len(others) == 0 { // a program may replace a part of a mount's path by a link at any time
		host, err = confine.Resolve(host)
	}
	var b base
	if err == nil {
		b, err = openFolder(host, m.Mode == "rw")
	}
	if err != nil {
		if confine.CodeOf(err) == confine.NotFound {
			return base{}, &metier.Error{Op: op, Path: m.Source, Kind: metier.NotFound, Code: "workspace_not_found",
				Hint: "specify a folder that exists", Err: errors.New("the folder does not exist")}
		}
		return fail("workspace_unreadable", err)
	}
	b.name, b.target = m.Name, m.Target
	return b, nil
}

// openFolder opens the folder at a path without symbolic links. It fails if the folder is replaced
// meanwhile.
func openFolder(host string, write bool) (b base, err error) {
	b = base{host: host, write: write}
	if b.dir, err = confine.OpenDir(host); err != nil {
		return base{}, err
	}
	opened, err := b.dir.Stat(".")
	if err == nil {
		b.info, err = os.Lstat(host)
	}
	same := []fs.FileInfo{b.info}
	if err == nil && write {
		if b.root, err = os.OpenRoot(host); err == nil {
			var info fs.FileInfo
			info, err = b.root.Stat(".")
			same = append(same, info)
		}
	}
	for _, info := range same {
		if err != nil {
			break
		}
		key, known := opened.Key()
		if other, _ := confine.InfoOf(info).Key(); known && other != key {
			err = errors.New("the folder was replaced while it was opened")
		}
	}
	if err == nil {
		return b, nil
	}
	err = errors.Join(err, b.dir.Close())
	if b.root != nil {
		err = errors.Join(err, b.root.Close())
	}
	return base{}, err
}

// fixedRules are the rules that hold for the workspace's whole life.
func fixedRules(o *WorkspaceOptions) []rule {
	var rules []rule
	var paths confine.Paths
	settle := func(p string) string { return settleAmong(&paths, p) }
	home := o.Home
	if home == "" {
		home, _ = os.UserHomeDir() // no home: there are no dot-paths to close
	}
	if home != "" && home != "-" {
		rules = append(rules, rule{settle(home), homeDots})
	}
	for _, p := range o.Homes {
		rules = append(rules, rule{settle(p), homeDots})
	}
	if runtime.GOOS != "windows" {
		for _, p := range []string{"/proc", "/sys", "/dev"} {
			rules = append(rules, rule{p, closed})
		}
	}
	for _, p := range o.Protected {
		rules = append(rules, rule{settle(p), protected})
	}
	for _, p := range o.Denied {
		rules = append(rules, rule{settle(p), denied})
	}
	return rules
}

// settle resolves a path as far as it exists. A link to nothing leads to where its target would be.
func settle(p string) string { return settleAmong(new(confine.Paths), p) }

// settleAmong is settle for one of many paths that are resolved at the same time.
func settleAmong(paths *confine.Paths, p string) string {
	abs, err := filepath.Abs(p)
	if err != nil {
		return p
	}
	at := abs
	for range mostLinks {
		r, err := resolveAmong(paths, at)
		if err == nil {
			return r.real
		}
		if !errors.Is(err, errDangling) {
			break
		}
		link := r.real
		to, err := os.Readlink(link)
		if err != nil {
			break
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(paths.RealPathOfExisting(filepath.Dir(link)), to)
		}
		at = to + strings.TrimPrefix(at, link)
	}
	return abs
}

// mostLinks is how many links to nothing are followed.
const mostLinks = 40

// Root returns the host path of the workspace, all links resolved.
func (w *Workspace) Root() string { return w.bases[0].host }

// Close releases the handles.
func (w *Workspace) Close() error {
	var errs []error
	for _, b := range w.bases {
		errs = append(errs, b.dir.Close())
		if b.root != nil {
			errs = append(errs, b.root.Close())
		}
	}
	return errors.Join(errs...)
}

// AddReadRoot grants reads, never writes, of a folder and all below it, also
// outside the workspace and in the home's dot-folders.
// A path that is a symlink is resolved now, and what it points to is granted.
// Granting twice changes nothing.
func (w *Workspace) AddReadRoot(p string) error {
	real, err := confine.Resolve(p)
	if err != nil {
		return &metier.Error{Op: "grant", Path: p, Kind: metier.NotFound, Code: "root_not_found", Err: err}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := (rule{real, granted}); !slices.Contains(w.grants, r) {
		w.grants = append(w.grants, r)
	}
	return nil
}

// Options is what the file tools take from the settings of a session.
type Options struct {
	View    metier.View         // the session's: how skill folders look to the model
	IfMatch settings.IfMatch    // "" is no
	Guard   settings.GuardAllow // "" is none
	// ActivateOnRead makes reading a whole local SKILL.md an activation: the
	// setting activation holds read_file.
	ActivateOnRead bool
}

// strict reports whether a write needs the digest last read.
func (f files) strict() bool { return f.o.IfMatch == settings.IfMatchYes }

// scan is what one snapshot adds to the rules.
type scan struct {
	snap    *metier.Snapshot
	guard   settings.GuardAllow
	roots   []rule
	granted map[string]bool
	guarded map[string]bool
}

// rules returns all rules for a session with this snapshot; nil keeps the last.
func (w *Workspace) rules(snap *metier.Snapshot, guard settings.GuardAllow) ruleset {
	w.mu.Lock()
	if snap != nil && (snap != w.last.snap || guard != w.last.guard) {
		w.last = w.scanned(snap, guard)
	}
	last := w.last
	all := slices.Concat(w.grants, last.roots, w.fixed)
	w.mu.Unlock()
	return ruleset{list: identify(all), granted: last.granted, guarded: last.guarded}
}

// scanned makes the rules of a snapshot. In a workspace in a root of skills anything can
// become a skill, so nothing there is written. Only each skill's folder is marked as one, so
// that the others can be searched.
func (w *Workspace) scanned(snap *metier.Snapshot, guard settings.GuardAllow) scan {
	sc := scan{snap: snap, guard: guard, granted: map[string]bool{}, guarded: map[string]bool{}}
	wide := map[string]bool{}
	var paths confine.Paths
	settle := func(p string) string { return settleAmong(&paths, p) }
	for _, m := range snap.Mounts() {
		if m.Root == "" {
			continue
		}
		real := settle(m.Root)
		if real == w.Root() || below(real, w.Root()) {
			wide[m.Label] = true
		} else {
			sc.roots = append(sc.roots, rule{real, skillRoot})
		}
		for _, b := range w.bases {
			if real == b.host || below(real, b.host) {
				sc.roots = append(sc.roots, rule{b.host, inSkills})
			}
		}
		if guard == settings.GuardAllowRoots {
			sc.roots = append(sc.roots, rule{real, granted})
		}
	}
	for sk := range snap.Each() {
		dir := sk.Dir()
		usable := guard == settings.GuardAllowSkillDirs && (sk.State == metier.Loaded || sk.State == metier.Hidden)
		if dir == "" || !usable && !wide[sk.ID.Source] {
			continue
		}
		real := settle(dir)
		if wide[sk.ID.Source] {
			sc.guarded[fold(real)] = true
		}
		if usable {
			sc.granted[real] = true
		}
	}
	return sc
}

// below reports whether p lies below top, by spelling; both are resolved.
func below(top, p string) bool {
	return strings.HasPrefix(p, strings.TrimSuffix(top, string(filepath.Separator))+string(filepath.Separator))
}
