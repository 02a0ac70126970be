package server

import (
	"cmp"
	"context"
	"encoding/base64"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"metier/internal/termtext"
)

// stateless is the first protocol revision with self-contained requests.
const stateless = "2026-07-28"

// listTTL is how long a client may cache a list.
const listTTL = 5 * time.Second

// extParams are the parameters of the extension's methods.
type extParams struct {
	mcp.ParamsBase
	URI    string `json:"uri,omitempty"`    // of skills/get and resources/directory/read
	Cursor string `json:"cursor,omitempty"` // of skills/list and resources/directory/read
}

// lasting holds result fields that exist only since the revision 2026-07-28.
type lasting struct {
	ResultType string `json:"resultType,omitempty"`
	TTL        *int   `json:"ttlMs,omitempty"`
	Scope      string `json:"cacheScope,omitempty"`
}

type skillsResult struct {
	mcp.ResultBase
	lasting
	Skills []*entry `json:"skills"`
	Next   string   `json:"nextCursor,omitempty"`
}

type skillResult struct {
	mcp.ResultBase
	lasting
	Skill *entry `json:"skill"`
}

type directoryResult struct {
	mcp.ResultBase
	lasting
	Resources []*mcp.Resource `json:"resources"`
	Next      string          `json:"nextCursor,omitempty"`
}

// extend registers the methods of the extension.
func (s *Server) extend() error {
	return cmp.Or(
		mcp.AddReceivingCustomMethod(s.mcp, "skills/list", s.listSkills),
		mcp.AddReceivingCustomMethod(s.mcp, "skills/get", s.getSkill),
		mcp.AddReceivingCustomMethod(s.mcp, "resources/directory/read", s.readDirectory))
}

func (s *Server) lasting(ss *mcp.ServerSession) lasting {
	if p := ss.InitializeParams(); p == nil || p.ProtocolVersion < stateless {
		return lasting{}
	}
	ttl := int(listTTL.Milliseconds())
	return lasting{ResultType: "complete", TTL: &ttl, Scope: "private"}
}

// cacheable sets how long the protocol's own lists may be cached. Results for one principal are not
// shared with another.
func (s *Server) cacheable(_ context.Context, _ mcp.Request, c *mcp.Cacheable) {
	c.TTLMs, c.CacheScope = int(listTTL.Milliseconds()), "private"
}

func (s *Server) listSkills(_ context.Context, ss *mcp.ServerSession, p *extParams) (*skillsResult, error) {
	skills, next, err := page(p, s.opts.PageSize, s.index.Load().listed, func(v *served) string { return v.main })
	if err != nil {
		return nil, err
	}
	r := &skillsResult{lasting: s.lasting(ss), Skills: make([]*entry, len(skills)), Next: next}
	for i, v := range skills {
		r.Skills[i] = v.entry
	}
	return r, nil
}

// getSkill returns the current skill, listed or not: a host requests it when its copy no longer
// matches what it reads.
func (s *Server) getSkill(ctx context.Context, ss *mcp.ServerSession, p *extParams) (*skillResult, error) {
	x := s.index.Load()
	if p == nil {
		p = &extParams{}
	}
	v, file, ok := x.find(p.URI)
	if !ok || below(v.folder, file) != v.main {
		return nil, invalid("there is no skill at %s", p.URI)
	}
	select { // each reads and hashes a whole skill
	case s.getting <- struct{}{}:
		defer func() { <-s.getting }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	now, err := s.checks.held(ctx, x.snapshot, v.skill, x.denied)
	switch {
	case err != nil:
		return nil, invalid("the skill at %s cannot be read: "+termtext.Line(err.Error()), p.URI)
	case now.main != v.main:
		return nil, invalid("the skill at %s has another name now", p.URI)
	}
	return &skillResult{lasting: s.lasting(ss), Skill: now.entry}, nil
}

func (s *Server) readDirectory(_ context.Context, ss *mcp.ServerSession, p *extParams) (*directoryResult, error) {
	if p == nil {
		p = &extParams{}
	}
	kids, ok := s.index.Load().children[strings.TrimSuffix(p.URI, "/")]
	if !ok {
		return nil, invalid("%s is not a folder", p.URI)
	}
	kids, next, err := page(p, s.opts.PageSize, kids, func(c child) string { return c.uri })
	if err != nil {
		return nil, err
	}
	r := &directoryResult{lasting: s.lasting(ss), Resources: make([]*mcp.Resource, len(kids)), Next: next}
	for i, c := range kids {
		r.Resources[i] = c.resource()
	}
	return r, nil
}

// resource returns a child as a protocol resource. For SKILL.md it uses the name and description of
// the frontmatter, otherwise the file name.
func (c child) resource() *mcp.Resource {
	r := &mcp.Resource{URI: c.uri, Name: c.name}
	switch {
	case c.file == nil:
		r.MIMEType = "inode/directory"
	case c.uri == c.of.main:
		return c.of.resource()
	default:
		r.MIMEType, r.Size = mediaType(c.name, c.file.text), c.file.Size
	}
	return r
}

// resource returns SKILL.md as a protocol resource.
func (v *served) resource() *mcp.Resource {
	r := &mcp.Resource{URI: v.main, Name: v.skill.Name, Description: v.skill.Description, MIMEType: "text/markdown"}
	if f := v.skill.Head.Front; f.HasName {
		r.Name = f.Name
		r.Description = f.Description
	}
	for _, f := range v.files {
		if f.URI == v.main {
			r.Size = f.Size
		}
	}
	return r
}

func invalid(format, uri string) error {
	if len(uri) > 200 {
		uri = strings.ToValidUTF8(uri[:200], "") + "…"
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: strings.Replace(format, "%s", termtext.Quote(uri), 1)}
}

// page returns the page of a list that a request asks for, and the next cursor. all must be sorted
// by uri. A cursor is the URI after which a page begins, so it stays valid while skills change.
func page[T any](p *extParams, size int, all []T, uri func(T) string) (items []T, next string, err error) {
	from := 0
	if p != nil && p.Cursor != "" {
		b, err := base64.RawURLEncoding.DecodeString(p.Cursor)
		last, ours := strings.CutPrefix(string(b), "after ")
		if err != nil || !ours || !strings.HasPrefix(last, Scheme) {
			return nil, "", &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the cursor is not one that this server gave"}
		}
		var found bool
		if from, found = slices.BinarySearchFunc(all, last, func(v T, to string) int { return cmp.Compare(uri(v), to) }); found {
			from++
		}
	}
	to := min(from+size, len(all))
	if to < len(all) {
		next = base64.RawURLEncoding.EncodeToString([]byte("after " + uri(all[to-1])))
	}
	return all[from:to], next, nil
}
