package metier

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"metier/event"
	"metier/internal/digest"
	"metier/model"
	"metier/policy"
	"metier/record"
)

// result puts a result into the blobs and makes its event.
func (s *Session) result(ctx context.Context, c Call, canonical string, res Result, active []event.SkillRef) (Observation, event.ToolResult, error) {
	res.Parts = slices.Clone(res.Parts)
	for i := range res.Parts {
		res.Parts[i].Kind, res.Parts[i].Call, res.Parts[i].Tool, res.Parts[i].Error = model.PartResult, c.ID, canonical, res.Code != ""
	}
	parts, err := json.Marshal(s.recordedParts(res.Parts))
	if err != nil {
		return Observation{}, event.ToolResult{}, &Error{Op: "record", Kind: Internal, Code: "encode", Err: err}
	}
	kept, content, err := s.stored(ctx, parts)
	if err == nil && !bytes.Equal(kept, parts) {
		res.Parts = nil
		err = json.Unmarshal(kept, &res.Parts)
		nameCall(res.Parts, c.ID)
	}
	var detail record.Ref
	if err == nil && res.Detail != nil {
		res.Detail, detail, err = s.stored(ctx, res.Detail)
	}
	if err != nil {
		return Observation{}, event.ToolResult{}, s.fault("record", err)
	}
	return Observation{res}, event.ToolResult{ID: c.ID, Tool: canonical, Code: res.Code, Content: content, Detail: detail, Label: res.Label, Active: active}, nil
}

// recordedParts returns the parts of a result as they are recorded. In a session with
// Config.ToolsOnly they do not name the call, which the entry names: clients load the same skills and
// read the same files for days, and a result that repeats is then stored once.
func (s *Session) recordedParts(parts []model.Part) []model.Part {
	if !s.cfg.ToolsOnly {
		return parts
	}
	parts = slices.Clone(parts)
	nameCall(parts, "")
	return parts
}

// nameCall sets the call of the parts of a result.
func nameCall(parts []model.Part, id string) {
	for i := range parts {
		parts[i].Call = id
	}
}

// stored stores a part of a result, and returns it without secrets, as the record contains it. The caller
// gets nothing else, whatever it is: the driver of a model, or a server.
func (s *Session) stored(ctx context.Context, b []byte) ([]byte, record.Ref, error) {
	ref, err := s.cfg.Blobs.Put(ctx, "application/json", b)
	if err == nil && ref.Digest != digest.Bytes(b) {
		b, err = s.cfg.Blobs.Open(ctx, ref)
	}
	return b, ref, err
}

// recorded returns the observation of a call that already returned.
func (s *Session) recorded(ctx context.Context, id string) (Observation, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.refresh(ctx); err != nil {
		return Observation{}, false, err
	}
	if s.state.Calls[id].Returned == nil {
		return Observation{}, false, nil
	}
	o, err := s.replay(ctx, id)
	return o, true, err
}

// replay reads a recorded observation. The caller holds mu.
func (s *Session) replay(ctx context.Context, id string) (Observation, error) {
	ret := s.state.Calls[id].Returned
	res := Result{Code: ret.Code, Label: ret.Label}
	b, err := s.cfg.Blobs.Open(ctx, ret.Content)
	if err == nil {
		err = json.Unmarshal(b, &res.Parts)
		nameCall(res.Parts, id)
	}
	if err == nil && ret.Detail.Digest != "" {
		res.Detail, err = s.cfg.Blobs.Open(ctx, ret.Detail)
	}
	if err != nil {
		return Observation{}, s.fault("call", err)
	}
	return Observation{res}, nil
}

// failed is the result of an act nobody can vouch for: reads fail with their
// code, everything else ends with an unknown outcome.
func (s *Session) failed(err error, e policy.Effect) Result {
	if e == policy.Read {
		return failure(KindOf(err), CodeOf(err), s.mediated(err))
	}
	return failure(Unavailable, "outcome_unknown", "it may or may not have happened: "+s.mediated(err))
}

// mediated is what a model may read of a tool's error: an *Error is made to be read;
// another one, and a panic, may hold what the tool saw, as a result does.
func (s *Session) mediated(err error) string {
	if e, made := err.(*Error); (!made || e.Code == codePanic) && !s.release(policy.Label{}).Allowed() {
		return "the tool's message is withheld: it was not mediated"
	}
	return err.Error()
}

func (s *Session) release(l policy.Label) policy.Decision { return policy.Release(&s.cfg.Grants, l) }

const codePanic = "tool_panic"

// failure makes the result of a call that did not happen or did not work.
func failure(kind Kind, code, text string) Result {
	r := Text(code + ": " + text)
	r.Code, r.err = code, &Error{Kind: kind, Code: code, Err: errors.New(r.Parts[0].Text)}
	r.Label = policy.Label{Role: policy.Context, Origin: "metier", Mediated: true}
	return r
}

// Failure makes the result of a tool that could not do what was asked: code
// for machines, err for the model. The error's hint, if any, is appended.
func Failure(err error) Result {
	text := err.Error()
	if e, ok := errors.AsType[*Error](err); ok && e.Hint != "" {
		text += "; " + e.Hint
	}
	r := failure(KindOf(err), CodeOf(err), text)
	r.err = err
	return r
}
