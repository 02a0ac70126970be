package subagent

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"metier"
	"metier/event"
	"metier/internal/argschema"
	"metier/model"
	"metier/policy"
	"metier/settings"
)

//go:embed describe_handle.md
var handleText string

// handleTool reads the whole report of a child that ended: what was cut from
// the result of its call.
type handleTool struct{ children Runner }

// handleWindow is how many bytes of a report one call shows.
const handleWindow = 16 << 10

type handleArgs struct {
	Handle string `json:"handle"`
	From   int    `json:"from,omitempty"`
}

func (handleTool) Spec(context.Context, *metier.Session) (metier.Spec, bool) {
	schema := argschema.Object(map[string]any{
		"handle": argschema.Text("The handle from the result."),
		"from":   map[string]any{"type": "integer", "minimum": 0, "description": "First byte to show."},
	}, "handle")
	return metier.Spec{Canonical: settings.ToolDescribeHandle, Effect: policy.Read,
		ToolSpec: model.ToolSpec{Name: settings.ToolDescribeHandle, Description: strings.TrimSpace(handleText), Schema: schema}}, true
}

func (handleTool) args(raw json.RawMessage) (a handleArgs, err error) {
	if err = metier.DecodeArgs(raw, &a); err == nil && (a.Handle == "" || a.Handle != event.ChildName(a.Handle) || a.From < 0) {
		err = metier.InvalidArguments("handle is missing or invalid, or from is negative")
	}
	return a, err
}

func (t handleTool) Facts(_ context.Context, _ *metier.Session, raw json.RawMessage) (metier.Facts, error) {
	_, err := t.args(raw)
	return metier.Facts{Request: policy.Request{Effect: policy.Read}}, err
}

func (t handleTool) Invoke(ctx context.Context, x *metier.ToolContext) (metier.Result, error) {
	a, err := t.args(x.Call().Args)
	if err != nil {
		return metier.Result{}, err
	}
	o, err := t.children.Ended(ctx, a.Handle)
	if err != nil {
		return metier.Failure(err), nil
	}
	text := whole(o)
	if a.From > len(text) {
		return metier.Failure(metier.InvalidArguments("the report has %d bytes", len(text))), nil
	}
	from := a.From
	for from < len(text) && !utf8.RuneStart(text[from]) {
		from++
	}
	rest, note := text[from:], ""
	if len(rest) > handleWindow {
		rest = strings.ToValidUTF8(rest[:handleWindow], "")
		note = fmt.Sprintf("The report continues at byte %d of %d.\n", from+len(rest), len(text))
	}
	r := metier.Text(element(a.Handle, "", rest) + note)
	r.Label = label(a.Handle)
	return r, nil
}
