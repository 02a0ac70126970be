package filetool

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"metier"
	"metier/model"
	"metier/policy"
	"metier/settings"
)

// Files returns read_file, list_files, search_files, write_file and edit_file
// over a workspace, in this order. Grants decide which of them a model gets.
func Files(w *Workspace, o Options) []metier.Tool {
	f := files{w: w, o: o, seen: &folders{}}
	return []metier.Tool{readFile{f}, listFiles{f}, searchFiles{f}, writeFile{f}, editFile{f}}
}

// files is what the five tools share.
type files struct {
	w    *Workspace
	o    Options
	seen *folders
}

// folders knows which paths are folders of skills in one snapshot, so that a
// path that lies in none costs no search through all skills.
type folders struct {
	mu   sync.Mutex
	snap *metier.Snapshot
	set  map[string]bool // as shown, and on the host; slash paths
}

// hold reports whether p or a folder above it is a skill's.
func (k *folders) hold(snap *metier.Snapshot, v metier.View, p string) bool {
	k.mu.Lock()
	if snap != k.snap {
		k.snap, k.set = snap, map[string]bool{}
		for sk := range snap.Each() {
			for _, d := range []string{v.Dir(sk), sk.Dir(), path.Join(metier.SkillsPath, sk.Slug)} {
				if d != "" {
					k.set[path.Clean(filepath.ToSlash(d))] = true
				}
			}
		}
	}
	set := k.set
	k.mu.Unlock()
	for p = filepath.ToSlash(p); ; p = path.Dir(p) {
		if set[p] {
			return true
		}
		if p == path.Dir(p) {
			return false
		}
	}
}

//go:embed ifmatch.md
var ifMatchText string

func (f files) spec(name, text string, e policy.Effect, schema json.RawMessage) metier.Spec {
	text = strings.TrimSpace(text)
	if f.strict() && (name == settings.ToolWriteFile || name == settings.ToolEditFile) {
		text += "\n\n" + strings.TrimSpace(ifMatchText)
	}
	return metier.Spec{ToolSpec: model.ToolSpec{Name: name, Description: text, Schema: schema}, Canonical: name, Effect: e}
}

func number(about string) map[string]any {
	return map[string]any{"type": "integer", "minimum": 1, "description": about}
}

// target maps and judges a path for this session: skills first, by the paths
// they were shown under, then the workspace.
func (f files) target(s *metier.Session, p string, write bool) (Target, error) {
	abs, err := f.w.absolute(p)
	if err != nil {
		return Target{}, err
	}
	snap := s.Snapshot()
	rules := f.w.rules(snap, f.o.Guard)
	if f.seen.hold(snap, f.o.View, abs) {
		if sk, rel, ok := f.o.View.Locate(snap, abs); ok {
			if in, file, is := within(snap, sk, rel); is {
				sk, rel = in, file
			}
			return f.skillTarget(sk, rel, abs), nil
		}
	}
	t, err := f.w.resolve(abs, write, rules)
	if err != nil {
		return t, err
	}
	if t.Zone == policy.ZoneSkill || t.Zone != policy.ZoneDenied && f.seen.hold(snap, f.o.View, t.Host) {
		if sk, rel, ok := locate(snap, t); ok {
			return f.skillTarget(sk, rel, t.Path), nil
		}
	}
	if !t.Exists && t.base == nil && strings.HasPrefix(abs, metier.SkillsPath+"/") {
		return t, noSkill(p)
	}
	return t, nil
}

func noSkill(p string) error {
	return &metier.Error{Op: "path", Path: p, Kind: metier.NotFound, Code: "skill_not_found", Err: errors.New("no skill has this path")}
}

// inBase reports whether a host path is in the workspace or in a mount.
func (f files) inBase(host string) bool {
	return host != "" && slices.ContainsFunc(f.w.bases, func(b base) bool { return host == b.host || below(b.host, host) })
}

func (f files) skillTarget(sk metier.Skill, rel, shown string) Target {
	t := Target{Path: shown, Zone: policy.ZoneSkill, Rel: rel, Skill: &sk, Exists: true}
	if dir := sk.Dir(); dir != "" {
		t.Host = filepath.Join(dir, filepath.FromSlash(rel))
	}
	return t
}

// locate finds the skill a resolved host path lies in, so that no spelling and
// no link reads a skill's file past the session.
func locate(snap *metier.Snapshot, t Target) (best metier.Skill, rel string, found bool) {
	match := func(sk metier.Skill, dir string) {
		if dir != "" && (t.Host == dir || below(dir, t.Host)) && (!found || len(sk.Dir()) > len(best.Dir())) {
			best, rel, found = sk, relTo(dir, t.Host), true
		}
	}
	for sk := range snap.Each() {
		if sk.State != metier.Shadowed && sk.State != metier.Refused {
			match(sk, sk.Dir())
		}
	}
	if found || t.Zone != policy.ZoneSkill {
		return best, rel, found
	}
	for sk := range snap.Each() { // the folder of the skill may be named through a link
		if sk.State != metier.Shadowed && sk.State != metier.Refused && sk.Dir() != "" {
			match(sk, settle(sk.Dir()))
		}
	}
	return best, rel, found
}

// facts states one path. For what is not plainly in the workspace, and for links,
// it also states where the path led, so that Invoke can see that it still does.
func (f files) facts(s *metier.Session, p string, e policy.Effect) (metier.Facts, Target, error) {
	t, err := f.target(s, p, e == policy.Write)
	if err != nil {
		return metier.Facts{}, t, err
	}
	names, err := f.names(p, t)
	if err != nil {
		return metier.Facts{}, t, err
	}
	r := policy.Request{Effect: e, Paths: []policy.PathUse{{Path: t.Path, Names: names, Zone: t.Zone, Write: e == policy.Write, Why: t.Why}}}
	if t.Skill != nil {
		sub := t.Skill.Subject()
		r.Skill = &sub
	}
	fa := metier.Facts{Request: r}
	if e == policy.Read && (t.Zone != policy.ZoneWorkspace || t.Path != names[0]) {
		fa.Intent = intent{Path: t.Path}.json()
	}
	return fa, t, nil
}

// names are the paths by which a target can be meant in a rule: as the model wrote
// it, on the host, and as a file of its skill.
func (f files) names(p string, t Target) ([]string, error) {
	abs, err := f.w.absolute(p)
	if err != nil {
		return nil, err
	}
	out := []string{abs}
	if t.Host != "" {
		out = append(out, filepath.ToSlash(t.Host))
		for _, b := range f.w.bases { // a mount may lie in the workspace, or a skill
			if t.Host == b.host || below(b.host, t.Host) {
				out = append(out, path.Join(b.target, relTo(b.host, t.Host)))
			}
		}
	}
	if t.Skill != nil {
		out = append(out, path.Join(metier.SkillsPath, t.Skill.Slug, t.Rel), path.Join(f.o.View.Sandbox(*t.Skill), t.Rel))
	}
	return out, nil
}

// again resolves the path of a call that may act now. Where it leads elsewhere
// than what was judged, the call is refused.
func (f files) again(x *metier.ToolContext, p string, write bool) (Target, error) {
	t, err := f.target(x.Session(), p, write)
	if err != nil {
		return t, err
	}
	if t.Skill != nil && x.Hides(*t.Skill) && !f.inBase(t.Host) { // in the workspace, it is a file like any other
		return t, noSkill(p)
	}
	abs, err := f.w.absolute(p)
	if err != nil {
		return t, err
	}
	was := readIntent(x.Intent())
	ok := t.Zone == policy.ZoneWorkspace && t.Path == abs // a link that appeared since may lead to what is denied
	if was.Path != "" {
		ok = t.Path == was.Path && (t.Zone == policy.ZoneWorkspace || !write && t.Zone != policy.ZoneDenied)
	}
	if !ok {
		return t, &metier.Error{Op: "path", Path: p, Kind: metier.Conflict, Code: "path_changed", Hint: "try again",
			Err: errors.New("the path leads to another target than when the call was checked")}
	}
	return t, nil
}

// intent is what a call would do, as it was claimed. For reads only Path is set.
type intent struct {
	Path   string `json:"path"`             // as shown, links resolved
	Before string `json:"before,omitempty"` // digest, or "absent"
	After  string `json:"after,omitempty"`
	Code   string `json:"code,omitempty"` // why nothing will be done
	Count  int    `json:"count,omitempty"`
}

func (i intent) json() json.RawMessage {
	b, err := json.Marshal(i)
	if err != nil {
		panic(err) // strings and a number always marshal
	}
	return b
}

func readIntent(raw json.RawMessage) (i intent) {
	if raw == nil || json.Unmarshal(raw, &i) != nil {
		return intent{}
	}
	return i
}

// missing is the error for a required argument that is not there.
func missing(name string) error { return metier.InvalidArguments("%s is missing", name) }

func (f files) result(name, s string, detail any) metier.Result {
	r := metier.Text(s)
	r.Detail, _ = json.Marshal(detail) // plain data
	r.Label = policy.Label{Role: policy.Context, Origin: "tool:" + name, Mediated: true}
	return r
}

// failed words an error as a result; a context that ended stays an error.
func failed(ctx context.Context, err error) (metier.Result, error) {
	if ctx.Err() != nil {
		return metier.Result{}, ctx.Err()
	}
	return metier.Failure(err), nil
}
