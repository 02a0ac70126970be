package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"metier"
	"metier/internal/atomicfile"
	"metier/internal/confine"
	"metier/internal/jsonedit"
	"metier/internal/lockfile"
	"metier/internal/namedfile"
	"metier/settings"
)

// switches is a file that says which skills are switched off. It is a person's:
// others may keep things of their own in it.
type switches struct {
	path    string
	byName  bool   // is_enabled: name → bool; else records of skills
	project string // the workspace of a file that lies in one, which can only switch off; else ""

	approvals bool // it keeps approvals, and no skills
}

// skillRecord is a skill in a file of ours: by its folder where it has one,
// since labels depend on how roots are named, else by its ID.
type skillRecord struct {
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

// switchFiles are the files that count under the settings, the one that
// commands write last.
func (a *app) switchFiles(s settings.Discover, workspace string) []switches {
	switch s.StateStore {
	case settings.StateStoreUser:
		return a.userSwitches()
	case settings.StateStoreProject:
		return append(a.userSwitches(), switches{path: filepath.Join(workspace, ".metier", "skills.json"), project: workspace})
	case settings.StateStoreKeen:
		if filepath.IsAbs(a.env.Home()) {
			return []switches{{path: filepath.Join(a.env.Home(), ".keen", "skills", "config.json"), byName: true}}
		}
	}
	return nil
}

// switchFile is the file that commands write.
func (a *app) switchFile(s settings.Discover, workspace string) (switches, error) {
	files := a.switchFiles(s, workspace)
	switch {
	case s.StateStore == settings.StateStoreNone:
		return switches{}, &problem{exit: exitDenied, code: "no_state_store", err: errors.New("these settings keep nowhere which skills are switched off"),
			hint: "use --set state_store=user_file, also in the configuration; or deny the skill in the configuration"}
	case len(files) == 0:
		return switches{}, errNoHome
	}
	return files[len(files)-1], nil
}

var errNoHome = wrong("no_home", "set HOME or XDG_STATE_HOME", "there is no folder to keep this in")

// userSwitches is the file in metier's state folder; none without a home.
func (a *app) userSwitches() []switches {
	dir := a.env.StateDir()
	if !filepath.IsAbs(dir) {
		return nil
	}
	return []switches{{path: filepath.Join(dir, "skills.json")}}
}

// faulty is an error about the content of a file, which a writer may replace
// after keeping it beside; newer one about a file of a later release, which it
// may not.
type faulty struct{ error }

var errNewer = errors.New("a later release of metier wrote it")

// load reads the file; nil where there is none.
func (f switches) load() (*jsonedit.Object, error) {
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

func (f switches) read() ([]byte, error) {
	if f.project == "" {
		return namedfile.Read(f.path, maxState)
	}
	rel, err := filepath.Rel(f.project, f.path)
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
func (f switches) check(o *jsonedit.Object) error {
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
		if _, err := records(o, key); err != nil {
			return err
		}
	}
	return nil
}

// records decodes a list of skills, each beside its text.
func records(o *jsonedit.Object, key string) ([]skillRecord, error) {
	raw, err := texts(o, key)
	if err != nil {
		return nil, err
	}
	out := make([]skillRecord, len(raw))
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

// dirOf is a skill's folder as the file writes it, "" where it has none that
// the file can name.
func (f switches) dirOf(h *metier.Head) string {
	if h.Location == "" {
		return ""
	}
	dir := filepath.Dir(h.Location)
	if f.project == "" {
		return dir
	}
	rel, err := filepath.Rel(f.project, dir)
	if err != nil || !filepath.IsLocal(rel) {
		return ""
	}
	return filepath.ToSlash(rel)
}

// means reports whether a record is of a skill.
func (r skillRecord) means(dir string, id metier.ID) bool {
	if r.Dir != "" || dir != "" {
		return r.Dir == dir
	}
	return r.ID == id.String()
}

// off makes the question whether a skill is switched off in this file.
func (f switches) off(o *jsonedit.Object) func(*metier.Head, metier.ID, string) bool {
	if f.byName {
		raw, _ := o.Get(keyEnabled)
		names, err := jsonedit.Parse(raw)
		return func(_ *metier.Head, _ metier.ID, name string) bool {
			if err != nil {
				return false // the key is not there
			}
			raw, ok := names.Get(name)
			return ok && string(raw) == "false"
		}
	}
	list, _ := records(o, keyDisabled)                // checked by load
	dirs, ids := map[string]bool{}, map[string]bool{} // there may be many, of many skills
	for _, r := range list {
		if r.Dir != "" {
			dirs[r.Dir] = true
		} else {
			ids[r.ID] = true
		}
	}
	return func(h *metier.Head, id metier.ID, _ string) bool { // as skillRecord.means
		if dir := f.dirOf(h); dir != "" {
			return dirs[dir]
		}
		return ids[id.String()]
	}
}

// change reads the file, lets edit change it and writes it whole, while no
// other process does. kept is where a file that could not be understood was put.
func (f switches) change(ctx context.Context, edit func(*jsonedit.Object) (bool, error)) (kept string, err error) {
	target, err := f.target()
	if err != nil {
		return "", err
	}
	lock, err := lockfile.Wait(ctx, lockOf(target))
	if err != nil {
		return "", f.fault(err)
	}
	defer func() { err = closed(lock.Release(), err) }()
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
func (f switches) target() (string, error) {
	dir := filepath.Dir(f.path)
	if f.project == "" {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", f.fault(err)
		}
		if real, err := filepath.EvalSymlinks(f.path); err == nil {
			return real, nil
		}
		return f.path, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", f.fault(err)
	}
	for _, p := range []string{dir, f.path, lockOf(f.path)} {
		if info, err := os.Lstat(p); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return "", &metier.Error{Op: "state", Path: p, Kind: metier.Denied, Code: "state_linked",
				Hint: "remove the link", Err: errors.New("what a workspace says lies in the workspace, and this is a link")}
		}
	}
	return f.path, nil
}

// lockOf is the file that whoever writes another one locks.
func lockOf(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".lock")
}

func (f switches) fault(err error) error {
	if _, known := errors.AsType[*metier.Error](err); known || errors.Is(err, context.Canceled) {
		return err
	}
	hint := "look at the file and its folder"
	if errors.Is(err, errNewer) {
		hint = "use that release, or move the file away"
	}
	return &metier.Error{Op: "state", Path: f.path, Kind: metier.Unavailable, Code: "state_unwritable", Hint: hint, Err: err}
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

// setName switches a name on or off in a file that goes by names.
func setName(o *jsonedit.Object, name string, on bool) (bool, error) {
	names := &jsonedit.Object{}
	if raw, ok := o.Get(keyEnabled); ok {
		var err error
		if names, err = jsonedit.Parse(raw); err != nil {
			return false, err
		}
	}
	was, there := names.Get(name)
	if !there && on || there && string(was) == fmt.Sprint(on) {
		return false, nil // what is not listed is on
	}
	names.Set(name, json.RawMessage(fmt.Sprint(on)))
	raw, err := names.MarshalJSON()
	if err == nil {
		o.Set(keyEnabled, raw)
	}
	return true, err
}

// putRecord replaces the records that are gone by one, or only removes them
// where it is nil. The others stay as they were written.
func putRecord(o *jsonedit.Object, key string, gone func(skillRecord) bool, put *skillRecord) (bool, error) {
	out, changed, err := rewritten(o, key, gone, put)
	if err != nil {
		return false, err
	}
	if !changed {
		return false, nil
	}
	texts := make([]string, len(out))
	for i, raw := range out {
		texts[i] = string(raw)
	}
	o.Set(key, json.RawMessage("["+strings.Join(texts, ",")+"]"))
	return true, nil
}

// rewritten is a list of a file without those that are gone and, unless it is
// nil, with put at its end. The others stay as they were written.
func rewritten[T any](o *jsonedit.Object, key string, gone func(T) bool, put *T) (out []json.RawMessage, changed bool, err error) {
	list, err := texts(o, key)
	if err != nil {
		return nil, false, err
	}
	out = []json.RawMessage{}
	for _, raw := range list {
		var v T
		if err := json.Unmarshal(raw, &v); err != nil {
			return nil, false, err
		}
		if !gone(v) {
			out = append(out, raw)
		}
	}
	changed = len(out) != len(list)
	if put != nil {
		raw, err := json.Marshal(put)
		if err != nil {
			return nil, false, err
		}
		out, changed = append(out, raw), true
	}
	return out, changed, nil
}
