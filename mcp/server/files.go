package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"metier"
	"metier/event"
	"metier/internal/digest"
	"metier/internal/termtext"
	"metier/model"
	"metier/policy"
)

// Canonical names of operations that only clients use. They must be granted.
const (
	ToolFile   = "mcp_resource"
	ToolPrompt = "mcp_prompt"
)

// Tools returns the tools that a Backend adds to each session. Models are not offered them. The
// server calls them for resources/read and prompts/get, so that these pass the gate and are
// recorded.
func Tools() []metier.Tool { return []metier.Tool{fileTool{}, promptTool{}} }

// noResource returns the protocol error for a resource that does not exist.
func noResource(uri string) error { return invalid("there is no resource %s", uri) }

// addressed rejects URIs with invalid characters before the library handles them. For control
// characters, the library would send invalid JSON and disconnect.
func addressed(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if r, is := req.(*mcp.ReadResourceRequest); is && strings.ContainsFunc(r.Params.URI, func(c rune) bool { return c <= ' ' || c > '~' }) {
			return nil, noResource(r.Params.URI)
		}
		return next(ctx, method, req)
	}
}

// readResource returns a file of a skill unchanged. Reading SKILL.md does not activate the skill. A
// client is not the operator: if loading a skill needs approval, its files are unavailable until it
// is approved.
func (s *Server) readResource(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	uri := req.Params.URI
	v, path, ok := s.index.Load().find(uri)
	if !ok {
		return nil, noResource(uri)
	}
	done, err := s.holds(req, v.size(path))
	if err != nil {
		return nil, err
	}
	defer done()
	c, release, err := s.acquire(ctx, req)
	if err != nil {
		return nil, s.fault(ctx, err)
	}
	defer release()
	args, _ := json.Marshal(fileArgs{v.skill.ID.String(), path}) // always encodes
	o, err := c.session.Call(ctx, metier.Call{ID: s.opts.NewID(), Tool: ToolFile, Args: args, Actor: policy.ByUser, By: principal(req)})
	if err != nil {
		return nil, s.fault(ctx, err)
	}
	if o.Code() != "" || len(o.Parts()) != 1 {
		return nil, noResource(uri)
	}
	b := o.Parts()[0].Data
	rc := &mcp.ResourceContents{URI: uri, MIMEType: mediaType(path, utf8.Valid(b))}
	if uri == v.main {
		rc.MIMEType = "text/markdown"
	}
	if utf8.Valid(b) && len(b) > 0 {
		rc.Text = string(b)
	} else {
		rc.Blob = append([]byte{}, b...) // non-nil for an empty file too: the library omits empty text, and contents need text or blob
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{rc}}, nil
}

// size returns the known or maximum size of a file in bytes.
func (v *served) size(path string) int64 {
	for _, f := range v.files {
		if f.path == path {
			return min(f.Size, mostBytes)
		}
	}
	return mostBytes
}

type fileArgs struct {
	Skill string `json:"skill"`
	Path  string `json:"path"`
}

// fileTool returns a whole file of a skill unchanged, since the caller compares its digest.
type fileTool struct{}

func (fileTool) Spec(context.Context, *metier.Session) (metier.Spec, bool) {
	return metier.Spec{Canonical: ToolFile, Effect: policy.Read, ToolSpec: model.ToolSpec{Name: ToolFile}}, false
}

func (fileTool) Facts(ctx context.Context, s *metier.Session, raw json.RawMessage) (metier.Facts, error) {
	var a fileArgs
	if err := metier.DecodeArgs(raw, &a); err != nil {
		return metier.Facts{}, err
	}
	return readFacts(ctx, s, a.Skill, a.Path)
}

// readFacts returns the policy facts for reading a file of a skill, or the skill itself if file is
// empty.
func readFacts(ctx context.Context, s *metier.Session, id, file string) (metier.Facts, error) {
	sk, _, err := s.Entry(ctx, id, file)
	if err != nil {
		return metier.Facts{}, err
	}
	sub := sk.Subject()
	return metier.Facts{Request: policy.Request{Effect: policy.Read, Skill: &sub}}, nil
}

func (fileTool) Invoke(ctx context.Context, x *metier.ToolContext) (metier.Result, error) {
	var a fileArgs
	if err := metier.DecodeArgs(x.Call().Args, &a); err != nil {
		return metier.Failure(err), nil
	}
	sk, err := x.Session().Snapshot().Find(a.Skill)
	if err != nil {
		return metier.Failure(err), nil
	}
	ev := event.ResourceRead{Call: x.Call().ID, SkillID: sk.ID.String(), Name: sk.Name, Source: sk.Tier, Path: a.Path,
		Status: "read", MaxBytes: mostBytes, Role: policy.Quote}
	b, err := whole(ctx, x.Session().Snapshot(), sk, a.Path)
	if err == nil {
		err = cmp.Or(x.Unchanged(ctx, sk, a.Path, b), x.Suspect(sk, a.Path, string(b)))
	}
	if err != nil {
		ev.Status, ev.Code = "error", metier.CodeOf(err)
		x.Record(ev)
		return metier.Failure(err), nil
	}
	size := int64(len(b))
	ev.ObservedDigest, ev.ObservedSize = digest.Bytes(b), &size
	x.Record(ev)
	return metier.Result{Parts: []model.Part{{Kind: model.PartResult, Data: b}}, Label: policy.Label{Role: policy.Quote, Origin: sk.ID.String(), Tier: sk.Tier, Mediated: true}}, nil
}

// whole reads a file of a skill, up to mostBytes.
func whole(ctx context.Context, snap *metier.Snapshot, sk metier.Skill, path string) ([]byte, error) {
	b, more, err := snap.ReadFile(ctx, sk, path, mostBytes)
	if _, told := errors.AsType[*metier.Error](err); err != nil && !told {
		err = &metier.Error{Op: "read", Skill: sk.Name, Path: path, Kind: metier.Unavailable, Code: "resource_unreadable", Err: err}
	}
	if more {
		err = &metier.Error{Op: "read", Skill: sk.Name, Path: path, Kind: metier.LimitReached, Code: "resource_too_large", Err: fmt.Errorf("the file has more than %d bytes", mostBytes)}
	}
	return b, err
}

// prompt returns the prompt for a skill that users can invoke.
func prompt(sk metier.Skill) *mcp.Prompt {
	p := &mcp.Prompt{Name: sk.Slug, Title: termtext.Line(sk.Name), Description: termtext.Escape(sk.Description)} // clients display these
	front := sk.Head.Front
	for _, name := range front.Arguments {
		p.Arguments = append(p.Arguments, &mcp.PromptArgument{Name: name})
	}
	if len(p.Arguments) == 0 && front.ArgumentHint != "" {
		p.Arguments = []*mcp.PromptArgument{{Name: "arguments", Description: termtext.Escape(front.ArgumentHint)}}
	}
	return p
}

// Limits of a prompt in bytes.
const (
	mostArguments = 16 << 10
	mostPrompt    = 8 << 20 // of instructions with their arguments; activation has the same limit
	leastSlot     = 2       // what an argument replaces, such as $1
)

// getPrompt activates a skill as the client user's choice.
func (s *Server) getPrompt(ctx context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	c, release, err := s.acquire(ctx, req)
	if err != nil {
		return nil, s.fault(ctx, err)
	}
	defer release()
	a := promptArgs{Skill: req.Params.Name}
	sk, err := c.session.Snapshot().Find(a.Skill)
	if err != nil || !sk.UserInvocable {
		return nil, invalid("there is no prompt %s", a.Skill)
	}
	a.Skill = sk.ID.String()
	long := int64(0)
	for _, p := range prompt(sk).Arguments {
		a.Arguments = append(a.Arguments, req.Params.Arguments[p.Name])
		long += int64(len(req.Params.Arguments[p.Name])) + 1 // with what separates it from the next
	}
	if long > mostArguments {
		return nil, invalid(fmt.Sprintf("invalid_arguments: the arguments of %%s have %d bytes, and the limit is %d", long, mostArguments), req.Params.Name)
	}
	done, err := s.holds(req, min(sk.Head.Size*(1+long/leastSlot)+long, max(sk.Head.Size, mostPrompt)))
	if err != nil {
		return nil, err
	}
	defer done()
	args, _ := json.Marshal(a) // always encodes
	o, err := c.session.Call(ctx, metier.Call{ID: s.opts.NewID(), Tool: ToolPrompt, Args: args, Actor: policy.ByUser, By: principal(req), Source: "user-explicit"})
	if err != nil {
		return nil, s.fault(ctx, err)
	}
	if o.Code() != "" {
		return nil, invalid("%s cannot be used: "+o.Text(), req.Params.Name)
	}
	return &mcp.GetPromptResult{Description: termtext.Escape(sk.Description), Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: o.Text()}}}}, nil
}

type promptArgs struct {
	Skill     string   `json:"skill"`
	Arguments []string `json:"arguments,omitempty"`
}

// promptTool activates a skill with arguments.
type promptTool struct{}

func (promptTool) Spec(context.Context, *metier.Session) (metier.Spec, bool) {
	return metier.Spec{Canonical: ToolPrompt, Effect: policy.Read, ToolSpec: model.ToolSpec{Name: ToolPrompt}}, false
}

func (promptTool) Facts(ctx context.Context, s *metier.Session, raw json.RawMessage) (metier.Facts, error) {
	var a promptArgs
	if err := metier.DecodeArgs(raw, &a); err != nil {
		return metier.Facts{}, err
	}
	return readFacts(ctx, s, a.Skill, "")
}

func (promptTool) Invoke(ctx context.Context, x *metier.ToolContext) (metier.Result, error) {
	var a promptArgs
	if err := metier.DecodeArgs(x.Call().Args, &a); err != nil {
		return metier.Failure(err), nil
	}
	sk, err := x.Session().Snapshot().Find(a.Skill)
	if err != nil {
		return metier.Failure(err), nil
	}
	act, text, err := x.Activate(ctx, sk, a.Arguments)
	if err != nil {
		return metier.Failure(err), nil
	}
	if text == "" {
		return metier.Result{}, errors.New("the skill has no text")
	}
	r := metier.Text(text)
	r.Detail, _ = json.Marshal(act.SkillActivated) // always encodes
	r.Label = policy.Label{Role: policy.Context, Origin: act.SkillID, Tier: act.Source, Mediated: true}
	return r, nil
}
