package server

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"metier"
	"metier/settings"
)

// cautious is the limit for clients that are not in descriptionLimits.
const cautious = 2048

// descriptionLimits are how many characters of a tool's description known clients show to their
// model, by clientInfo.name. 0 means unlimited.
var descriptionLimits = map[string]int{
	"claude-code":           2048, // cut with "… [truncated]"; the input schema is passed whole
	"codex-mcp-client":      0,
	"gemini-cli-mcp-client": 0,
	"opencode":              0,
}

// cautiousResult is the limit for clients that are not in resultLimits. It is below that of every
// known client except Codex.
const cautiousResult = 36_000

// resultLimits are how many bytes of a tool's result metier sends at once to known clients, by
// clientInfo.name. Each is below the size at which the client would truncate the result for its
// model. The rest can be read at an offset.
var resultLimits = map[string]int{
	"claude-code":           45_000, // versions that ignore mostResult replace 50,000 characters by a preview of 2 kB
	"codex-mcp-client":      10_000, // removes the middle of a result of more than 12,000 bytes
	"gemini-cli-mcp-client": 36_000, // removes the middle of a result of more than 40,000 characters
	"opencode":              45_000, // cuts a result at 51,200 bytes, or at 2,000 lines
}

// resultLimit returns the limit for the client of a request.
func resultLimit(req mcp.Request) int {
	if n, known := resultLimits[clientName(req)]; known {
		return n
	}
	return cautiousResult
}

// clientName returns the name that the client of a request reports, or "".
func clientName(req mcp.Request) string {
	ss, is := req.GetSession().(*mcp.ServerSession)
	if !is {
		return ""
	}
	if p := ss.InitializeParams(); p != nil && p.ClientInfo != nil {
		return p.ClientInfo.Name
	}
	return ""
}

// fitted moves load_skill's catalog from its description to that of its parameter name, for clients
// that truncate descriptions.
func (s *Server) fitted(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		r, err := next(ctx, method, req)
		list, is := r.(*mcp.ListToolsResult)
		if err != nil || !is {
			return r, err
		}
		limit, known := descriptionLimits[clientName(req)]
		if !known {
			limit = cautious
		}
		canonical := *s.canonical.Load()
		tools := slices.Clone(list.Tools)
		for i, t := range tools {
			if limit > 0 && canonical[t.Name] == settings.ToolLoadSkill && utf8.RuneCountInString(t.Description) > limit {
				tools[i] = moved(t, s.own.session.Catalog(ctx))
			}
		}
		out := *list
		out.Tools = tools
		return &out, nil
	}
}

// moved returns load_skill with its catalog in the description of the parameter name.
func moved(t *mcp.Tool, c metier.Catalog) *mcp.Tool {
	raw, is := t.InputSchema.(json.RawMessage)
	text, in := strings.CutSuffix(t.Description, "\n\n"+c.Text)
	var schema map[string]any
	if !is || !in || json.Unmarshal(raw, &schema) != nil {
		return t
	}
	props, _ := schema["properties"].(map[string]any)
	name, _ := props["name"].(map[string]any)
	if name == nil {
		return t
	}
	hint := "The description of the parameter name lists the available skills."
	if c.Search != "" {
		hint += " Find other skills, and descriptions that are not in the list, with " + c.Search + "."
	}
	name = maps.Clone(name)
	name["description"] = "Name of the skill. " + c.Text
	props["name"] = name
	b, err := json.Marshal(schema)
	if err != nil {
		return t
	}
	out := *t
	out.Description, out.InputSchema = hint+" "+text, json.RawMessage(b)
	return &out
}
