package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"

	"metier"
	"metier/internal/skillsext"
)

// Limits of the skills that are listed. Others can still be requested.
const (
	mostFiles = skillsext.MaxFiles
	mostBytes = skillsext.MaxBytes
)

// entry is a skill as described by the extension.
type entry struct {
	URI         string          `json:"uri"` // of SKILL.md
	Frontmatter json.RawMessage `json:"frontmatter"`
	Resources   any             `json:"resources"` // []file, or "dynamic"
}

// file is one file of an entry.
type file struct {
	URI    string        `json:"uri"`
	Digest metier.Digest `json:"digest"`
	Size   int64         `json:"size"`

	text bool
	path string // relative to the skill's folder
}

// served is a skill with its URIs.
type served struct {
	skill    metier.Skill
	folder   string // URI of the folder
	main     string // URI of SKILL.md
	entry    *entry
	files    []file
	unlisted metier.Diagnostic // why skills/list omits it; an empty code means it is listed
}

// index holds everything that is served at one point in time.
type index struct {
	snapshot *metier.Snapshot
	denied   []metier.ID // skills that policy denies; also left out of enclosing skills
	all      []*served   // sorted by URI
	listed   []*served
	byFolder map[string]*served
	children map[string][]child // of each folder, by its URI
	print    string             // digest over all entries, to detect changes
}

// child is a direct child of a folder.
type child struct {
	uri, name string
	of        *served
	file      *file // nil for a folder
}

// build indexes a snapshot, using all cores.
func (s *Server) build(ctx context.Context, snap *metier.Snapshot) (*index, error) {
	var denied []metier.ID
	skills := slices.DeleteFunc(snap.Skills(), func(sk metier.Skill) bool {
		if s.backend.Serves(sk) {
			return false
		}
		denied = append(denied, sk.ID)
		return true
	})
	out, faults := make([]*served, len(skills)), make([]error, len(skills))
	var wg sync.WaitGroup
	turns := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i := range skills {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			out[i], faults[i] = s.checks.held(ctx, snap, skills[i], denied)
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	x := &index{snapshot: snap, denied: denied, byFolder: map[string]*served{}, children: map[string][]child{}}
	for i, v := range out {
		if faults[i] != nil {
			s.opts.Logger.WarnContext(ctx, "a skill is not served", "skill", skills[i].ID.String(), "error", faults[i].Error())
			continue
		}
		if other := x.byFolder[v.folder]; other != nil {
			s.opts.Logger.WarnContext(ctx, "a skill is not served: another has its address", "skill", v.skill.ID.String(), "other", other.skill.ID.String())
			continue
		}
		x.byFolder[v.folder] = v
		x.all = append(x.all, v)
	}
	slices.SortFunc(x.all, func(a, b *served) int { return cmp.Compare(a.main, b.main) })
	s.checks.keep(x.all)
	sum := sha256.New()
	for _, v := range x.all {
		x.place(v)
		if v.unlisted.Code == "" {
			v.unlisted = x.misplaced(v)
		}
		v.digest(sum)
		if v.unlisted.Code != "" {
			s.opts.Logger.InfoContext(ctx, "skills/list omits a skill; skills/get returns it", "skill", v.skill.ID.String(), "code", v.unlisted.Code, "reason", v.unlisted.Detail)
			continue
		}
		x.listed = append(x.listed, v)
	}
	x.sortChildren()
	x.print = hex.EncodeToString(sum.Sum(nil))
	return x, nil
}

func (v *served) digest(h hash.Hash) {
	fmt.Fprintf(h, "%s\x00%s\x00%s\x00%s\x00%t\x00", v.main, v.unlisted.Code, v.skill.State, v.entry.Frontmatter, v.skill.UserInvocable)
	for _, f := range v.files {
		fmt.Fprintf(h, "%s\x00%s\x00%d\x00", f.URI, f.Digest, f.Size)
	}
}

// mostTries is how often reading a skill is tried if it changes meanwhile.
const mostTries = 3

var errChanging = &metier.Error{Op: "index", Kind: metier.Conflict, Code: "skill_changing", Hint: "ask again", Err: errors.New("the skill changes while it is read")}

// held reads a skill so that its head and file digests are consistent.
func (c *checks) held(ctx context.Context, snap *metier.Snapshot, sk metier.Skill, denied []metier.ID) (*served, error) {
	for range mostTries {
		v, err := c.once(ctx, snap, sk, denied)
		if v != nil || err != nil {
			return v, err
		}
	}
	return nil, errChanging
}

// once is one attempt of held. It returns nil if SKILL.md changed in between.
func (c *checks) once(ctx context.Context, snap *metier.Snapshot, sk metier.Skill, denied []metier.ID) (*served, error) {
	b, err := snap.Open(ctx, sk.ID)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	head := b.Head()
	man, err := b.Manifest(ctx)
	if err != nil {
		return nil, err
	}
	name := sk.Name
	if head.Front.HasName {
		name = head.Front.Name
	}
	sk.Head = &head
	v := &served{skill: sk, folder: addressOf(sk.ID, name)}
	v.main = below(v.folder, head.FileName)
	v.entry = &entry{URI: v.main, Frontmatter: head.Front.JSON(), Resources: "dynamic"}
	var size int64
	for _, f := range man.Files {
		if f.Path == head.FileName && head.Digest != "" && f.Digest != head.Digest {
			return nil, nil
		}
		if liesIn(denied, sk.ID, f.Path) {
			continue
		}
		v.files = append(v.files, file{URI: below(v.folder, f.Path), Digest: f.Digest, Size: f.Size, text: f.Text, path: f.Path})
		size += f.Size
	}
	if !slices.ContainsFunc(v.files, func(f file) bool { return f.URI == v.main }) && !man.Dynamic {
		return nil, &metier.Error{Op: "index", Skill: sk.Name, Path: head.FileName, Kind: metier.Invalid, Code: "skill_broken", Err: errors.New("it is not a readable file")}
	}
	if !man.Dynamic {
		v.entry.Resources = v.files
	}
	if v.unlisted = unlisted(sk, head, len(v.files), size); v.unlisted.Code == "" {
		v.unlisted, err = c.verify(ctx, b, v, man.Files)
	}
	return v, err
}

// liesIn reports whether a file of skill sk belongs to one of those skills, nested inside sk.
func liesIn(those []metier.ID, sk metier.ID, file string) bool {
	at, depth := path.Join(sk.Path, file), strings.Count(path.Join(sk.Path, "x"), "/")
	return slices.ContainsFunc(those, func(o metier.ID) bool {
		return o.Source == sk.Source && strings.Count(o.Path, "/")+1 > depth && strings.HasPrefix(at, o.Path+"/")
	})
}

// place adds a skill's files to the folders above them, up to the root.
func (x *index) place(v *served) {
	for i := range v.files {
		x.put(v, v.files[i].URI, &v.files[i])
	}
}

func (x *index) put(v *served, uri string, f *file) {
	for {
		at := strings.LastIndexByte(uri, '/')
		folder := uri[:at]
		if len(folder) < len(Scheme) {
			return
		}
		kids := x.children[folder]
		if i := len(kids) - 1; slices.ContainsFunc(kids[max(i, 0):], func(c child) bool { return c.uri == uri }) {
			return // files are sorted, so an existing folder is the last one
		}
		name, _ := unescaped(uri[at+1:])
		x.children[folder] = append(kids, child{uri: uri, name: name, of: v, file: f})
		uri, f = folder, nil
	}
}

// sortChildren sorts folders by URI and removes duplicates: files of a nested skill appear in both
// skills.
func (x *index) sortChildren() {
	for folder, kids := range x.children {
		slices.SortStableFunc(kids, func(a, b child) int { return cmp.Compare(a.uri, b.uri) })
		x.children[folder] = slices.CompactFunc(kids, func(a, b child) bool { return a.uri == b.uri })
	}
}

// longest exceeds the length of any URI of a file the system can open.
const longest = 16 << 10

// find returns the innermost skill that contains a URI and the path within it. The URI must be in
// canonical form.
func (x *index) find(uri string) (v *served, file string, ok bool) {
	rest, is := strings.CutPrefix(uri, Scheme)
	if !is || len(uri) > longest { // each parent folder is looked up
		return nil, "", false
	}
	parts := strings.Split(rest, "/")
	for i, p := range parts {
		text, good := unescaped(p)
		if !good {
			return nil, "", false
		}
		parts[i] = text
	}
	for folder, n := uri, len(parts); n > 1; n-- {
		folder = folder[:strings.LastIndexByte(folder, '/')]
		if v := x.byFolder[folder]; v != nil {
			file := path.Join(parts[n-1:]...)
			return v, file, !liesIn(x.denied, v.skill.ID, file)
		}
	}
	return nil, "", false
}
