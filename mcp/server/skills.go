package server

import (
	"cmp"
	"context"
	"encoding/base64"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"metier/internal/visible"
)

// stateless is the revision from which requests carry everything with them.
const stateless = "2026-07-28"

type cursorParams struct {
	mcp.ParamsBase
	Cursor string `json:"cursor,omitempty"`
}

type uriParams struct {
	mcp.ParamsBase
	URI    string `json:"uri"`
	Cursor string `json:"cursor,omitempty"` // of resources/directory/read
}

// lasting is what results of the revision 2026-07-28 and later say of
// themselves, and older ones do not know.
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

// extend adds the methods of the extension.
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
	ttl := int(s.opts.TTL.Milliseconds())
	return lasting{ResultType: "complete", TTL: &ttl, Scope: "private"}
}

// cacheable says of the protocol's own lists how long they hold. What one
// principal is told is not for another.
func (s *Server) cacheable(_ context.Context, _ mcp.Request, c *mcp.Cacheable) {
	c.TTLMs, c.CacheScope = int(s.opts.TTL.Milliseconds()), "private"
}

func (s *Server) listSkills(_ context.Context, ss *mcp.ServerSession, p *cursorParams) (*skillsResult, error) {
	x := s.index.Load()
	if p == nil {
		p = &cursorParams{}
	}
	from, err := after(p.Cursor, x.listed, func(v *served) string { return v.main })
	if err != nil {
		return nil, err
	}
	to := min(from+s.opts.PageSize, len(x.listed))
	r := &skillsResult{lasting: s.lasting(ss), Skills: make([]*entry, 0, to-from)}
	for _, v := range x.listed[from:to] {
		r.Skills = append(r.Skills, v.entry)
	}
	if to < len(x.listed) {
		r.Next = cursor(x.listed[to-1].main)
	}
	return r, nil
}

// getSkill answers with the skill as it is now, listed or not: a host asks when
// what it holds no longer fits what it reads.
func (s *Server) getSkill(ctx context.Context, ss *mcp.ServerSession, p *uriParams) (*skillResult, error) {
	x := s.index.Load()
	if p == nil {
		p = &uriParams{}
	}
	v, file, ok := x.find(p.URI)
	if !ok || below(v.folder, file) != v.main {
		return nil, invalid("there is no skill at %s", p.URI)
	}
	now, err := held(ctx, x.snapshot, v.skill, x.denied)
	switch {
	case err != nil:
		return nil, invalid("the skill at %s cannot be read: "+visible.Line(err.Error()), p.URI)
	case now.main != v.main:
		return nil, invalid("the skill at %s has another name now", p.URI)
	}
	return &skillResult{lasting: s.lasting(ss), Skill: now.entry}, nil
}

func (s *Server) readDirectory(_ context.Context, ss *mcp.ServerSession, p *uriParams) (*directoryResult, error) {
	if p == nil {
		p = &uriParams{}
	}
	kids, ok := s.index.Load().children[strings.TrimSuffix(p.URI, "/")]
	if !ok {
		return nil, invalid("%s is no folder", p.URI)
	}
	from, err := after(p.Cursor, kids, func(c child) string { return c.uri })
	if err != nil {
		return nil, err
	}
	to := min(from+s.opts.PageSize, len(kids))
	r := &directoryResult{lasting: s.lasting(ss), Resources: make([]*mcp.Resource, 0, to-from)}
	for _, c := range kids[from:to] {
		r.Resources = append(r.Resources, c.resource())
	}
	if to < len(kids) {
		r.Next = cursor(kids[to-1].uri)
	}
	return r, nil
}

// resource is a child as the protocol has it: SKILL.md with the name and
// description of its frontmatter, other files by their names.
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

// resource is SKILL.md as a resource.
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
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: strings.Replace(format, "%s", visible.Quote(uri), 1)}
}

// A cursor is the address after which the next page begins, so that it holds
// while skills come and go.
func cursor(uri string) string { return base64.RawURLEncoding.EncodeToString([]byte("after " + uri)) }

// after is the place of the first item of a page. all is in the order of key.
func after[T any](at string, all []T, key func(T) string) (int, error) {
	if at == "" {
		return 0, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(at)
	uri, ours := strings.CutPrefix(string(b), "after "+Scheme)
	if err != nil || !ours {
		return 0, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the cursor is not one that this server gave"}
	}
	i, found := slices.BinarySearchFunc(all, Scheme+uri, func(v T, to string) int { return cmp.Compare(key(v), to) })
	if found {
		i++
	}
	return i, nil
}
