package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"metier"
	"metier/internal/confine"
	"metier/internal/digest"
	"metier/internal/skillsext"
)

// Source is the skills of one server, under the host rules of SEP-2640. A skill is identified by
// the operator's label and its address. Listing fetches no files. A file is fetched when it is
// opened, only from this server, and returned only if its size and digest match the entry.
//
// Once a file has been returned, its skill's entry is kept: until the host is closed the skill's files
// are read by that entry, whatever the server lists later.
type Source struct {
	c *connection

	mu      sync.Mutex
	known   map[string]*held // by path, as last listed or got
	acting  map[string]*held // by path: what was loaded or read
	changed map[string]bool  // acting ones that the server lists otherwise now
}

func newSource(c *connection) *Source {
	return &Source{c: c, known: map[string]*held{}, acting: map[string]*held{}, changed: map[string]bool{}}
}

var _ metier.Source = (*Source)(nil)

// listTimes is how many times the time of a call a whole list may take.
const listTimes = 5

// limited gives one request its time.
func (s *Source) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.c.server.call())
}

// fetch lists all entries that the server and the operator name.
func (s *Source) fetch(ctx context.Context) ([]Entry, error) {
	var out []Entry
	seen, begun := map[string]bool{}, s.c.received.Load()
	ctx, cancel := context.WithTimeout(ctx, listTimes*s.c.server.call())
	defer cancel()
	for cursor := ""; ; {
		r, err := func() (*listResult, error) {
			ctx, cancel := s.limited(ctx)
			defer cancel()
			r, err := mcp.CallCustomMethod[*listParams, *listResult](ctx, s.c.session, "skills/list", &listParams{Cursor: cursor})
			if err != nil {
				return nil, s.c.broken(ctx, err)
			}
			return r, nil
		}()
		if err != nil {
			return out, err
		}
		out = append(out, r.Skills...)
		switch {
		case len(out) > maxSkills:
			return out[:maxSkills], s.c.fault("list", "mcp-skills-cut", "", fmt.Errorf("it lists more than %d skills; only the first ones are used", maxSkills))
		case r.Next == "":
			return s.named(ctx, out)
		case seen[r.Next] || len(seen) >= maxPages*10 || s.c.received.Load()-begun > s.c.listing():
			return out, s.c.fault("list", "mcp-skills-cut", "", errors.New("its list of skills does not end"))
		}
		cursor, seen[r.Next] = r.Next, true
	}
}

// named adds the skills that the operator named and that are not in the list, because a list may be
// incomplete.
func (s *Source) named(ctx context.Context, out []Entry) ([]Entry, error) {
	var errs []error
	for _, uri := range s.c.server.SkillURIs {
		if slices.ContainsFunc(out, func(e Entry) bool { return e.URI == uri }) {
			continue
		}
		e, err := s.get(ctx, uri)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", uri, err))
			continue
		}
		out = append(out, *e)
	}
	return out, errors.Join(errs...)
}

// get asks for one entry.
func (s *Source) get(ctx context.Context, uri string) (*Entry, error) {
	ctx, cancel := s.limited(ctx)
	defer cancel()
	r, err := mcp.CallCustomMethod[*getParams, *getResult](ctx, s.c.session, "skills/get", &getParams{URI: uri})
	if wire, is := errors.AsType[*jsonrpc.Error](err); is && wire.Code == jsonrpc.CodeInvalidParams {
		return nil, &metier.Error{Op: "open", Path: uri, Kind: metier.NotFound, Code: "skill_not_found", Err: fmt.Errorf("the server %s serves no such skill", s.c.server.Label)}
	}
	switch {
	case err != nil:
		return nil, s.c.broken(ctx, err)
	case r.Skill == nil || r.Skill.URI != uri:
		return nil, s.c.fault("open", "mcp-entry-invalid", "", errors.New("it answers with another skill"))
	}
	return r.Skill, nil
}

// List implements metier.Source.
func (s *Source) List(ctx context.Context) iter.Seq2[*metier.Head, error] {
	return func(yield func(*metier.Head, error) bool) {
		entries, err := s.fetch(ctx)
		if ctx.Err() != nil {
			yield(nil, ctx.Err())
			return
		}
		for _, h := range s.heads(entries, err) {
			if !yield(&h, nil) {
				return
			}
		}
	}
}

// heads checks the entries and keeps them for later reads.
func (s *Source) heads(entries []Entry, fault error) []metier.Head {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []metier.Head
	known := map[string]*held{}
	for i, e := range entries {
		h, err := e.check(s.c.clean)
		if err == nil && known[h.path] != nil {
			err = unusable("the server lists it twice")
		}
		if err != nil {
			out = append(out, s.bad(fmt.Sprintf("%s#%d", clipped(e.URI, 200), i+1), err))
			continue
		}
		known[h.path] = h
	}
	for p, h := range s.acting { // what is acted on stays as it was loaded
		now, listed := known[p]
		s.changed[p] = !listed || !now.same(h)
		known[p] = h
	}
	s.known = known
	for p, h := range known {
		head := h.head()
		if s.changed[p] {
			head.Diagnostics = append(head.Diagnostics, metier.Diagnostic{Severity: "warning", Code: "mcp-skill-changed", Path: MountLabel(s.c.server.Label),
				Detail: "the server has another version now; this run keeps the one it used first"})
		}
		out = append(out, head)
	}
	if fault != nil {
		out = append(out, s.bad("(list)", fault))
	}
	slices.SortFunc(out, func(a, b metier.Head) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// bad returns a Head for something unusable.
func (s *Source) bad(p string, err error) metier.Head {
	code := "mcp-list-failed"
	if cut := metier.CodeOf(err); cut == "mcp-skills-cut" || cut == "mcp-entry-invalid" {
		code = cut
	}
	if b, is := errors.AsType[broken](err); is {
		code = b.code
	}
	return metier.Head{Path: p, Kind: metier.KindSkill, Broken: true, Remote: true, Diagnostics: []metier.Diagnostic{{Severity: "error", Code: code,
		Path: MountLabel(s.c.server.Label), Detail: "server " + s.c.server.Label + ": " + s.c.clean(err.Error())}}}
}

func (h *held) head() metier.Head {
	out := metier.Head{Path: h.path, FileName: mainFile, Kind: metier.KindSkill, Front: h.front, Remote: true, Diagnostics: slices.Clone(h.diagnostics)}
	if f, ok := h.file(mainFile); ok {
		out.Digest, out.Size = metier.Digest(f.digest), f.size
	}
	return out
}

// Open implements metier.Source. A skill that is not listed is requested by its address.
func (s *Source) Open(ctx context.Context, p string) (metier.Bundle, error) {
	s.mu.Lock()
	h := s.acting[p]
	if h == nil {
		h = s.known[p]
	}
	s.mu.Unlock()
	if h != nil {
		return &bundle{s, h}, ctx.Err()
	}
	uri, ok := addressOf(p)
	if !ok {
		return nil, &metier.Error{Op: "open", Skill: p, Kind: metier.NotFound, Code: "skill_not_found", Err: errors.New("no skill has this name")}
	}
	e, err := s.get(ctx, uri)
	if err != nil {
		return nil, err
	}
	if h, err = e.check(s.c.clean); err != nil {
		return nil, &metier.Error{Op: "open", Skill: p, Kind: metier.Invalid, Code: "skill_broken", Err: err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[p] = h
	return &bundle{s, h}, nil
}

// bundle is a skill under one entry.
type bundle struct {
	s *Source
	h *held
}

func (b *bundle) Head() metier.Head { return b.h.head() }
func (b *bundle) Close() error      { return nil }

// binaries are the extensions of files that are certainly not text. The bytes are not available
// yet, and a read checks again.
var binaries = []string{".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf", ".zip", ".gz", ".tar", ".docx", ".xlsx", ".pptx", ".ttf", ".woff", ".woff2", ".wasm", ".so", ".dll", ".exe", ".bin", ".pyc"}

// Manifest implements metier.Bundle. It returns the entry's list and fetches nothing.
func (b *bundle) Manifest(context.Context) (metier.Manifest, error) {
	m := metier.Manifest{Dynamic: b.h.dynamic}
	if m.Dynamic {
		m.Diagnostics = []metier.Diagnostic{{Severity: "warning", Code: "mcp-skill-dynamic", Path: MountLabel(b.s.c.server.Label),
			Detail: "the server generates this skill on each request: it cannot be verified, approvals of it do not last, and only its SKILL.md is read"}}
		return m, nil
	}
	var tree []digest.Entry
	for _, f := range b.h.files {
		m.Files = append(m.Files, metier.File{Path: f.path, Size: f.size, Digest: metier.Digest(f.digest), Text: !slices.Contains(binaries, strings.ToLower(path.Ext(f.path)))})
		tree = append(tree, digest.Entry{Path: f.path, Mode: digest.ModeFile, Digest: f.digest})
	}
	m.Tree = metier.Digest(digest.Tree(tree))
	return m, nil
}

// Open implements metier.Bundle. The bytes were checked against the entry, and
// SKILL.md's frontmatter too, before any of them is given out.
func (b *bundle) Open(ctx context.Context, file string) (io.ReadCloser, error) {
	fail := func(k metier.Kind, code, hint string, err error) (io.ReadCloser, error) {
		return nil, &metier.Error{Op: "open", Skill: MountLabel(b.s.c.server.Label) + ":" + b.h.path, Path: file, Kind: k, Code: code, Hint: hint, Err: err}
	}
	clean, err := confine.Clean(file)
	if err != nil {
		return fail(metier.Invalid, "resource_path_invalid", "", err)
	}
	f, listed := b.h.file(clean)
	if b.h.dynamic && clean == mainFile {
		f, listed = listedFile{path: mainFile, uri: b.h.uri}, true
	}
	if !listed {
		return fail(metier.Drift, "mcp_file_unlisted", again, errors.New("the entry that this skill was loaded by does not list the file"))
	}
	data, kept := b.kept(f)
	if !kept {
		data, err = b.s.read(ctx, f.uri)
	}
	switch {
	case err != nil:
		return nil, err
	case b.h.dynamic && len(data) > skillsext.MaxBytes:
		return fail(metier.LimitReached, "resource_too_large", "", fmt.Errorf("the file has more than %d bytes", skillsext.MaxBytes))
	case !b.h.dynamic && int64(len(data)) != f.size:
		return fail(metier.Drift, "mcp_size_mismatch", again, fmt.Errorf("the server sent %d bytes; its entry declares %d", len(data), f.size))
	case !b.h.dynamic && digest.Bytes(data) != f.digest:
		return fail(metier.Drift, "mcp_digest_mismatch", again, errors.New("the file from the server does not match the digest in its entry"))
	}
	if clean == mainFile {
		if err := b.h.differs(data); err != nil {
			return fail(metier.Drift, "mcp_frontmatter_mismatch", again, err)
		}
	}
	b.s.hold(b.h)
	if !kept && !b.h.dynamic {
		c := b.s.c
		if err := c.host.cache.keep(c.server, b.h.folder, f, data); err != nil {
			c.host.opts.Logger.Warn("a file of a server's skill was not kept", "server", c.server.Label, "err", err)
		}
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

// kept returns a file from the cache. Dynamic skills are not cached.
func (b *bundle) kept(f listedFile) ([]byte, bool) {
	c := b.s.c
	if b.h.dynamic || c.host.cache == nil {
		return nil, false
	}
	data, ok, altered := c.host.cache.read(c.server, b.h.folder, f)
	if altered {
		c.host.note(c, "mcp-cache-altered", "a file of a skill was changed on disk after it was checked; it is fetched again: %s", b.h.path+"/"+f.path)
	}
	return data, ok
}

const again = "start a new run to use the server's current skill; approvals of it are needed again"

// hold begins the window in which the skill is acted on.
func (s *Source) hold(h *held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.acting[h.path] == nil {
		s.acting[h.path] = h
	}
}

// read fetches one file of this server.
func (s *Source) read(ctx context.Context, uri string) ([]byte, error) {
	parent := ctx
	ctx, cancel := s.limited(ctx)
	defer cancel()
	r, err := s.c.session.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri})
	if parent.Err() != nil {
		return nil, parent.Err()
	}
	if err != nil {
		return nil, s.c.broken(ctx, err)
	}
	for _, c := range r.Contents {
		if c != nil && c.URI == uri {
			if c.Blob != nil {
				return c.Blob, nil
			}
			return []byte(c.Text), nil
		}
	}
	return nil, s.c.fault("read", "mcp_answer_missing", "", errors.New("its response does not contain the requested file"))
}
