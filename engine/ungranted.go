package engine

import (
	"context"
	"encoding/json"
	"fmt"

	"metier"
	"metier/model"
	"metier/policy"
	"metier/settings"
)

// withheldTool represents a tool that the launch does not grant and for which there is no sandbox.
// It is not offered to the model, and a call of it is denied by name rather than as unknown.
type withheldTool struct{ name, canonical string }

func withheld(scripts string) []metier.Tool {
	out := []metier.Tool{withheldTool{settings.ToolBash, settings.ToolBash}}
	if scripts != "" {
		out = append(out, withheldTool{scripts, settings.ToolRunSkillScript})
	}
	return out
}

func (t withheldTool) Spec(context.Context, *metier.Session) (metier.Spec, bool) {
	return metier.Spec{ToolSpec: model.ToolSpec{Name: t.name}, Canonical: t.canonical, Effect: policy.SideEffect}, false
}

func (withheldTool) Facts(context.Context, *metier.Session, json.RawMessage) (metier.Facts, error) {
	return metier.Facts{Request: policy.Request{Effect: policy.SideEffect}}, nil
}

// Invoke implements metier.Tool. Policy denies the call before it gets here.
func (t withheldTool) Invoke(context.Context, *metier.ToolContext) (metier.Result, error) {
	return metier.Failure(&metier.Error{Op: "call", Kind: metier.Denied, Code: policy.CodeToolNotAllowed, Err: fmt.Errorf("there is nothing for %s to run in", t.name)}), nil
}
