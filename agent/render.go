package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"metier/agent/step"
	"metier/internal/digest"
	"metier/model"
	"metier/record"
)

// render makes the request of a turn from the state and the blobs: the system
// prompt, the tools, the instructions of skills that no message carries, then
// the conversation. The same state gives the same request. sum is the digest of
// a list with a line for each part that is sent, in order, with the digest of its
// content.
func (d *driver) render(ctx context.Context) (req model.Request, sum string, err error) {
	if err := d.loadOffer(ctx); err != nil {
		return req, "", err
	}
	req = model.Request{System: d.offer.system, Tools: slices.Clone(d.offer.tools), MaxTokens: d.Spec.ReplyTokens, Output: d.Spec.Output}
	head := []string{fmt.Sprintf("offer %s, reply of %d tokens, output %s", d.offer.of, req.MaxTokens, digest.Bytes(req.Output))}
	var skills strings.Builder
	for _, l := range d.st.Active {
		if l.InMessage < 0 {
			skills.WriteString(d.text(ctx, l.Text))
		}
	}
	head = append(head, fmt.Sprintf("skills %s, in system %t", digest.Bytes([]byte(skills.String())), d.Inject.InSystem()))
	var first []model.Message
	switch {
	case skills.Len() == 0:
	case d.Inject.InSystem():
		req.System += "\n" + skillsHeader + skills.String()
	default: // the text is context wherever it stands: a chat role is no policy role
		first = []model.Message{model.UserText(skillsHeader + skills.String())}
	}
	d.talk.begin(strings.Join(head, "\n"), first)
	if err := d.talk.add(ctx, d, d.st.Messages); err != nil {
		return req, "", err
	}
	req.Messages = slices.Clip(d.talk.sent)
	return req, d.talk.digest(), nil
}

// loadOffer reads what the model is shown, where that changed.
func (d *driver) loadOffer(ctx context.Context) error {
	if d.offer.of == d.st.Offered.Digest && d.offer.of != "" {
		return nil
	}
	o := offer{of: d.st.Offered.Digest, system: d.text(ctx, d.st.Offered.System)}
	if err := d.loadJSON(ctx, d.st.Offered.Tools, &o.tools); err != nil {
		return err
	}
	d.offer = o
	return nil
}

// skillsHeader begins the block of skills that were loaded before the task.
const skillsHeader = "Configured skills context:\n"

// resultNames is the line of a tool message.
func resultNames(m step.Message, sent model.Message) string {
	var name strings.Builder
	name.WriteString(string(m.Role))
	for i, r := range m.Results {
		fmt.Fprintf(&name, " %q %q %q %s", sent.Parts[i].WireID, sent.Parts[i].Tool, r.Code, r.Content.Digest)
		if sent.Parts[i].Text == erased {
			name.WriteString(" erased")
		}
	}
	return name.String()
}

// erased is what stands for content that is not there any more.
const erased = "[content erased]"

func (d *driver) message(ctx context.Context, m step.Message) (msg model.Message, err error) {
	if m.Content.Digest == "" {
		return model.UserText(recovered), nil
	}
	if err := d.loadJSON(ctx, m.Content, &msg); err != nil {
		return msg, fmt.Errorf("message of the conversation: %w", err)
	}
	msg.Role = m.Role
	return msg, nil
}

// resultText is what the model reads of a result's content.
func (d *driver) resultText(ctx context.Context, r record.Ref) string {
	b, err := d.Blobs.Open(ctx, r)
	if err != nil {
		return erased
	}
	return partsText(b)
}

// recovered is what the model reads of a call whose record was lost.
const recovered = "A part of this run's record was lost in a crash. A call you made just before may or may not have happened: look before you act again."

// results makes the tool message: one part for each call of the message
// before, with the provider's id of the call.
func (d *driver) results(ctx context.Context, m step.Message, asked model.Message) model.Message {
	out := model.Message{Role: model.RoleTool}
	calls := map[string]model.Part{}
	for _, c := range asked.Calls() {
		calls[c.Call] = c
	}
	for _, r := range m.Results {
		text := synthetic(r.Code)
		if r.Content.Digest != "" {
			text = d.resultText(ctx, r.Content)
		}
		p := model.Result(calls[r.Call], text, r.Code != "")
		p.Call = r.Call
		if p.Tool == "" {
			p.Tool = r.Tool
		}
		out.Parts = append(out.Parts, p)
	}
	return out
}

func partsText(b []byte) string {
	var parts []model.Part
	if json.Unmarshal(b, &parts) != nil {
		return string(b)
	}
	var s strings.Builder
	for _, p := range parts {
		s.WriteString(p.Text)
	}
	return s.String()
}

// synthetic returns the text of results that the step machine generates.
func synthetic(code string) string {
	switch code {
	case step.CodeCancelled:
		return "cancelled: the call was stopped before it ended"
	case step.CodeOutcomeUnknown:
		return "outcome_unknown: the call was interrupted; it may or may not have happened. Look before you act again."
	case step.CodeCallLimit:
		return "call_limit: too many calls in one reply; this one was not made"
	case step.CodeExpired:
		return "expired: no answer came in time; the call was not made"
	case step.CodeLoop:
		return "loop_detected: the same call was made several times in a row; this one was not made"
	case step.CodeLostTooOften:
		return "lost_too_often: the call was interrupted again and again and is given up"
	case "refused":
		return "refused: the call was not approved, so it was not made"
	}
	return code
}

// Preview returns the first request a run would send, and sends nothing.
func Preview(ctx context.Context, c Config) (model.Request, error) {
	if err := c.withDefaults(); err != nil {
		return model.Request{}, err
	}
	d := &driver{Config: c, flight: map[string]flight{}}
	if err := d.begin(ctx); err != nil {
		return model.Request{}, err
	}
	if _, _, err := d.offered(ctx); err != nil {
		return model.Request{}, err
	}
	req, _, err := d.render(ctx)
	return req, err
}
