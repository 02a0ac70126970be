package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"metier"
	"metier/internal/confine"
	"metier/skillmd"
	"metier/source/internal/entry"
)

const (
	maxNames = 500_000 // names of one folder
	workers  = 8       // goroutines of a scan: more than cores, since a cold disk makes them wait
	maxNotes = 100     // entries that only say "too deep"; the rest is counted
)

// scan is one listing. Folders are scanned level by level. Those of one level are scanned in
// parallel and processed in byte order, so a limit always cuts off at the same point. Symlinks come
// last: a folder reached directly is listed under its own path, and each folder only once.
type scan struct {
	*Source
	*anchors
	ctx   context.Context
	past  *past
	heads []*metier.Head
	links []node // symlinks met, not yet resolved
	dirs  int    // folders looked into
	deep  int    // folders that were not, because of the depth

	walked map[string]int // host path -> index in heads, or -1; built when the first link is met
	levels [][]node       // for walked
	head0  [][]int
}

// found is the result of scanning one folder.
type found struct {
	head  *metier.Head
	skill bool // head is of a SKILL.md, good or bad; nothing below the folder matters
	dirs  []string
	links []string
	deep  bool

	record []byte // for the next index, or nil
	known  bool   // from the index
}

// worker is the state of one goroutine of a scan.
type worker struct {
	buf   []byte
	key   confine.Key // of the SKILL.md that was read last
	keyed bool        // key is good: the file is no link, and the system has keys
	whole bool        // buf has all of that file, or all that is looked at
	near  int         // where in the index the next folder may be
	in    reader
	out   []byte
	heads []metier.Head
	given int
}

// head returns space for a Head. One allocation serves many.
func (w *worker) head() *metier.Head {
	if len(w.heads) == 0 {
		w.heads = make([]metier.Head, min(1+w.given, 32))
		w.given += len(w.heads)
	}
	h := &w.heads[0]
	w.heads = w.heads[1:]
	return h
}

// blame records a problem with a folder: on its skill if there is one, otherwise as a separate
// entry.
func (r *found) blame(bad metier.Head) {
	if r.head == nil {
		r.head = &bad
		return
	}
	for _, d := range bad.Diagnostics {
		d.Severity = skillmd.Warning // the skill itself can be used
		r.head.Diagnostics = append(r.head.Diagnostics, d)
	}
}

func (sc *scan) run() error {
	if err := sc.walk([]node{{".", 0, "."}}); err != nil {
		return err
	}
	for len(sc.links) > 0 {
		round := sc.links
		sc.links = nil
		slices.SortFunc(round, func(a, b node) int { return strings.Compare(a.path, b.path) })
		if err := sc.walk(sc.follow(round)); err != nil {
			return err
		}
	}
	if sc.deep > maxNotes {
		sc.note(skillmd.Warning, "max-depth-exceeded", fmt.Sprintf("%d folders deeper than %d were not read; only the first %d are listed", sc.deep, sc.opt.MaxDepth, maxNotes))
	}
	return nil
}

// walk scans the folders of a level, then those found in them, and so on.
func (sc *scan) walk(level []node) error {
	for len(level) > 0 {
		if room := sc.opt.MaxDirs - sc.dirs; len(level) > room {
			sc.note(skillmd.Error, "scan-limit-exceeded", fmt.Sprintf("at least %d folders were not read: the limit is %d", len(level)-room, sc.opt.MaxDirs))
			level = level[:room]
		}
		sc.dirs += len(level)
		results, err := sc.probe(level)
		if err != nil {
			return err
		}
		below := 0
		for i := range results {
			below += len(results[i].dirs)
		}
		next := make([]node, 0, below)
		head0 := make([]int, len(level))
		for i := range results {
			n, r, head := level[i], &results[i], -1
			sc.past.keep(r)
			if r.head != nil {
				head = len(sc.heads)
				sc.heads = append(sc.heads, r.head)
			}
			head0[i] = head
			if r.deep {
				sc.tooDeep(n)
			}
			for _, name := range r.dirs {
				if c := n.child(name); sc.fresh(c) {
					next = append(next, c)
				}
			}
			for _, name := range r.links {
				sc.links = append(sc.links, n.child(name))
			}
		}
		sc.levels, sc.head0 = append(sc.levels, level), append(sc.head0, head0)
		slices.SortFunc(next, func(a, b node) int { return strings.Compare(a.path, b.path) })
		level = next
	}
	return nil
}

// probe reads all folders of a level in parallel.
func (sc *scan) probe(level []node) ([]found, error) {
	results := make([]found, len(level))
	var next atomic.Int64
	work := func() {
		w := worker{buf: make([]byte, 0, entry.Steps[0])}
		for {
			i := int(next.Add(1)) - 1
			if i >= len(level) || sc.ctx.Err() != nil {
				return
			}
			results[i] = sc.look(level[i], &w)
		}
	}
	var wg sync.WaitGroup
	for range min(workers, len(level)) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
	return results, sc.ctx.Err()
}

// look decides what one folder is: a skill, or a folder to descend into.
func (sc *scan) look(n node, w *worker) found {
	depth := 0
	if n.path != "." {
		depth = strings.Count(n.path, "/") + 1
	}
	r, ok := sc.recall(n, w)
	if !ok {
		r = sc.read(n, depth, w)
	}
	if depth >= sc.opt.MaxDepth {
		r.deep = len(r.dirs) > 0
		r.dirs, r.links = nil, nil
	}
	return r
}

// read is look without the index.
func (sc *scan) read(n node, depth int, w *worker) found {
	var r found
	if h, ok := sc.head(n, w); ok {
		r = found{head: h, skill: true}
		if !sc.nested {
			if w.keyed && sc.past.on(n) {
				sc.remembering(n, &r, w.key, w)
			}
			return r
		}
	}
	if sc.children && depth >= 1 {
		return r
	}
	var key confine.Key // before the names are read, so that it is never newer than they are
	keyed := false
	if sc.past.on(n) {
		if info, err := sc.get(n.at).dir.Glance(n.rel); err == nil {
			key, keyed = info.Key()
		}
	}
	list, more, err := sc.get(n.at).dir.ReadDir(n.rel, maxNames)
	if err != nil {
		if confine.CodeOf(err) == confine.NotFound {
			return r // removed since it was listed
		}
		r.blame(entry.Bad(n.path, n.location(sc.anchors), "unreadable-directory", "the folder cannot be read: "+string(confine.CodeOf(err))))
		return r
	}
	for _, e := range list {
		switch {
		case e.Type&fs.ModeDir != 0 && !slices.Contains(sc.opt.Skip, e.Name):
			r.dirs = append(r.dirs, e.Name)
		case e.Type&fs.ModeSymlink != 0 && !slices.Contains(sc.opt.Skip, e.Name):
			r.links = append(r.links, e.Name)
		case r.head == nil && e.Type.IsRegular() && strings.EqualFold(e.Name, sc.names[0]):
			h := entry.Bad(n.path, filepath.Join(n.location(sc.anchors), e.Name), "skill-file-name",
				fmt.Sprintf("the file must be called %s", strings.Join(sc.names, " or ")))
			r.head = &h
		}
	}
	if more {
		r.blame(entry.Bad(n.path, n.location(sc.anchors), "scan-limit-exceeded", fmt.Sprintf("the folder has more than %d names; the rest was not read", maxNames)))
	}
	if keyed && r.head == nil {
		sc.remembering(n, &r, key, w)
	}
	return r
}

// head reads the SKILL.md of a folder, or reports that there is none.
func (sc *scan) head(n node, w *worker) (*metier.Head, bool) {
	spare := w.heads
	h := w.head()
	for _, name := range sc.names {
		rel, location := n.file(sc.anchors, name)
		*h = metier.Head{Path: n.path, Location: location, FileName: name, Kind: metier.KindSkill}
		err := sc.fill(h, target{at: n.at, rel: rel}, w)
		if confine.CodeOf(err) == confine.Outside {
			*h, err = sc.linkedHead(n, *h, w)
			w.keyed = false // its key says nothing about the link
		}
		switch confine.CodeOf(err) {
		case "":
			if exact := runtime.GOOS == "linux" || sc.spelled(n, name); exact {
				return h, true
			}
		case confine.NotFound:
		case confine.Permission:
			w.keyed = false
			// Without search permission on the folder, even stat of the file fails. It is then the
			// folder that is unreadable.
			if _, serr := sc.get(n.at).dir.Stat(rel); serr != nil {
				*h = entry.Bad(n.path, n.location(sc.anchors), "unreadable-directory", "the folder cannot be searched; check its mode")
				return h, true
			}
			*h = sc.bad(*h, "unreadable-skill", name+" cannot be read; check its mode")
			return h, true
		default:
			w.keyed = false
			*h = sc.bad(*h, "unreadable-skill", fmt.Sprintf("%s cannot be used: %s", name, reason(err)))
			return h, true
		}
	}
	if len(spare) > 0 {
		w.heads = spare // for the next folder
	}
	return nil, false
}

// reason returns a confine error without its path, which the diagnostic has already.
func reason(err error) string {
	e, ok := err.(*confine.Error)
	switch {
	case !ok:
		return err.Error()
	case e.Code == confine.IsDir:
		return "it is a folder"
	case e.Err == nil:
		return string(e.Code)
	case errors.Is(e.Err, syscall.ENXIO):
		return string(e.Code) + ", a socket, or a device that is not there"
	}
	return string(e.Code) + ", " + e.Err.Error()
}

func (sc *scan) bad(h metier.Head, code, detail string) metier.Head {
	b := entry.Bad(h.Path, h.Location, code, detail)
	b.Location, b.FileName = h.Location, h.FileName
	return b
}

// fill reads as much of a SKILL.md as its frontmatter needs.
func (sc *scan) fill(h *metier.Head, t target, w *worker) error {
	w.keyed = false
	for i, n := range entry.Steps {
		data, info, err := sc.get(t.at).dir.AppendHead(w.buf[:0], t.rel, n)
		if err != nil {
			return err
		}
		w.buf = data
		h.Size, h.ModTime = info.Size, info.Mtime.UnixNano()
		if sc.opt.RefuseHardLinks && info.Nlink > 1 {
			return &confine.Error{Code: confine.Outside, Err: fmt.Errorf("the file has %d hard links", info.Nlink)}
		}
		w.whole = int64(len(data)) >= info.Size || i == len(entry.Steps)-1
		if entry.Fill(h, data, w.whole) {
			if f := h.Front.Fields; len(f) > 0 && cap(f) > len(f) {
				h.Front.Fields = slices.Clone(f) // the parser leaves room for more
			}
			w.key, w.keyed = info.Key()
			return nil
		}
	}
	return nil
}

// linkedHead reads a SKILL.md that is a symlink or is reached through one.
func (sc *scan) linkedHead(n node, h metier.Head, w *worker) (metier.Head, error) {
	info, err := sc.get(n.at).dir.Stat(n.child(h.FileName).rel)
	if errors.Is(err, syscall.EXDEV) {
		return entry.Bad(n.path, n.location(sc.anchors), "skill-other-file-system", "the folder is on a different file system than its root, and a scan does not enter it"), nil
	}
	if err != nil || info.Mode&fs.ModeSymlink == 0 {
		return sc.bad(h, "skill-outside-root", "the path crosses into another file system, or the file has another name outside; copy it here"), err
	}
	if !sc.Source.links {
		return sc.bad(h, "skill-symlink-ignored", h.FileName+" is a symlink, and links are not followed here; copy the file or set symlinks to in_bounds"), nil
	}
	t, err := sc.target(h.Location)
	switch confine.CodeOf(err) {
	case "":
	case confine.Outside:
		detail := h.FileName + " is a symlink that leaves the root"
		if errors.Is(err, errHidden) {
			detail = h.FileName + " is a symlink to a file in .git or .metier"
		}
		b := sc.bad(h, "skill-outside-root", detail)
		b.Escaped = true
		return b, nil
	default:
		return sc.bad(h, "unresolvable-skill-path", h.FileName+" is a symlink that leads nowhere"), nil
	}
	h.Location = t.real
	if at := n.location(sc.anchors); filepath.Dir(t.real) != at {
		h.Folder = at
	}
	if err := sc.fill(&h, t, w); err != nil {
		return h, err
	}
	if h.Folder != "" && h.Plain {
		return sc.bad(h, "skill-outside-root", h.FileName+" is a symlink to a file in another folder, which has no frontmatter and may not be a skill"), nil
	}
	return h, nil
}

// spelled reports whether the folder has the name in exactly this case: many file systems open
// SKILL.md when only skill.md exists.
func (sc *scan) spelled(n node, name string) bool {
	list, _, err := sc.get(n.at).dir.ReadDir(n.rel, maxNames)
	return err != nil || slices.ContainsFunc(list, func(e confine.Entry) bool { return e.Name == name })
}

// follow resolves links and returns the folders that are new.
func (sc *scan) follow(round []node) (level []node) {
	if sc.walked == nil {
		sc.walked = map[string]int{}
	}
	sc.remember()
	for i, link := range round {
		if sc.dirs+len(level) >= sc.opt.MaxDirs {
			sc.note(skillmd.Error, "scan-limit-exceeded", fmt.Sprintf("%d symlinks were not followed: the limit is %d folders", len(round)-i, sc.opt.MaxDirs))
			return level
		}
		location := link.location(sc.anchors)
		t, err := sc.target(location)
		switch {
		case err == nil && !t.dir:
			continue // a link to a file makes no skill
		case !sc.Source.links:
			if t.dir {
				sc.add(entry.Bad(link.path, location, "skill-symlink-ignored", "the folder is a symlink, and links are not followed here; set symlinks to in_bounds"))
			}
			continue
		case confine.CodeOf(err) == confine.Outside:
			if t.dir {
				h := entry.Bad(link.path, location, "skill-scan-outside-root", "the symlink points outside the root; move its target into the root, or allow the folder it points to")
				h.Escaped = true
				sc.add(h)
			}
			continue
		case err != nil:
			sc.add(entry.Bad(link.path, location, "unresolvable-skill-scan-path", "the symlink is broken or circular"))
			continue
		}
		if head, known := sc.walked[t.real]; known {
			sc.again(link, t, head, location)
			continue
		}
		sc.walked[t.real] = -1
		level = append(level, node{link.path, t.at, t.rel})
	}
	return level
}

// again records a link to a folder that is already listed.
func (sc *scan) again(link node, t target, head int, location string) {
	d := metier.Diagnostic{Severity: skillmd.Advice, Code: "skill-link-duplicate", Path: location,
		Detail: "the symlink leads to a folder that is listed already; it is listed once"}
	if head >= 0 {
		sc.heads[head].Diagnostics = append(sc.heads[head].Diagnostics, d)
		return
	}
	h := metier.Head{Path: link.path, Kind: metier.KindSkill, Broken: true}
	d.Severity = skillmd.Warning
	if parent := path.Dir(link.rel); t.at == link.at && (t.rel == "." || parent == t.rel || strings.HasPrefix(parent, t.rel+"/")) {
		d.Code, d.Detail = "symlink-cycle", "the symlink leads back to a folder above it; it was not followed"
	}
	h.Diagnostics = append(h.Diagnostics, d)
	sc.add(h)
}

// fresh reports whether a folder found through a link has not been walked yet.
func (sc *scan) fresh(n node) bool {
	if sc.walked == nil {
		return true // no link was followed, so no folder comes twice
	}
	where := n.location(sc.anchors)
	if _, known := sc.walked[where]; known {
		return false
	}
	sc.walked[where] = -1
	return true
}

// remember adds what was walked since the last call, by host path.
func (sc *scan) remember() {
	for i, level := range sc.levels {
		for j, n := range level {
			if where := n.location(sc.anchors); sc.walked[where] <= 0 {
				sc.walked[where] = sc.head0[i][j]
			}
		}
	}
	sc.levels, sc.head0 = nil, nil
}

func (sc *scan) add(h metier.Head) { sc.heads = append(sc.heads, &h) }

func (sc *scan) tooDeep(n node) {
	if sc.deep++; sc.deep <= maxNotes {
		sc.add(entry.Bad(n.path, n.location(sc.anchors), "max-depth-exceeded", fmt.Sprintf("folders deeper than %d levels are not read", sc.opt.MaxDepth)))
	}
}

// note adds a diagnostic about the whole listing to the root's entry.
func (sc *scan) note(sev skillmd.Severity, code, detail string) {
	d := metier.Diagnostic{Severity: sev, Code: code, Detail: detail, Path: sc.first.path}
	for i := range sc.heads {
		if sc.heads[i].Path == "." {
			sc.heads[i].Diagnostics = append(sc.heads[i].Diagnostics, d)
			return
		}
	}
	sc.add(metier.Head{Path: ".", Kind: metier.KindSkill, Broken: true, Diagnostics: []metier.Diagnostic{d}})
}
