package server

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"metier"
	"metier/internal/termtext"
	"metier/policy"
	"metier/settings"
)

// titles are the titles of the served tools, by canonical name. Workspace tools are not served:
// clients have their own.
var titles = map[string]string{
	settings.ToolLoadSkill:         "Load a skill",
	settings.ToolReadSkillResource: "Read a file of a skill",
	settings.ToolListSkills:        "List skills",
	settings.ToolSearchSkills:      "Search skills",
	settings.ToolRunSkillScript:    "Run a script of a skill",
	settings.ToolLoadContent:       "Load content of a harness",
}

// tool returns a tool as defined by the protocol, or nil if it is not served. An embedder's tool
// counts as open-world.
func (s *Server) tool(spec metier.Spec) *mcp.Tool {
	title, is := titles[spec.Canonical]
	if !is {
		if title, is = s.opts.Tools[spec.Canonical]; !is {
			return nil
		}
	}
	read, output := spec.Effect == policy.Read, outputs[spec.Canonical]
	worst, world := !read, s.opts.Tools[spec.Canonical] != ""
	t := &mcp.Tool{Name: spec.Name, Title: title, Description: spec.Description, InputSchema: spec.Schema,
		Annotations: &mcp.ToolAnnotations{Title: title, ReadOnlyHint: read, IdempotentHint: read, DestructiveHint: &worst, OpenWorldHint: &world}}
	if output != nil {
		t.OutputSchema = output
	}
	if _, ours := titles[spec.Canonical]; ours {
		t.Meta = mcp.Meta{"anthropic/maxResultSizeChars": mostResult, "anthropic/alwaysLoad": spec.Canonical == settings.ToolLoadSkill}
	}
	return t
}

// mostResult is the result size, in characters, that a tool requests from Claude Code. It is the
// maximum. By default, Claude Code replaces results over 50,000 characters with a 2 kB preview.
const mostResult = 500_000

// outputs are the schemas of structured results. Tools that return text for the model have none:
// Claude Code, VS Code, and Cursor would show their model the structured result instead, as escaped
// JSON. Programs find the same data in _meta, under [DetailKey]. A failed call has neither.
var outputs = map[string]*jsonschema.Schema{
	settings.ToolListSkills:   found,
	settings.ToolSearchSkills: found,
}

// DetailKey is the key in the _meta of a result that holds details: the skill ID and hash for
// load_skill, the digest for read_skill_resource, and the exit code for run_skill_script.
const DetailKey = "metier/detail"

// details are the members of that object to include, by tool. Others are not sent, such as the raw
// output of a script.
var details = map[string][]string{
	settings.ToolLoadSkill:         {"skillId", "name", "hash", "source"},
	settings.ToolReadSkillResource: {"skillId", "skillName", "path", "status", "encoding", "observedSizeBytes", "observedDigest", "digestMatchesRegistry", "truncated"},
	settings.ToolRunSkillScript:    {"status", "exitCode", "signal", "limit", "truncated"},
}

var found = object([]string{"results", "total"}, map[string]*jsonschema.Schema{"total": {Type: "integer"},
	"results": {Type: "array", Items: object([]string{"name"}, map[string]*jsonschema.Schema{"name": text(""), "skillId": text("The other tools use it to identify the skill."), "description": text("")})}})

func text(description string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Description: description}
}

func object(required []string, props map[string]*jsonschema.Schema) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "object", Required: required, Properties: props}
}

// callTool passes a call to the session of the calling client.
func (s *Server) callTool(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	c, release, err := s.acquire(ctx, req)
	if err != nil {
		return nil, s.fault(ctx, err)
	}
	defer release()
	call := metier.Call{ID: s.opts.NewID(), Tool: req.Params.Name, Args: req.Params.Arguments, Actor: policy.ByModel, By: principal(req), Page: resultLimit(req)}
	if len(call.Args) == 0 || string(call.Args) == "null" { // a tool without arguments
		call.Args = json.RawMessage("{}")
	}
	answered, err := s.given(req, call)
	if err != nil {
		return nil, err
	}
	if answered != nil {
		call.ID = answered.Call
	}
	if (*s.canonical.Load())[call.Tool] == settings.ToolRunSkillScript {
		done, err := s.runs(req)
		if err != nil {
			return nil, err
		}
		defer done()
	}
	defer s.progress(ctx, req, call.ID)()
	o, err := s.consented(ctx, c, req, call, answered)
	if ask, is := errors.AsType[*question](err); is {
		return ask.result, nil
	}
	if err != nil {
		return nil, s.fault(ctx, err)
	}
	return s.result(call.Tool, o), nil
}

// result converts an observation to a protocol result: the text for the model, and its details.
func (s *Server) result(name string, o metier.Observation) *mcp.CallToolResult {
	r := &mcp.CallToolResult{IsError: o.Code() != "", Content: []mcp.Content{}}
	for _, p := range o.Parts() {
		if strings.HasPrefix(p.Media, "image/") && p.Data != nil {
			r.Content = append(r.Content, &mcp.ImageContent{MIMEType: p.Media, Data: p.Data})
			continue
		}
		r.Content = append(r.Content, &mcp.TextContent{Text: p.Text})
	}
	data := map[string]json.RawMessage{}
	canonical := (*s.canonical.Load())[name]
	if r.IsError || o.Detail() == nil || json.Unmarshal(o.Detail(), &data) != nil {
		return r
	}
	if schema := outputs[canonical]; schema != nil {
		maps.DeleteFunc(data, func(key string, _ json.RawMessage) bool { return schema.Properties[key] == nil })
		r.StructuredContent = data
		return r
	}
	if keys := details[canonical]; keys != nil {
		maps.DeleteFunc(data, func(key string, _ json.RawMessage) bool { return !slices.Contains(keys, key) })
		r.Meta = mcp.Meta{DetailKey: data}
	}
	return r
}

// fault converts an internal error for a client. Its text is written for the caller and contains no
// local paths.
func (s *Server) fault(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if e, is := errors.AsType[*jsonrpc.Error](err); is {
		return e // written for the client; if it is about a limit, that was logged when it was reached
	}
	if need, is := errors.AsType[*metier.NeedsApproval](err); is { // calls of tools ask; see consented
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: unasked(need.Question, "This request cannot ask the user.")}
	}
	s.opts.Logger.ErrorContext(ctx, "a request failed", "error", err.Error())
	code := metier.CodeOf(err)
	if metier.KindOf(err) == metier.LimitReached {
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: termtext.Line(code) + ": the server has too many sessions; try again later"}
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the call could not be made or recorded (" + termtext.Line(code) + "); the server's log has the reason"}
}
