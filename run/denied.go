package run

import (
	"iter"

	"metier/event"
	"metier/policy"
)

// Denied counts the calls that were denied by policy rules or by the user's answer to a question.
// It includes those of subagents that ended. Malformed calls are errors of the model, and scripts
// that cannot run are failures. Neither is counted.
func Denied(events iter.Seq[event.Event]) []event.Denial {
	out := []event.Denial{}
	tools, counted := map[string]string{}, map[string]bool{}
	add := func(d event.Denial) {
		for i := range out {
			if out[i].Tool == d.Tool && out[i].Code == d.Code {
				out[i].Count += d.Count
				return
			}
		}
		out = append(out, d)
	}
	one := func(call, code string) {
		if !counted[call] {
			counted[call] = true
			add(event.Denial{Tool: tools[call], Code: code, Count: 1})
		}
	}
	for e := range events {
		switch e := e.(type) {
		case event.PolicyDecided:
			tools[e.Call] = e.Tool
			if e.Outcome == policy.Deny && (e.Stage == "call" || e.Stage == "program") && e.Code != policy.CodeInvalidCall && !e.Fault {
				one(e.Call, e.Code)
			}
		case event.ApprovalAnswered:
			if !e.Allow {
				one(e.Call, policy.CodeRefused)
			}
		case event.ChildEnded:
			for _, d := range e.Denied {
				add(d)
			}
		}
	}
	return out
}

// events returns the log's events that this build knows, in order.
func (h *history) events() iter.Seq[event.Event] {
	return func(yield func(event.Event) bool) {
		for _, f := range h.facts {
			if f.event != nil && !yield(f.event) {
				return
			}
		}
	}
}
