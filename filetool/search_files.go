package filetool

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"metier"
	"metier/internal/argschema"
	"metier/internal/confine"
	"metier/internal/regex"
	"metier/internal/termtext"
	"metier/policy"
	"metier/settings"
)

// Limits of search_files.
const (
	searchMatches  = 100       // shown, unless asked for others
	searchMost     = 500       // shown at most
	searchFilesMax = 10_000    // files read
	searchBytes    = 128 << 20 // bytes read in all
	searchFileMax  = 4 << 20   // bytes of one file
	searchLine     = 300       // bytes of a line that are shown
	searchPattern  = 1000      // bytes of a pattern
	searchStates   = 2000      // states of a pattern; the cost of each searched byte grows with them
	searchWork     = 1 << 32   // states times bytes in all, about 20 seconds at worst
	searchSkill    = 200       // files of a skill
)

//go:embed search_files.md
var searchText string

type searchFiles struct{ files }

type searchArgs struct {
	Pattern string `json:"pattern"`
	Path    string `json:"path,omitempty"`
	Glob    string `json:"glob,omitempty"`
	Limit   int    `json:"limit,omitempty"`

	re     *regexp.Regexp
	states int
	glob   glob
}

// searchDetail is the tool output artifact of search_files.
type searchDetail struct {
	Path    string   `json:"path"`
	Matches int      `json:"matches"`
	Files   int      `json:"filesSearched"`
	Bytes   int64    `json:"bytesSearched"`
	Notes   []string `json:"notes"`
}

var searchSchema = sync.OnceValue(func() json.RawMessage {
	return argschema.Object(map[string]any{
		"pattern": argschema.Text("Regular expression, RE2 syntax."),
		"path":    argschema.Text("Folder or file to search (default: the working folder)."),
		"glob":    argschema.Text("Glob that names or paths of files must match."),
		"limit":   map[string]any{"type": "integer", "minimum": 1, "maximum": searchMost, "description": fmt.Sprintf("Maximum number of matches to show (default %d).", searchMatches)},
	}, "pattern")
})

func (t searchFiles) Spec(context.Context, *metier.Session) (metier.Spec, bool) {
	return t.spec(settings.ToolSearchFiles, searchText, policy.Read, searchSchema()), true
}

func (t searchFiles) args(raw json.RawMessage) (searchArgs, error) {
	var a searchArgs
	if err := metier.DecodeArgs(raw, &a); err != nil {
		return a, err
	}
	var err error
	switch {
	case a.Pattern == "":
		return a, missing("pattern")
	case len(a.Pattern) > searchPattern:
		return a, metier.InvalidArguments("pattern is longer than %d bytes", searchPattern)
	case a.Limit < 0 || a.Limit > searchMost:
		return a, metier.InvalidArguments("limit is not between 1 and %d", searchMost)
	}
	if a.states, err = regex.States(a.Pattern); err != nil {
		return a, metier.InvalidArguments("pattern: %w", err)
	} else if a.states > searchStates {
		return a, metier.InvalidArguments("pattern has %d states, more than %d; use smaller repetitions", a.states, searchStates)
	}
	if a.re, err = regexp.Compile(a.Pattern); err != nil {
		return a, metier.InvalidArguments("pattern: %w", err)
	}
	if a.glob, err = parseGlob(a.Glob); err != nil {
		return a, metier.InvalidArguments("glob: %w", err)
	}
	if a.Limit == 0 {
		a.Limit = searchMatches
	}
	return a, nil
}

func (t searchFiles) Facts(_ context.Context, s *metier.Session, raw json.RawMessage) (metier.Facts, error) {
	a, err := t.args(raw)
	if err != nil {
		return metier.Facts{}, err
	}
	fa, _, err := t.facts(s, cmp.Or(a.Path, "."), policy.Read)
	return fa, err
}

func (t searchFiles) Invoke(ctx context.Context, x *metier.ToolContext) (metier.Result, error) {
	a, err := t.args(x.Call().Args)
	if err != nil {
		return failed(ctx, err)
	}
	tg, err := t.again(x, cmp.Or(a.Path, "."), false)
	if err != nil {
		return failed(ctx, err)
	}
	h := hunt{args: a}
	switch {
	case tg.Skill != nil:
		err = t.skill(ctx, x, tg, &h)
	case tg.skills:
		err = &metier.Error{Op: "search_files", Path: tg.Path, Kind: metier.Denied, Code: "skill_root", Hint: "name the folder of one skill, or list the folder and read its files one by one",
			Err: errors.New("folders of skills are searched one skill at a time")}
	default:
		err = t.tree(ctx, x, tg, &h)
	}
	if err == nil {
		err = ctx.Err() // a cancelled search must not look complete
	}
	if err != nil {
		return failed(ctx, err)
	}
	s, d := h.report(tg.Path)
	r := t.result(settings.ToolSearchFiles, s, d)
	if tg.Skill != nil { // what it found is what the skill says
		r.Label.Origin, r.Label.Tier = tg.Skill.ID.String(), tg.Skill.Tier
	}
	return r, nil
}

// tree searches a folder, or one file.
func (t searchFiles) tree(ctx context.Context, x *metier.ToolContext, tg Target, h *hunt) error {
	d, rel, done, err := tg.open()
	if err != nil {
		return folderError("search_files", tg.Path, err)
	}
	defer done()
	prefix := strings.TrimSuffix(h.args.Path, "/")
	snap := x.Session().Snapshot()
	rules := t.w.rules(snap, t.o.Guard)
	if rel != "." {
		if info, err := d.Stat(rel); err == nil && info.Mode.IsRegular() {
			h.file(ctx, d, rel, prefix)
			return nil
		}
	}
	k := &walker{w: t.w, rules: rules, dir: d, host: hostOfDir(tg), start: rel}
	k.skill = func(host string) bool { // also where only a link to it is in a folder of skills
		if !t.seen.hold(snap, t.o.View, host) {
			return false
		}
		_, _, ok := locate(snap, Target{Host: host})
		return ok
	}
	k.visit = func(sub string, e confine.Entry) bool {
		if !e.Type.IsRegular() || !h.args.glob.match(sub) {
			return true
		}
		at := path.Join(rel, sub)
		if v := t.w.judge(filepath.Join(k.host, filepath.FromSlash(at)), rules); v.read == policy.ZoneDenied {
			h.closed++
			return true
		}
		return h.file(ctx, d, at, join(prefix, sub))
	}
	if err := k.walk(ctx, walkDepth); err != nil {
		return folderError("search_files", tg.Path, err)
	}
	h.links = k.links
	h.notes = append(h.notes, k.notes()...)
	return nil
}

// skill searches the text files of a skill through the session, so that the
// settings of reads hold and each read is recorded. Its instructions are left out, and so are
// files in the folder of another skill: read_file reads these as that skill's.
func (t searchFiles) skill(ctx context.Context, x *metier.ToolContext, tg Target, h *hunt) error {
	var paths []string
	base, snap := tg.Rel, x.Session().Snapshot()
	if all, err := skillPaths(ctx, snap, tg); err == nil {
		paths = all
	} else if metier.CodeOf(err) == "not_found" && tg.Rel != "." {
		paths, base = []string{path.Base(tg.Rel)}, path.Dir(tg.Rel) // perhaps a file
	} else {
		return err
	}
	prefix := strings.TrimSuffix(h.args.Path, "/")
	for i, p := range paths {
		rel := path.Join(base, p)
		switch {
		case !h.args.glob.match(p):
			continue
		case rel == tg.Skill.Head.FileName:
			h.notes = append(h.notes, rel+" is not searched; load the skill, or read the file")
			continue
		case i >= searchSkill:
			h.cut = fmt.Sprintf("stopped after %d files", searchSkill)
			return nil
		}
		if _, _, other := within(snap, *tg.Skill, rel); other {
			h.inner++
			continue
		}
		r, err := x.Read(ctx, tg.Skill.ID.String(), rel, readBytes)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		shown := join(prefix, p)
		if rel == tg.Rel {
			shown = prefix
		}
		switch {
		case r.Digest != "" && !r.IsText:
			h.binary++
		case err != nil && len(paths) == 1:
			return err
		case err != nil:
			h.unreadable++
		case !h.scan(ctx, shown, []byte(r.Text)):
			return nil
		}
	}
	return nil
}

// within finds the skill, deeper down, in whose folder a file of a skill is, and the file's path there.
func within(snap *metier.Snapshot, sk metier.Skill, rel string) (other metier.Skill, file string, ok bool) {
	if sk.Dir() == "" {
		return other, "", false
	}
	other, file, ok = locate(snap, Target{Host: filepath.Join(sk.Dir(), filepath.FromSlash(rel))})
	return other, file, ok && len(other.Dir()) > len(sk.Dir())
}

// hunt is one search under way.
type hunt struct {
	args  searchArgs
	text  strings.Builder
	notes []string
	cut   string

	matches, files                         int
	bytes, work                            int64
	read                                   int64 // bytes, also of files that are not searched
	binary, big, unreadable, links, closed int
	inner                                  int
}

// file searches one file; false ends the search.
func (h *hunt) file(ctx context.Context, d *confine.Dir, rel, shown string) bool {
	if ctx.Err() != nil {
		return false
	}
	if h.files >= searchFilesMax || h.read >= searchBytes {
		h.cut = fmt.Sprintf("stopped after %d files and %d bytes", h.files, h.read)
		return false
	}
	b, info, err := d.ReadFile(rel, searchFileMax)
	switch confine.CodeOf(err) {
	case "":
		h.read += info.Size
	case confine.TooBig:
		h.big++
		return true
	default:
		h.read += info.Size
		h.unreadable++
		return true
	}
	if !isText(b) {
		h.binary++
		return true
	}
	return h.scan(ctx, shown, b)
}

// scan adds the matching lines of a file; false ends the search.
func (h *hunt) scan(ctx context.Context, shown string, b []byte) bool {
	if h.work += int64(len(b)) * int64(h.args.states); h.work > searchWork {
		h.cut = fmt.Sprintf("stopped after %d files and %d bytes: a pattern with %d states is slow; use smaller repetitions, or search fewer files", h.files, h.bytes, h.args.states)
		return false
	}
	h.files++
	h.bytes += int64(len(b))
	n := 0
	for line := range strings.Lines(string(b)) {
		if ctx.Err() != nil {
			return false
		}
		n++
		line = strings.TrimRight(line, "\r\n")
		if !h.args.re.MatchString(line) {
			continue
		}
		if h.matches == h.args.Limit {
			h.cut = fmt.Sprintf("stopped after %d matches; there are more", h.matches)
			return false
		}
		h.matches++
		if len(line) > searchLine {
			line = strings.ToValidUTF8(line[:searchLine], "") + "…"
		}
		fmt.Fprintf(&h.text, "%s:%d: %s\n", termtext.Escape(shown), n, termtext.Escape(strings.ReplaceAll(line, "\t", "  ")))
	}
	return true
}

func (h *hunt) report(p string) (string, searchDetail) {
	if h.matches == 0 {
		h.notes = append([]string{fmt.Sprintf("no match in %d file(s)", h.files)}, h.notes...)
	}
	if h.cut != "" {
		h.notes = append([]string{h.cut}, h.notes...)
	}
	add := func(n int, format string) {
		if n > 0 {
			h.notes = append(h.notes, fmt.Sprintf(format, n))
		}
	}
	add(h.binary, "%d binary file(s) skipped")
	add(h.big, "%d file(s) over 4 MiB skipped")
	add(h.unreadable, "%d file(s) could not be read")
	add(h.inner, "%d file(s) of other skills left out")
	add(h.closed, "%d file(s) that may not be read skipped")
	add(h.links, "%d symlink(s) not followed")
	for _, n := range h.notes {
		h.text.WriteString("[" + n + "]\n")
	}
	if h.notes == nil {
		h.notes = []string{}
	}
	return h.text.String(), searchDetail{Path: p, Matches: h.matches, Files: h.files, Bytes: h.bytes, Notes: h.notes}
}
