package agent

import (
	"context"
	"slices"

	"metier/agent/step"
	"metier/event"
	"metier/model"
	"metier/policy"
)

// settle records a result for each call that the machine ended without one, in
// the order of the calls: one past a limit, cancelled, given up, or of unknown
// outcome. Every call that a model asked for so has one result in the log. A call
// in flight is left alone until it has come back.
func (d *driver) settle(ctx context.Context) error {
	for len(d.asked) > 0 {
		c := d.asked[0]
		if d.flies(c.ID) {
			return nil
		}
		code, over, known := d.ended(c.ID)
		if !known {
			d.asked = d.asked[1:] // compacted away in a record of an older version
			continue
		}
		if !over {
			return nil
		}
		content, err := d.putJSON(ctx, []model.Part{{Kind: model.PartResult, Call: c.ID, Tool: c.Tool, Error: true, Text: synthetic(code)}})
		if err != nil {
			return err
		}
		ret := event.ToolResult{ID: c.ID, Tool: c.Tool, Code: code, Content: content, Active: d.active(),
			Label: policy.Label{Role: policy.Context, Origin: "metier", Mediated: true}}
		if err := d.append(ctx, ret); err != nil {
			return err
		}
	}
	return nil
}

// ended returns the code of a call and whether the machine waits for it no
// longer. known is false where the machine has no such call.
func (d *driver) ended(id string) (code string, over, known bool) {
	for _, o := range d.st.Calls {
		if o.ID == id {
			return o.Code, o.Status == step.Done, true
		}
	}
	for _, m := range slices.Backward(d.st.Messages) {
		for _, r := range m.Results {
			if r.Call == id {
				return r.Code, true, true
			}
		}
	}
	return "", false, false
}

// flies reports whether a call is in flight.
func (d *driver) flies(id string) bool {
	for _, f := range d.flight {
		if nameOf(f.of) == id {
			return true
		}
	}
	return false
}

// nameOf is the ID of the call that an action makes, or "".
func nameOf(a step.Action) string {
	switch a := a.(type) {
	case step.CallTool:
		return a.ID
	case step.Spawn:
		return a.ID
	}
	return ""
}

// recall cancels the calls in flight that the machine waits for no longer and
// that have no result: they were not claimed when the run was stopped. It reports
// whether there are any.
func (d *driver) recall() bool {
	late := false
	for _, f := range d.flight {
		id := nameOf(f.of)
		if id == "" || !slices.ContainsFunc(d.asked, func(c event.CallRef) bool { return c.ID == id }) {
			continue
		}
		if _, over, _ := d.ended(id); over {
			late = true
			f.cancel()
		}
	}
	return late
}

// active names the active skills, as every event of a call does.
func (d *driver) active() (out []event.SkillRef) {
	for _, l := range d.st.Active {
		out = append(out, event.SkillRef{ID: l.SkillID, Name: l.Name, Digest: l.Digest, Tree: l.Tree})
	}
	return out
}
