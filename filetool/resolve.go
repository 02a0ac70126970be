package filetool

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"unicode/utf8"

	"metier"
	"metier/internal/confine"
	"metier/internal/gitrepos"
	"metier/policy"
)

// Target is a model's path after it was mapped, resolved and judged.
type Target struct {
	Path   string      // as the model is shown it, links resolved
	Zone   policy.Zone // for the use it was resolved for
	Why    string      // code, where Zone is denied
	Host   string      // resolved host path
	Mount  string      // name of the mount it lies in; "" for the workspace and elsewhere
	Rel    string      // slash path below workspace, mount or skill folder; "." is the folder itself
	Exists bool
	Skill  *metier.Skill // the skill it belongs to, if any

	base   *base
	skills bool // in a folder of skills
}

// Resolve maps a path a model wrote and judges where it leads. It takes
// /workspace/…, paths relative to the working folder, the targets of mounts,
// host paths, and ~/… for the home. The rules of skill roots are those of the
// newest snapshot a file tool saw. A path that cannot be one (empty, NUL, back-slash, "..") is an
// error of Kind Invalid with code path_invalid.
func (w *Workspace) Resolve(modelPath string, write bool) (Target, error) {
	abs, err := w.absolute(modelPath)
	if err != nil {
		return Target{}, err
	}
	return w.resolve(abs, write, w.rules(nil, ""))
}

// absolute makes a model's path absolute without looking at any file.
func (w *Workspace) absolute(p string) (string, error) {
	fail := func(why string) (string, error) {
		return "", &metier.Error{Op: "path", Path: p, Kind: metier.Invalid, Code: "path_invalid",
			Hint: "write the path from " + metier.WorkspacePath + " or relative to the working folder", Err: errors.New(why)}
	}
	if runtime.GOOS == "windows" && filepath.IsAbs(p) {
		p = filepath.ToSlash(p)
	}
	switch {
	case p == "":
		return fail("the path is empty")
	case len(p) > confine.MaxPath:
		return fail("the path is too long")
	case strings.IndexByte(p, 0) >= 0:
		return fail("the path holds a NUL byte")
	case strings.IndexByte(p, '\\') >= 0:
		return fail("the path holds a back-slash; use /")
	case !utf8.ValidString(p):
		return fail("the path is not UTF-8")
	}
	for part := range strings.SplitSeq(p, "/") {
		if part == ".." {
			return fail(`the path holds ".."`)
		}
		if len(part) > confine.MaxName {
			return fail("a name in the path is too long")
		}
	}
	switch {
	case (p == "~" || strings.HasPrefix(p, "~/")) && w.home != "":
		p = filepath.ToSlash(w.home) + p[1:]
	case !path.IsAbs(p) && !filepath.IsAbs(p):
		p = path.Join(metier.WorkspacePath, w.cwd, p)
	}
	return path.Clean(p), nil
}

// resolve judges an absolute model path.
func (w *Workspace) resolve(abs string, write bool, rules ruleset) (Target, error) {
	host, mapped := w.hostOf(abs)
	r, err := resolve(host)
	if err != nil {
		return Target{}, pathError(abs, err)
	}
	v := w.judge(r.real, rules)
	t := Target{Path: filepath.ToSlash(r.real), Zone: v.read, Why: v.why, Host: r.real, Rel: v.rel, Exists: r.exists, base: v.base, skills: v.skills}
	if v.base != nil {
		t.Path, t.Mount = path.Join(v.base.target, v.rel), v.base.name
	}
	if write {
		t.Zone, t.Why = v.write, v.writeWhy
	}
	switch {
	case mapped && t.Zone == policy.ZoneOutside:
		t.Zone, t.Why = policy.ZoneDenied, "link_leaves_workspace"
	case write && t.Zone == policy.ZoneWorkspace && r.linked:
		t.Zone, t.Why = policy.ZoneDenied, "path_is_link"
	case write && t.Zone == policy.ZoneWorkspace && t.Rel == ".":
		t.Zone, t.Why = policy.ZoneDenied, "not_a_file"
	case write && t.Zone == policy.ZoneWorkspace && inRepository(t.base.host, r.real):
		t.Zone, t.Why = policy.ZoneDenied, policy.CodePathReadOnly
	}
	return t, nil
}

// inRepository reports whether a path is in a bare git repository below a folder, or makes one of a
// folder with a HEAD. Its files can name programs, and those that a program created are checked only
// after programs.
func inRepository(host, real string) bool {
	for dir, name := filepath.Dir(real), filepath.Base(real); dir != host && confine.Within(host, dir); dir, name = filepath.Dir(dir), filepath.Base(dir) {
		_, err := os.Lstat(filepath.Join(dir, "HEAD"))
		if err == nil && (name == "objects" || name == "commondir") || gitrepos.IsBare(dir) {
			return true
		}
	}
	return false
}

// hostOf maps an absolute model path to a host path. mapped says that it is
// spelled as a path of the workspace or a mount.
func (w *Workspace) hostOf(abs string) (host string, mapped bool) {
	var best *base
	for i := range w.bases {
		b := &w.bases[i]
		if (abs == b.target || strings.HasPrefix(abs, b.target+"/")) && (best == nil || len(b.target) > len(best.target)) {
			best = b
		}
	}
	if best != nil {
		return filepath.Join(best.host, filepath.FromSlash(strings.TrimPrefix(abs, best.target))), true
	}
	host = filepath.FromSlash(abs)
	for _, b := range w.bases {
		if host == b.host || below(b.host, host) {
			return host, true
		}
	}
	return host, false
}

// resolved is a host path without links.
type resolved struct {
	real   string
	exists bool
	linked bool // a link was on the way
}

var errDangling = errors.New("a symlink in the path points to nothing")

// resolve follows all links of a path; what does not exist yet is kept as it is
// written.
func resolve(host string) (resolved, error) { return resolveAmong(new(confine.Paths), host) }

// resolveAmong is resolve for one of many paths that are resolved at the same time.
func resolveAmong(paths *confine.Paths, host string) (resolved, error) {
	real, err := paths.RealPath(host)
	if err == nil {
		return resolved{real, true, !strings.EqualFold(real, filepath.Clean(host))}, nil
	}
	rest := ""
	for cur := filepath.Clean(host); errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR); {
		if info, lerr := os.Lstat(cur); lerr == nil && info.Mode()&fs.ModeSymlink != 0 {
			return resolved{real: cur}, errDangling
		}
		parent := filepath.Dir(cur)
		if parent == cur {
			break
		}
		rest, cur = filepath.Join(filepath.Base(cur), rest), parent
		if real, err = paths.RealPath(cur); err == nil {
			return resolved{filepath.Join(real, rest), false, !strings.EqualFold(real, cur)}, nil
		}
	}
	return resolved{}, err
}

// pathError words a failed resolution.
func pathError(p string, err error) error {
	e := &metier.Error{Op: "path", Path: p, Kind: metier.Denied, Code: "permission_denied", Err: err}
	switch {
	case errors.Is(err, errDangling):
		e.Kind, e.Code = metier.NotFound, "dangling_link"
	case errors.Is(err, fs.ErrNotExist):
		e.Kind, e.Code = metier.NotFound, "not_found"
	case !errors.Is(err, fs.ErrPermission):
		e.Kind, e.Code = metier.Invalid, "path_invalid"
	}
	return e
}

// open gives the handle and the name below it by which the target is read.
func (t Target) open() (d *confine.Dir, rel string, done func(), err error) {
	if t.base != nil {
		return t.base.dir, t.Rel, func() {}, nil
	}
	dir, rel := t.Host, "."
	if info, err := os.Lstat(t.Host); err != nil || !info.IsDir() {
		dir, rel = filepath.Split(t.Host)
		dir = filepath.Clean(dir)
	}
	d, err = confine.OpenDir(dir)
	if err != nil {
		return nil, "", nil, err
	}
	return d, rel, func() { d.Close() }, nil
}

// readError words a failed open or read for the model.
func readError(op, p string, err error) *metier.Error {
	e := &metier.Error{Op: op, Path: p, Kind: metier.Unavailable, Code: "unreadable", Err: err}
	switch confine.CodeOf(err) {
	case confine.NotFound:
		e.Kind, e.Code, e.Err = metier.NotFound, "not_found", errors.New("there is no such file")
	case confine.IsDir:
		e.Kind, e.Code, e.Hint, e.Err = metier.Invalid, "is_folder", "use list_files", errors.New("it is a folder")
	case confine.NotRegular:
		e.Kind, e.Code = metier.Invalid, "not_regular"
	case confine.Outside:
		e.Kind, e.Code = metier.Denied, "path_denied"
	case confine.TooBig:
		e.Kind, e.Code = metier.LimitReached, "file_too_large"
	case confine.Permission:
		e.Kind, e.Code = metier.Denied, "permission_denied"
	case confine.PathInvalid:
		e.Kind, e.Code = metier.Invalid, "path_invalid"
	case confine.Changed, confine.Busy:
		e.Code, e.Hint = "file_changing", "try again"
	}
	return e
}
