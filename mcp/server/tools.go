package server

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"metier"
	"metier/internal/visible"
	"metier/policy"
	"metier/settings"
)

// titles of the tools that are served, by canonical name. Tools over a
// workspace are not served: clients have their own.
var titles = map[string]string{
	settings.ToolLoadSkill:         "Load a skill",
	settings.ToolReadSkillResource: "Read a file of a skill",
	settings.ToolListSkills:        "List skills",
	settings.ToolSearchSkills:      "Search skills",
	settings.ToolRunSkillScript:    "Run a script of a skill",
	settings.ToolLoadContent:       "Load content of a harness",
}

// tool is a tool as the protocol has it; nil where it is not served. Of an
// embedder's tool nobody knows that it stays in this world.
func (s *Server) tool(spec metier.Spec) *mcp.Tool {
	title, is := titles[spec.Canonical]
	if !is {
		if title, is = s.opts.Tools[spec.Canonical]; !is {
			return nil
		}
	}
	read, output := spec.Effect == policy.Read, outputs[spec.Canonical]
	worst, world := !read, output == nil
	t := &mcp.Tool{Name: spec.Name, Title: title, Description: spec.Description, InputSchema: spec.Schema,
		Annotations: &mcp.ToolAnnotations{Title: title, ReadOnlyHint: read, IdempotentHint: read, DestructiveHint: &worst, OpenWorldHint: &world}}
	if output != nil {
		t.OutputSchema = output
	}
	return t
}

// outputs are the schemas of structured results; what they do not name stays
// here, such as the bare output of a script: what a model may be shown of it is
// in content. A call that failed has no such result.
var outputs = map[string]*jsonschema.Schema{
	settings.ToolLoadSkill: object([]string{"skillId", "name", "hash", "content"}, map[string]*jsonschema.Schema{
		"skillId": text("name of the skill for ever"), "name": text(""), "hash": text("SHA-256 of SKILL.md"), "source": text("tier"), "content": text("the instructions")}),
	settings.ToolReadSkillResource: object([]string{"skillId", "path", "status", "observedSizeBytes", "content"}, map[string]*jsonschema.Schema{
		"skillId": text(""), "skillName": text(""), "path": text(""), "status": text("read or binary"), "encoding": text("base64, or not there"),
		"observedSizeBytes": {Type: "integer"}, "observedDigest": text("SHA-256 of the file"), "digestMatchesRegistry": {Type: "boolean"}, "truncated": {Type: "boolean"}, "content": text("")}),
	settings.ToolListSkills:   found,
	settings.ToolSearchSkills: found,
	settings.ToolRunSkillScript: object([]string{"status", "content"}, map[string]*jsonschema.Schema{
		"status": text(""), "exitCode": {Types: []string{"integer", "null"}}, "signal": text(""), "limit": text("which limit ended it"), "truncated": {Type: "boolean"},
		"content": text("what it wrote")}),
}

var found = object([]string{"results", "total"}, map[string]*jsonschema.Schema{"total": {Type: "integer"},
	"results": {Type: "array", Items: object([]string{"name"}, map[string]*jsonschema.Schema{"name": text(""), "description": text("")})}})

func text(description string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Description: description}
}

func object(required []string, props map[string]*jsonschema.Schema) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "object", Required: required, Properties: props}
}

// callTool passes a call to the session of the client that made it.
func (s *Server) callTool(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	c, release, err := s.acquire(ctx, req)
	if err != nil {
		return nil, s.fault(ctx, err)
	}
	defer release()
	call := metier.Call{ID: s.opts.NewID(), Tool: req.Params.Name, Args: req.Params.Arguments, Actor: policy.ByModel, By: principal(req)}
	if len(call.Args) == 0 || string(call.Args) == "null" { // of a tool that needs none
		call.Args = json.RawMessage("{}")
	}
	answered, err := s.given(req, call)
	if err != nil {
		return nil, err
	}
	if answered != nil {
		call.ID = answered.Call
	}
	defer s.progress(ctx, req, call.ID)()
	o, err := s.consented(ctx, c, req, call, answered)
	if ask, is := errors.AsType[*question](err); is {
		return ask.result, nil
	}
	if err != nil {
		return nil, s.fault(ctx, err)
	}
	return result(o, s.outputOf(call.Tool)), nil
}

// result is an observation as the protocol has it: the text as the model reads
// it, and the same with what is known of it as data. Both hold the body, since
// nearly all clients show their model the one or the other: Claude Code, VS Code
// and Cursor the data where there is some, most others the text. Left out of
// either, it would reach no model there; standing twice it costs bytes of the
// connection, and tokens only in the few clients that show both.
func result(o metier.Observation, schema *jsonschema.Schema) *mcp.CallToolResult {
	r := &mcp.CallToolResult{IsError: o.Code() != "", Content: []mcp.Content{}}
	for _, p := range o.Parts() {
		if strings.HasPrefix(p.Media, "image/") && p.Data != nil {
			r.Content = append(r.Content, &mcp.ImageContent{MIMEType: p.Media, Data: p.Data})
			continue
		}
		r.Content = append(r.Content, &mcp.TextContent{Text: p.Text})
	}
	data := map[string]json.RawMessage{}
	if r.IsError || schema == nil || o.Detail() == nil || json.Unmarshal(o.Detail(), &data) != nil {
		return r
	}
	data["content"], _ = json.Marshal(o.Text()) // plain data
	maps.DeleteFunc(data, func(key string, _ json.RawMessage) bool { return schema.Properties[key] == nil })
	r.StructuredContent = data
	return r
}

// outputOf is the schema of a tool's results, by the name clients use.
func (s *Server) outputOf(name string) *jsonschema.Schema {
	if t := (*s.tools.Load())[name]; t != nil {
		schema, _ := t.OutputSchema.(*jsonschema.Schema) // an embedder's has none
		return schema
	}
	return nil
}

// fault is an error of ours for a client: what it says is written for whoever
// asked, and no path of this machine is in it.
func (s *Server) fault(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.opts.Logger.ErrorContext(ctx, "a request failed", "error", err.Error())
	code := metier.CodeOf(err)
	if metier.KindOf(err) == metier.LimitReached {
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: visible.Line(code) + ": the server has no room for another session; try again later"}
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the call could not be made or recorded (" + visible.Line(code) + "); the server's log says why"}
}
