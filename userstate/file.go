// Package userstate keeps what a user decided about skills: which are disabled,
// which are trusted, and which scripts are approved permanently. Writes are atomic,
// and members of a file that are not ours stay as they are.
package userstate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"metier"
	"metier/config"
	"metier/internal/atomicfile"
	"metier/internal/confine"
	"metier/internal/jsonedit"
	"metier/internal/lockfile"
	"metier/internal/namedfile"
	"metier/settings"
)

// Store keeps what one user decided, in files.
type Store struct {
	Dir  string // metier's state folder, or "" if there is none
	Home string // the user's home, or ""
}

// New returns the store of the user of an environment.
func New(env config.Env) Store { return Store{Dir: env.StateDir(), Home: env.Home()} }

// File is a file of decisions. Other programs and people may keep members of
// their own in it.
type File struct {
	Path    string
	byName  bool   // is_enabled: name → bool; else records of skills
	project string // the workspace of a file that is in one, which can only disable; else ""

	approvals bool // it keeps approvals, and no skills
}

// record is a skill in a file: by its folder if it has one, because labels depend
// on how roots are named, else by its ID.
type record struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Dir  string `json:"dir,omitempty"`  // after links; in a project's file relative to the workspace, with slashes
	Tree string `json:"tree,omitempty"` // trusted: digest over all files
	Tier string `json:"tier,omitempty"` // trusted: what they count as
	At   string `json:"at,omitempty"`
}

const (
	keyEnabled  = "is_enabled"
	keyDisabled = "disabled"
	keyTrusted  = "trusted"
	keyVersion  = "version"
	stateKept   = 1       // version of our files
	maxState    = 4 << 20 // bytes of one file
)

// Files lists the files that apply under the settings. Commands write to the last
// one.
func (st Store) Files(s settings.Discover, workspace string) []File {
	switch s.StateStore {
	case settings.StateStoreUser:
		return st.Own()
	case settings.StateStoreProject:
		return append(st.Own(), File{Path: filepath.Join(workspace, ".metier", "skills.json"), project: workspace})
	case settings.StateStoreKeen:
		if filepath.IsAbs(st.Home) {
			return []File{{Path: filepath.Join(st.Home, ".keen", "skills", "config.json"), byName: true}}
		}
	}
	return nil
}

// All lists the files that any settings use.
func (st Store) All(workspace string) []File {
	return slices.Concat(st.Files(settings.Discover{StateStore: settings.StateStoreProject}, workspace), st.Files(settings.Discover{StateStore: settings.StateStoreKeen}, workspace))
}

// Writable returns the file that commands write to.
func (st Store) Writable(s settings.Discover, workspace string) (File, error) {
	files := st.Files(s, workspace)
	switch {
	case s.StateStore == settings.StateStoreNone:
		return File{}, metier.Errorf(metier.Denied, "no_state_store", "choose the setting state_store=user_file, or deny the skill in the configuration", "these settings store no list of disabled skills")
	case len(files) == 0:
		return File{}, ErrNoHome
	}
	return files[len(files)-1], nil
}

// ErrNoHome is the error where there is no folder to keep decisions in.
var ErrNoHome = metier.Errorf(metier.Invalid, "no_home", "set HOME or XDG_STATE_HOME", "there is no folder to keep this in")

// Own returns the file in the state folder. Without a folder there is none.
func (st Store) Own() []File {
	if !filepath.IsAbs(st.Dir) {
		return nil
	}
	return []File{{Path: filepath.Join(st.Dir, "skills.json")}}
}

// faulty is an error about the content of a file, which a writer may replace
// after keeping it beside; newer one about a file of a later release, which it
// may not.
type faulty struct{ error }

var errNewer = errors.New("a later release of metier wrote it")

// load reads the file; nil where there is none.
func (f File) load() (*jsonedit.Object, error) {
	b, err := f.read()
	if errors.Is(err, fs.ErrNotExist) || confine.CodeOf(err) == confine.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	o, err := jsonedit.Parse(b)
	if err == nil {
		err = f.check(o)
	}
	if err != nil && !errors.Is(err, errNewer) {
		err = faulty{err}
	}
	return o, err
}

func (f File) read() ([]byte, error) {
	if f.project == "" {
		return namedfile.Read(f.Path, maxState)
	}
	rel, err := filepath.Rel(f.project, f.Path)
	if err != nil {
		return nil, err
	}
	b, more, err := confine.ReadBeneath(f.project, filepath.ToSlash(rel), maxState)
	if err == nil && more {
		err = namedfile.TooLong(maxState)
	}
	return b, err
}

// check looks at the members that are ours.
func (f File) check(o *jsonedit.Object) error {
	if f.byName {
		if raw, ok := o.Get(keyEnabled); ok {
			if _, err := jsonedit.Parse(raw); err != nil {
				return fmt.Errorf("%s: %w", keyEnabled, err)
			}
		}
		return nil
	}
	if raw, ok := o.Get(keyVersion); ok {
		var v int
		if err := json.Unmarshal(raw, &v); err != nil || v < 1 {
			return fmt.Errorf("%s is not a number of ours", keyVersion)
		} else if v > stateKept {
			return errNewer
		}
	}
	if f.approvals {
		_, err := approvalsOf(o)
		return err
	}
	for _, key := range []string{keyDisabled, keyTrusted} {
		if _, err := decoded[record](o, key); err != nil {
			return err
		}
	}
	return nil
}

// decoded decodes a list.
func decoded[T any](o *jsonedit.Object, key string) ([]T, error) {
	raw, err := texts(o, key)
	if err != nil {
		return nil, err
	}
	out := make([]T, len(raw))
	for i, r := range raw {
		if err := json.Unmarshal(r, &out[i]); err != nil {
			return nil, fmt.Errorf("%s: entry %d: %w", key, i+1, err)
		}
	}
	return out, nil
}

func texts(o *jsonedit.Object, key string) ([]json.RawMessage, error) {
	raw, ok := o.Get(key)
	if !ok {
		return nil, nil
	}
	var out []json.RawMessage
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return out, nil
}

// change reads the file, lets edit change it and writes it whole, while no
// other process does. kept is where a file that could not be understood was put.
func (f File) change(ctx context.Context, edit func(*jsonedit.Object) (bool, error)) (kept string, err error) {
	target, err := f.target()
	if err != nil {
		return "", err
	}
	lock, err := lockfile.Wait(ctx, lockOf(target))
	if err != nil {
		return "", f.fault(err)
	}
	defer func() {
		if e := lock.Release(); err == nil {
			err = e
		}
	}()
	o, err := f.load()
	if _, bad := errors.AsType[faulty](err); bad {
		if kept, err = keepBad(target); err != nil {
			return "", f.fault(err)
		}
		o = nil
	}
	if err != nil {
		return "", f.fault(err)
	}
	if o == nil {
		o = &jsonedit.Object{}
		if !f.byName {
			o.Set(keyVersion, json.RawMessage(fmt.Sprint(stateKept)))
		}
	}
	changed, err := edit(o)
	if err != nil || !changed && kept == "" {
		return kept, err
	}
	text, err := o.Text()
	if err != nil {
		return kept, f.fault(err)
	}
	mode := fs.FileMode(0o600)
	if info, err := os.Stat(target); err == nil {
		mode = info.Mode().Perm()
	}
	if err := atomicfile.Write(target, text, mode); err != nil {
		return kept, f.fault(err)
	}
	return kept, nil
}

// target is the file that is written. A person may keep it elsewhere behind a
// link; a link in a workspace is nobody's word.
func (f File) target() (string, error) {
	dir := filepath.Dir(f.Path)
	if f.project == "" {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", f.fault(err)
		}
		if real, err := filepath.EvalSymlinks(f.Path); err == nil {
			return real, nil
		}
		return f.Path, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", f.fault(err)
	}
	for _, p := range []string{dir, f.Path, lockOf(f.Path)} {
		if info, err := os.Lstat(p); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return "", &metier.Error{Op: "state", Path: p, Kind: metier.Denied, Code: "state_linked",
				Hint: "remove the link", Err: errors.New("state files of a workspace must be inside it, and this is a symlink")}
		}
	}
	return f.Path, nil
}

// lockOf is the file that whoever writes another one locks.
func lockOf(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".lock")
}

func (f File) fault(err error) error {
	if _, known := errors.AsType[*metier.Error](err); known || errors.Is(err, context.Canceled) {
		return err
	}
	hint := "check the file and its folder"
	if errors.Is(err, errNewer) {
		hint = "use that release, or move the file away"
	}
	return &metier.Error{Op: "state", Path: f.Path, Kind: metier.Unavailable, Code: "state_unwritable", Hint: hint, Err: err}
}

// mostBad is how many files that could not be understood are kept.
const mostBad = 100

// keepBad copies a file beside itself, under a name that is free.
func keepBad(path string) (string, error) {
	b, err := namedfile.Read(path, maxState)
	if err != nil {
		return "", err
	}
	for i := range mostBad {
		to := path + ".bad"
		if i > 0 {
			to = fmt.Sprintf("%s.bad-%d", path, i+1)
		}
		if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		return to, atomicfile.Write(to, b, 0o600)
	}
	return "", fmt.Errorf("there are %d files named %s.bad already", mostBad, filepath.Base(path))
}

// rewrite takes those that are gone out of a list of a file and puts one at its
// end, unless it is nil. The others stay as they were written. It fails if the list
// would have more than most.
func rewrite[T any](o *jsonedit.Object, key string, most int, gone func(T) bool, put *T) (changed bool, err error) {
	list, err := texts(o, key)
	if err != nil {
		return false, err
	}
	out := []string{}
	for _, raw := range list {
		var v T
		if err := json.Unmarshal(raw, &v); err != nil {
			return false, err
		}
		if !gone(v) {
			out = append(out, string(raw))
		}
	}
	if put != nil {
		raw, err := json.Marshal(put)
		if err != nil {
			return false, err
		}
		out = append(out, string(raw))
	} else if len(out) == len(list) {
		return false, nil
	}
	if len(out) > most {
		return false, fmt.Errorf("it would have more than %d %s; remove some", most, key)
	}
	o.Set(key, json.RawMessage("["+strings.Join(out, ",")+"]"))
	return true, nil
}
