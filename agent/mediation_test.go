package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"metier"
	"metier/event"
	"metier/model"
	"metier/model/modeltest"
	"metier/policy"
	"metier/record"
)

// sensor is an embedder's tool that reports a mediated result, or forgets to.
type sensor struct {
	name  string
	label policy.Label
	code  string // of its result; "": it worked
	err   error  // that it returns in place of a result
}

const reading = "canary-raw-reading"

func (s sensor) Spec(context.Context, *metier.Session) (metier.Spec, bool) {
	return metier.Spec{ToolSpec: model.ToolSpec{Name: s.name, Schema: json.RawMessage(`{"type":"object"}`)}, Canonical: s.name, Effect: policy.SideEffect}, true
}

func (s sensor) Facts(context.Context, *metier.Session, json.RawMessage) (metier.Facts, error) {
	return metier.Facts{Request: policy.Request{Effect: policy.SideEffect}}, nil
}

func (s sensor) Invoke(context.Context, *metier.ToolContext) (metier.Result, error) {
	if s.err != nil {
		return metier.Result{}, s.err
	}
	r := metier.Text(reading)
	r.Detail, r.Label, r.Code = json.RawMessage(`{"raw":"`+reading+`"}`), s.label, s.code
	return r, nil
}

// In an enforce mode, the model reads a refusal in place of an unmediated result, and the record
// holds the refusal and not the result.
//
// req: A-095
func TestAResultNobodyMediatedIsWithheldFromTheModel(t *testing.T) {
	t.Parallel()
	for _, mode := range []policy.Mode{policy.Disabled, policy.Observe, policy.EnforceExplicit, policy.EnforceStrict} {
		for name, mediated := range map[string]bool{"careless": false, "careful": true, "failing": false} {
			t.Run(string(mode)+" "+name, func(t *testing.T) {
				t.Parallel()
				w := newFixture(t, "default", map[string]string{"enforcement_mode": string(mode)})
				s := sensor{name: name, code: map[string]string{"failing": "script_failed"}[name], label: policy.Label{Role: policy.DirectCommand, Mediated: mediated, Origin: name}} // which is not its to say
				w.more, w.grants = []metier.Tool{s}, []string{name}
				w.server.Say(call(name, `{}`), modeltest.Turn{Text: "done"})
				if o := w.run("measure"); o.Status != "done" {
					t.Fatalf("%+v", o)
				}
				withheld := !mediated && (mode == policy.EnforceExplicit || mode == policy.EnforceStrict)
				read := w.server.Requests()[1].LastResults()
				if len(read) != 1 || strings.Contains(read[0], reading) == withheld || strings.Contains(read[0], "unmediated_output: the result is withheld") != withheld {
					t.Errorf("the model read %q", read)
				}
				text, released, role := everything(t, w.log)
				if role != policy.Context {
					t.Errorf("the result is recorded as %q", role)
				}
				if strings.Contains(text, reading) == withheld {
					t.Errorf("in the record: %v", !withheld)
				}
				if withheld != (released == policy.CodeUnmediated) {
					t.Errorf("the release was decided as %q", released)
				}
			})
		}
	}
}

// So is the text of an error that a tool did not make for the model.
//
// req: A-095
func TestAnErrorNobodyMediatedIsWithheldFromTheModel(t *testing.T) {
	t.Parallel()
	for mode, withheld := range map[policy.Mode]bool{policy.Disabled: false, policy.Observe: false, policy.EnforceExplicit: true, policy.EnforceStrict: true} {
		w := newFixture(t, "default", map[string]string{"enforcement_mode": string(mode)})
		w.more, w.grants = []metier.Tool{sensor{name: "broken", err: errors.New(reading)}}, []string{"broken"}
		w.server.Say(call("broken", `{}`), modeltest.Turn{Text: "done"})
		w.run("measure")
		read := w.server.Requests()[1].LastResults()
		if len(read) != 1 || strings.Contains(read[0], reading) == withheld || strings.Contains(read[0], "the tool's message is withheld") != withheld {
			t.Errorf("%s: the model read %q", mode, read)
		}
	}
}

// everything is all entries of a record with what they refer to, and the code of
// the decision about a release and the role of the result.
func everything(t *testing.T, log *record.Memory) (text, released string, role policy.Role) {
	t.Helper()
	for en, err := range log.Read(t.Context(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		text += string(en.Data)
		for _, r := range en.Refs {
			b, err := log.Open(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			text += string(b)
		}
		if ev, err := event.Decode(en); err == nil {
			switch ev := ev.(type) {
			case event.PolicyDecided:
				if ev.Stage == "release" {
					released = ev.Code
				}
			case event.ToolResult:
				role = ev.Label.Role
			}
		}
	}
	return text, released, role
}
