package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"metier"
	"metier/internal/plural"
	"metier/internal/termtext"
)

// parallelDownloads limits the downloads from an index at a time.
const parallelDownloads = 4

// The folders of indexes on a site, newest version first.
var wellKnown = []string{".well-known/agent-skills", ".well-known/skills"}

// fetchIndex fetches skills that the index of a site lists, and only those that were chosen.
func fetchIndex(ctx context.Context, s Source, o FetchOptions) (_ *Fetched, err error) {
	if err := o.online(s); err != nil {
		return nil, err
	}
	w, u, err := newWeb(s.address(), o.web)
	if err != nil {
		return nil, err
	}
	defer w.close()
	idx, err := w.findIndex(ctx, u)
	if err != nil {
		return nil, err
	}
	chosen, err := idx.choose(s, o)
	if err != nil {
		return nil, err
	}
	c, err := openContent(o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	f := &Fetched{Source: s, Dir: filepath.Join(o.Dir, "files"), Notes: idx.notes, digests: map[string]string{}, listed: map[string]bool{}}
	for _, e := range idx.entries {
		f.listed[e.name] = e.problem == ""
	}
	for _, e := range chosen {
		f.digests[e.name] = e.digest
		if host := hostForm(e.at); host != hostForm(idx.at) {
			f.Notes = append(f.Notes, fmt.Sprintf("the files of %s are from %s", e.name, termtext.Line(host)))
		}
	}
	o.report(fmt.Sprintf("downloading %s from %s", plural.Of(len(chosen), "skill"), shown(idx.at)))
	if err := c.downloadEntries(ctx, w, f, chosen); err != nil {
		return nil, err
	}
	return f, nil
}

// indexesOf returns the addresses at which the index of a site can be.
func indexesOf(u *url.URL) []*url.URL {
	at := func(p string) *url.URL {
		return (&url.URL{Scheme: u.Scheme, Host: u.Host}).JoinPath(p)
	}
	p := strings.TrimRight(u.Path, "/")
	if path.Base(p) == "index.json" {
		return []*url.URL{u}
	}
	if slices.ContainsFunc(wellKnown, func(dir string) bool { return strings.HasSuffix(p, "/"+dir) }) {
		return []*url.URL{at(p + "/index.json")}
	}
	var out []*url.URL
	for _, dir := range wellKnown {
		out = append(out, at(p+"/"+dir+"/index.json"))
		if p != "" {
			out = append(out, at("/"+dir+"/index.json"))
		}
	}
	return out
}

// findIndex reads the first index of a site. One with an unknown schema is noted and left out.
func (w *web) findIndex(ctx context.Context, u *url.URL) (siteIndex, error) {
	var notes, tried []string
	var unknown error
	for _, at := range indexesOf(u) {
		var raw bytes.Buffer
		got, err := w.save(ctx, at, maxIndex, &raw)
		switch metier.CodeOf(err) {
		case "source_missing", "source_is_page", "download_denied":
			tried = append(tried, shown(at))
			continue
		}
		if err != nil {
			return siteIndex{}, err
		}
		idx, err := parseIndex(raw.Bytes(), got.from)
		if metier.CodeOf(err) == "index_schema_unknown" {
			unknown, notes = err, append(notes, err.Error())
			continue
		}
		idx.notes = notes
		return idx, err
	}
	if unknown != nil {
		return siteIndex{}, unknown
	}
	return siteIndex{}, metier.Fieldf(metier.NotFound, "Request.Source", "index_missing", "use the address of a site with an index, of an archive, or of a SKILL.md", "there is no index of skills at %s", strings.Join(tried, ", "))
}

// choose returns the entries that are fetched.
func (x *siteIndex) choose(s Source, o FetchOptions) ([]indexEntry, error) {
	names := o.Skills
	if s.Path != "" {
		names = []string{s.Path}
	}
	if len(names) == 0 {
		return x.chooseAll(s, o.All)
	}
	var out []indexEntry
	for _, n := range names {
		i := slices.IndexFunc(x.entries, func(e indexEntry) bool { return e.name == n })
		code := "skill_not_found"
		if o.Paths != nil { // it was installed from there
			code = "skill_gone"
		}
		switch {
		case i < 0:
			return nil, metier.Fieldf(metier.NotFound, "Request.Skills", code, "the index contains: "+x.list(), "%s contains no skill %q", shown(x.at), n)
		case x.entries[i].problem != "":
			return nil, metier.Fieldf(metier.Invalid, "Request.Skills", "index_entry_invalid", "report it to the operator of the site", "the entry of %q in %s cannot be used: %s", n, shown(x.at), x.entries[i].problem)
		}
		if err := locked(o.Digest, x.entries[i].digest, "the entry of "+n+" in "+shown(x.at), changedHint); err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(out, func(e indexEntry) bool { return e.name == n }) {
			out = append(out, x.entries[i])
		}
	}
	return out, nil
}

// chooseAll returns all entries that can be used, and notes the others.
func (x *siteIndex) chooseAll(s Source, all bool) ([]indexEntry, error) {
	var out []indexEntry
	bad := 0
	for _, e := range x.entries {
		if e.problem == "" {
			out = append(out, e)
		} else if bad++; bad <= maxNote {
			x.notes = append(x.notes, fmt.Sprintf("the entry %s of the index was skipped: %s", termtext.Quote(e.name), e.problem))
		}
	}
	if bad > maxNote {
		x.notes = append(x.notes, fmt.Sprintf("%d more of its entries were skipped", bad-maxNote))
	}
	switch {
	case len(out) == 0:
		f := Fetched{Notes: x.notes}
		return nil, metier.Fieldf(metier.NotFound, "Request.Source", "source_without_skills", "use another source", "%s lists no skill that can be installed%s", shown(x.at), f.also())
	case len(out) > 1 && !all:
		return nil, metier.Fieldf(metier.Invalid, "Request.Skills", "skills_not_chosen", "name them with Request.Skills, or choose all with Request.All", "%s contains %s: %s", s, plural.Of(len(out), "skill"), x.list())
	}
	return out, nil
}

// list returns the names of the entries that can be used, for a message.
func (x *siteIndex) list() string {
	var names []string
	for _, e := range x.entries {
		if e.problem == "" {
			names = append(names, e.name)
		}
	}
	return brieflyNamed(names)
}

// brieflyNamed returns a list of names for a message.
func brieflyNamed(names []string) string {
	const most = 50
	if len(names) > most {
		names = append(slices.Clone(names[:most]), fmt.Sprintf("and %s more", plural.Thousands(int64(len(names)-most))))
	}
	return termtext.Line(strings.Join(names, ", "))
}

// downloadEntries downloads skills into folders with their names.
func (c *content) downloadEntries(ctx context.Context, w *web, f *Fetched, chosen []indexEntry) error {
	var jobs []func(context.Context) error
	for i, e := range chosen {
		if err := c.root.Mkdir(filepath.Join("files", e.name), 0o755); err != nil {
			return err
		}
		if e.kind != typeFiles {
			jobs = append(jobs, func(ctx context.Context) error { return c.artifact(ctx, w, e, artifactName(i, e)) })
			continue
		}
		sum := new(atomic.Int64)
		for _, file := range e.files {
			jobs = append(jobs, func(ctx context.Context) error { return c.file(ctx, w, e, file, sum) })
		}
	}
	if err := together(ctx, jobs); err != nil {
		return err
	}
	for i, e := range chosen {
		if e.kind == typeArchive {
			if err := c.unpackEntry(ctx, f, e, artifactName(i, e)); err != nil {
				return err
			}
		}
	}
	return nil
}

// artifactName returns the file of the artifact of an entry.
func artifactName(i int, e indexEntry) string {
	if e.kind == typeSkillFile {
		return filepath.Join("files", e.name, "SKILL.md")
	}
	return filepath.Join("work", strconv.Itoa(i))
}

// artifact downloads the artifact of an entry, and checks its digest.
func (c *content) artifact(ctx context.Context, w *web, e indexEntry, name string) (err error) {
	most := int64(maxDownload)
	if e.kind == typeSkillFile {
		most = maxSkillFile
	}
	file, err := c.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	got, err := w.save(ctx, e.at, most, file)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	return locked(e.digest, got.digest, shown(e.at), "report it to the operator of the site; the index may also have changed during the download")
}

// unpackEntry extracts the archive of an entry, which has SKILL.md at its top.
func (c *content) unpackEntry(ctx context.Context, f *Fetched, e indexEntry, name string) error {
	file, err := c.root.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	entries, err := c.extract(ctx, f, file, info.Size(), path.Join("files", e.name), shown(e.at))
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(entries, isSkillFile) {
		return &metier.Error{Path: shown(e.at), Field: "Request.Source", Kind: metier.Invalid, Code: "archive_layout", Hint: "report it to the operator of the site", Err: errors.New("the archive of an index must have SKILL.md at its top")}
	}
	return nil
}

// file downloads one file of an entry of version 0.1.
func (c *content) file(ctx context.Context, w *web, e indexEntry, name string, sum *atomic.Int64) error {
	to := filepath.Join("files", e.name, filepath.FromSlash(name))
	if err := c.root.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	file, err := c.root.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	u := e.at.ResolveReference(&url.URL{Path: name})
	got, err := w.read(ctx, u, maxFileBytes, file)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	switch {
	case sum.Add(got.size) > maxBytes:
		return metier.Fieldf(metier.LimitReached, "Request.Source", "download_too_large", "use a smaller one", "the files of %s have more than %d bytes", e.name, maxBytes)
	case got.page && strings.HasPrefix(got.media, "text/html") && !slices.Contains([]string{".htm", ".html", ".xhtml"}, strings.ToLower(path.Ext(name))):
		return metier.Fieldf(metier.Invalid, "Request.Source", "source_is_page", "report it to the operator of the site", "%s is a web page instead of the file", shown(u))
	}
	return nil
}

// together does some jobs at a time. After the first error, no job is started.
func together(ctx context.Context, jobs []func(context.Context) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(parallelDownloads, len(jobs)) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(jobs) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := jobs[i](ctx); err != nil {
					stop(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}
