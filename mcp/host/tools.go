package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"metier"
	"metier/event"
	"metier/internal/digest"
	"metier/internal/promptescape"
	"metier/internal/termtext"
	"metier/model"
	"metier/policy"
)

// Limits for a tool's description and its name.
const (
	maxName        = 64
	maxDescription = 8 << 10
	maxSchema      = 64 << 10
	maxImage       = 5 << 20
	maxImages      = 8
	hashTail       = 8
)

// imageTypes are the image types that every provider accepts. With any other, a provider rejects
// the rest of the conversation.
var imageTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// Prefix is the prefix of the names of all server tools.
const Prefix = "mcp__"

// SkillsKey is the key in a call's _meta for the active skills.
const SkillsKey = "metier/skills"

// tool is one tool of a server, as it was when the run began.
type tool struct {
	c        *connection
	name     string // theirs
	ours     string // mcp__server__tool
	pinned   string // digest of what was offered
	spec     metier.Spec
	resolved *jsonschema.Resolved
}

// ToolName is the name of a server's tool among ours. Characters that providers
// do not take become _, and a name of more than 64 bytes ends with a part of its
// digest; both could meet another name, so those get the digest too.
func ToolName(server, name string) string {
	plain := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, name)
	full := Prefix + server + "__" + plain
	if plain == name && len(full) <= maxName {
		return full
	}
	sum := strings.TrimPrefix(digest.Bytes([]byte(server+"\x00"+name)), "sha256:")[:hashTail]
	return full[:min(len(full), maxName-1-hashTail)] + "_" + sum
}

// name makes our tools of what the servers offered. The order is that of the
// names.
func (h *Host) name() {
	taken := map[string]bool{}
	for _, c := range h.servers {
		seen := map[string]bool{}
		for _, t := range c.offered {
			ours := ToolName(c.server.Label, t.Name)
			x, err := c.take(t, ours)
			switch {
			case err != nil:
				h.note(c, "mcp-tool-refused", "the tool %s is left out: %v", termtext.Quote(t.Name), err)
			case seen[t.Name] || taken[ours]:
				h.note(c, "mcp-tool-clash", "the tool %s is left out: another one is called %s", termtext.Quote(t.Name), ours)
			case h.opts.Pins[ours] != "" && h.opts.Pins[ours] != x.pinned:
				h.note(c, "mcp-tool-drifted", "the tool %s is left out: the server changed it since the run began", termtext.Quote(t.Name))
			default:
				h.tools = append(h.tools, x)
			}
			seen[t.Name], taken[ours] = true, true
		}
	}
	for _, c := range h.servers {
		for _, ours := range slices.Sorted(maps.Keys(h.opts.Pins)) {
			if c.failed == nil && strings.HasPrefix(ours, Prefix+c.server.Label+"__") && !taken[ours] {
				h.note(c, "mcp-tool-drifted", "the tool %s is gone: the server had it when the run began", ours)
			}
		}
	}
	slices.SortStableFunc(h.tools, func(a, b *tool) int { return strings.Compare(a.ours, b.ours) })
}

// take checks a tool's description.
func (c *connection) take(t *mcp.Tool, ours string) (*tool, error) {
	if t.Name == "" || len(t.Name) > 256 {
		return nil, errors.New("its name is empty or has more than 256 bytes")
	}
	raw, err := json.Marshal(c.worded(t.InputSchema))
	if err != nil {
		return nil, errors.New("its schema is not JSON")
	}
	if len(raw) > maxSchema {
		return nil, fmt.Errorf("its schema has %d bytes, more than %d", len(raw), maxSchema)
	}
	var top struct {
		Type any `json:"type"`
	}
	if err := json.Unmarshal(raw, &top); err != nil || top.Type != "object" {
		return nil, errors.New("its schema does not describe an object")
	}
	resolved, err := validator(raw)
	if err != nil {
		return nil, fmt.Errorf("its schema is invalid: %w", err)
	}
	x := &tool{c: c, name: t.Name, ours: ours, pinned: c.now[t.Name], resolved: resolved}
	text := c.words(c.clip(t.Description, maxDescription))
	x.spec = metier.Spec{Canonical: ours, Effect: policy.SideEffect, ToolSpec: model.ToolSpec{Name: ours, Schema: raw,
		Description: "[Tool of the server " + c.server.Label + ", which is not trusted] " + text}}
	if slices.Contains(c.server.ReadOnly, "*") || slices.Contains(c.server.ReadOnly, t.Name) {
		x.spec.Effect = policy.Read
	}
	return x, nil
}

// words is a text of a server as a model may read it in a description.
func (c *connection) words(s string) string {
	s, _ = promptescape.Neutralize(termtext.Escape(c.clean(s)))
	return s
}

// worded is a schema with the texts in it that are for readers as those of
// tools are; nothing that arguments are compared with is another.
func (c *connection) worded(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, x := range v {
			if text, is := x.(string); is && (key == "description" || key == "title" || key == "$comment") {
				x = c.words(text)
			}
			out[key] = c.worded(x)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = c.worded(x)
		}
		return out
	}
	return v
}

func (t *tool) Spec(context.Context, *metier.Session) (metier.Spec, bool) { return t.spec, true }

// Facts implements metier.Tool. The effect is what the operator declared, or else a side effect.
func (t *tool) Facts(_ context.Context, _ *metier.Session, args json.RawMessage) (metier.Facts, error) {
	bad := func(err error) (metier.Facts, error) {
		return metier.Facts{}, metier.InvalidArguments("%w", err)
	}
	var v map[string]any
	if len(args) > 0 {
		if err := json.Unmarshal(args, &v); err != nil || v == nil {
			return bad(errors.New("the arguments are not an object"))
		}
	}
	if v == nil {
		v = map[string]any{}
	}
	if err := t.resolved.Validate(v); err != nil {
		return bad(err)
	}
	return metier.Facts{Request: policy.Request{Tool: t.ours, Effect: t.spec.Effect,
		Summary: "call " + termtext.Quote(t.name) + " of the server " + t.c.server.Label + ": " + clipped(string(args), 400)}}, nil
}

// skill is what a server is told about an active skill, which never includes its text.
type skill struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Digest string `json:"digest"`
}

func skillContext(active []event.SkillRef) []skill {
	out := []skill{}
	for _, a := range active {
		out = append(out, skill{a.ID, a.Name, a.Digest})
	}
	return out
}

func (t *tool) Invoke(ctx context.Context, x *metier.ToolContext) (metier.Result, error) {
	parent := ctx
	ctx, cancel := context.WithTimeout(ctx, t.c.server.call())
	defer cancel()
	if err := t.c.same(ctx, t.name, t.pinned); err != nil {
		return metier.Failure(err), nil
	}
	args := x.Call().Args
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	r, err := t.c.session.CallTool(ctx, &mcp.CallToolParams{Meta: mcp.Meta{SkillsKey: skillContext(x.Active())}, Name: t.name, Arguments: args})
	switch {
	case err != nil && parent.Err() != nil:
		return metier.Result{}, parent.Err()
	case err != nil:
		err = t.c.broken(ctx, err)
		if metier.CodeOf(err) != "mcp_error" && t.spec.Effect != policy.Read {
			return metier.Result{}, err // it may have happened
		}
		return t.failed(err), nil
	case len(r.InputRequests) > 0:
		return metier.Failure(t.c.fault("call", "mcp_input_required", "use the server in a client that can answer its requests", errors.New("the server asks for more input, which a run cannot give"))), nil
	}
	res, n := t.result(r)
	if n > 0 {
		x.Record(event.Note{Code: "wrapper-tag-neutralized", On: x.Call().ID, N: n})
	}
	return res, nil
}

// label says whose words a result is. They are mediated: no secret of ours is in
// them, they are text that passes for nobody else's, and have a largest size.
func (t *tool) label() policy.Label {
	return policy.Label{Role: policy.Context, Origin: MountLabel(t.c.server.Label), Tier: policy.ThirdParty, Mediated: true}
}

// wrapped is text of the server in an element that names it, and how many
// look-alikes of our elements it contained.
func (t *tool) wrapped(text, attributes string) (string, int) {
	return promptescape.Element("mcp_result", fmt.Sprintf(` server="%s" tool="%s"`, promptescape.Attribute(t.c.server.Label), promptescape.Attribute(t.name))+attributes, text)
}

// failed converts an error, whose text may come from the server, into a result.
func (t *tool) failed(err error) metier.Result {
	res := metier.Failure(err)
	for i := range res.Parts {
		if res.Parts[i].Text != "" {
			res.Parts[i].Text, _ = t.wrapped(res.Parts[i].Text, ` error="true"`)
		}
	}
	res.Label = t.label()
	return res
}

// result is what the model is shown: text in an element that says whose it is,
// cut where it is too long, and images. It also returns how many look-alikes of
// our elements the text contained.
func (t *tool) result(r *mcp.CallToolResult) (metier.Result, int) {
	var text strings.Builder
	var images []model.Part
	var notes []string // ours, behind the server's text
	left := 0
	for _, p := range r.Content {
		switch p := p.(type) {
		case *mcp.TextContent:
			text.WriteString(p.Text + "\n")
		case *mcp.ImageContent:
			media := http.DetectContentType(p.Data) // what the server says of it may be anything
			if len(p.Data) > maxImage || len(images) == maxImages || !slices.Contains(imageTypes, media) {
				notes = append(notes, fmt.Sprintf("[an image of %d bytes is left out]", len(p.Data)))
				continue
			}
			images = append(images, model.Part{Kind: model.PartResult, Media: media, Data: p.Data})
		case *mcp.EmbeddedResource:
			if p.Resource != nil && p.Resource.Blob == nil {
				text.WriteString(p.Resource.Text + "\n")
				continue
			}
			left++
		case *mcp.ResourceLink:
			fmt.Fprintf(&text, "[link: %s]\n", p.URI)
		default:
			left++
		}
	}
	if text.Len() == 0 && r.StructuredContent != nil {
		if b, err := json.Marshal(r.StructuredContent); err == nil {
			text.Write(b)
		}
	}
	whole, attributes := strings.ToValidUTF8(text.String(), "\uFFFD"), ""
	content, more := t.c.head(whole, t.c.host.opts.Output)
	if r.IsError {
		attributes = ` error="true"`
	}
	if more {
		attributes += ` truncated="true"`
		notes = append(notes, fmt.Sprintf("[cut: the first %d of %d bytes are shown]", len(content), len(whole)))
	}
	if left > 0 {
		notes = append(notes, fmt.Sprintf("[%d parts that are neither text nor images are left out]", left))
	}
	shown, n := "", 0
	if content != "" {
		shown, n = t.wrapped(content, attributes)
	}
	res := metier.Text(shown + strings.Join(notes, "\n"))
	res.Parts = append(res.Parts, images...)
	if r.IsError {
		res.Code = "mcp_tool_error"
	}
	res.Label = t.label()
	return res, n
}
