package filetool

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"metier"
	"metier/internal/argschema"
	"metier/internal/confine"
	"metier/internal/termtext"
	"metier/policy"
	"metier/settings"
)

const (
	listMax   = 1000 // entries shown
	listDepth = 2    // levels, unless asked for others
)

//go:embed list_files.md
var listText string

type listFiles struct{ files }

type listArgs struct {
	Path    string `json:"path,omitempty"`
	Depth   int    `json:"depth,omitempty"`
	Pattern string `json:"pattern,omitempty"`

	glob glob
}

// listDetail is the tool output artifact of list_files.
type listDetail struct {
	Path  string   `json:"path"`
	Total int      `json:"total"`
	Shown int      `json:"shown"`
	Notes []string `json:"notes"`
}

var listSchema = sync.OnceValue(func() json.RawMessage {
	return argschema.Object(map[string]any{
		"path":    argschema.Text("Folder to start at (default: the working folder)."),
		"depth":   number("Levels to show."),
		"pattern": argschema.Text("Glob that names or paths must match."),
	})
})

func (t listFiles) Spec(context.Context, *metier.Session) (metier.Spec, bool) {
	return t.spec(settings.ToolListFiles, listText, policy.Read, listSchema()), true
}

func (t listFiles) args(raw json.RawMessage) (listArgs, error) {
	var a listArgs
	if err := metier.DecodeArgs(raw, &a); err != nil {
		return a, err
	}
	var err error
	if a.glob, err = parseGlob(a.Pattern); err != nil {
		return a, metier.InvalidArguments("pattern: %w", err)
	}
	if a.Depth < 0 {
		return a, metier.InvalidArguments("depth counts from 1")
	}
	if a.Depth == 0 {
		if a.Depth = listDepth; a.Pattern != "" {
			a.Depth = walkDepth
		}
	}
	return a, nil
}

func (t listFiles) Facts(_ context.Context, s *metier.Session, raw json.RawMessage) (metier.Facts, error) {
	a, err := t.args(raw)
	if err != nil {
		return metier.Facts{}, err
	}
	fa, _, err := t.facts(s, cmp.Or(a.Path, "."), policy.Read)
	return fa, err
}

func (t listFiles) Invoke(ctx context.Context, x *metier.ToolContext) (metier.Result, error) {
	a, err := t.args(x.Call().Args)
	if err != nil {
		return failed(ctx, err)
	}
	tg, err := t.again(x, cmp.Or(a.Path, "."), false)
	if err != nil {
		return failed(ctx, err)
	}
	l := lister{prefix: strings.TrimSuffix(a.Path, "/"), glob: a.glob}
	if tg.Skill != nil {
		return t.skill(ctx, x, tg, a, &l)
	}
	d, rel, done, err := tg.open()
	if err != nil {
		return failed(ctx, folderError("list_files", tg.Path, err))
	}
	defer done()
	k := &walker{w: t.w, rules: t.w.rules(x.Session().Snapshot(), t.o.Guard), dir: d, host: hostOfDir(tg), start: rel, visit: func(rel string, e confine.Entry) bool {
		l.add(rel, e.Type)
		return true
	}}
	if err := k.walk(ctx, a.Depth); err != nil {
		return failed(ctx, folderError("list_files", tg.Path, err))
	}
	return t.finish(tg, &l, k.notes()), nil
}

// hostOfDir is the host path of the handle that Target.open gives.
func hostOfDir(t Target) string {
	if t.base != nil {
		return t.base.host
	}
	return t.Host
}

func folderError(op, p string, err error) *metier.Error {
	e := readError(op, p, err)
	if e.Code == "not_regular" {
		e.Code, e.Hint, e.Err = "not_folder", "use read_file", errors.New("it is not a folder")
	}
	return e
}

// skill lists the files of a skill as they are indexed.
func (t listFiles) skill(ctx context.Context, x *metier.ToolContext, tg Target, a listArgs, l *lister) (metier.Result, error) {
	paths, err := skillPaths(ctx, x.Session().Snapshot(), tg)
	if err != nil {
		return failed(ctx, err)
	}
	seen := map[string]bool{}
	var all []string
	for _, p := range paths {
		parts := strings.Split(p, "/")
		for i := range parts {
			q := strings.Join(parts[:i+1], "/")
			if i+1 < len(parts) {
				q += "/"
			}
			if i < a.Depth && !seen[q] {
				seen[q] = true
				all = append(all, q)
			}
		}
	}
	slices.Sort(all)
	for _, p := range all {
		if dir, ok := strings.CutSuffix(p, "/"); ok {
			l.add(dir, fs.ModeDir)
		} else {
			l.add(p, 0)
		}
	}
	return t.finish(tg, l, nil), nil
}

// skillPaths returns the files of a skill below the target, SKILL.md included.
func skillPaths(ctx context.Context, snap *metier.Snapshot, tg Target) ([]string, error) {
	sk, err := snap.Index(ctx, *tg.Skill)
	if err != nil {
		return nil, err
	}
	names := []string{sk.Head.FileName}
	for _, r := range sk.Resources {
		names = append(names, r.Path)
	}
	var out []string
	for _, n := range names {
		if tg.Rel == "." {
			out = append(out, n)
		} else if rest, ok := strings.CutPrefix(n, tg.Rel+"/"); ok {
			out = append(out, rest)
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	if len(out) == 0 {
		return nil, &metier.Error{Op: "list_files", Path: tg.Path, Skill: sk.Name, Kind: metier.NotFound, Code: "not_found", Err: errors.New("the skill has no such folder")}
	}
	return out, nil
}

func (t listFiles) finish(tg Target, l *lister, notes []string) metier.Result {
	if l.total > l.shown {
		notes = append([]string{fmt.Sprintf("%d of %d entries shown", l.shown, l.total)}, notes...)
	}
	if l.total == 0 {
		notes = append([]string{"nothing found"}, notes...)
	}
	if notes == nil {
		notes = []string{}
	}
	s := l.text.String()
	for _, n := range notes {
		s += "[" + n + "]\n"
	}
	return t.result(settings.ToolListFiles, s, listDetail{Path: tg.Path, Total: l.total, Shown: l.shown, Notes: notes})
}

// lister collects entries in the form the model named their folder.
type lister struct {
	prefix       string
	glob         glob
	text         strings.Builder
	total, shown int
}

func (l *lister) add(rel string, typ fs.FileMode) {
	if !l.glob.match(rel) {
		return
	}
	if l.total++; l.shown == listMax {
		return
	}
	l.shown++
	l.text.WriteString(termtext.Escape(join(l.prefix, rel)))
	switch {
	case typ.IsDir():
		l.text.WriteByte('/')
	case typ&fs.ModeSymlink != 0:
		l.text.WriteByte('@')
	}
	l.text.WriteByte('\n')
}

// join appends a path inside a folder to the form the model named it in.
func join(dir, rel string) string {
	if dir == "" || dir == "." {
		return rel
	}
	return path.Join(dir, rel)
}
