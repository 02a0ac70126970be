package step

import (
	"fmt"
	"slices"

	"metier/event"
	"metier/model"
	"metier/policy"
	"metier/record"
)

// settle advances the run once no op of the turn is open. It collects the results into a tool
// message in the model's order, adopts a changed tool offer, and takes pending input. Then it
// starts the next turn, ends the run, or waits.
func (s *State) settle() {
	if s.Rules == 0 || s.Phase == Ended || s.Pending != nil || slices.ContainsFunc(s.Calls, func(o Op) bool { return o.open() }) {
		return
	}
	more := len(s.Calls) > 0
	s.flush()
	s.adopt()
	if s.Stopping == "turn" {
		s.Stopping, more = "", false
	}
	if s.Status == RunDone && len(s.Queue) > 0 { // said before the end was written
		s.Status, s.Answer, s.Output = "", record.Ref{}, record.Ref{}
	}
	switch {
	case s.Status != "":
		s.Phase = Ending
	case more || len(s.Queue) > 0:
		s.openTurn()
	default:
		s.Phase = Idle
	}
}

// adopt applies the tool offer that was held until the end of the turn.
func (s *State) adopt() {
	if s.NewOffer != nil {
		s.Offered, s.NewOffer = *s.NewOffer, nil
	}
}

// flush writes the tool message that answers the last assistant message, and records which active
// skills it carries.
func (s *State) flush() {
	if len(s.Calls) == 0 {
		return
	}
	m := Message{Role: model.RoleTool, Slot: policy.Slot{Role: policy.Context}}
	for i := range s.Calls {
		o := &s.Calls[i]
		m.Results = append(m.Results, Result{Call: o.ID, Tool: o.Tool, Code: o.Code, Content: o.Content})
		for j := range s.Active {
			if s.Active[j].Call == o.ID && o.Code == "" {
				s.Active[j].InMessage = len(s.Messages)
			}
		}
	}
	s.Messages = append(s.Messages, m)
	s.Calls = nil
}

// openTurn takes pending input and calls the model, unless a limit has been reached.
func (s *State) openTurn() {
	switch used := s.Usage.Total(); {
	case s.Spec.MaxTurns > 0 && s.Turn-s.First >= s.Spec.MaxTurns:
		s.finish(RunFailed, CodeTurnLimit)
	case s.Spec.MaxTokens > 0 && used >= s.Spec.MaxTokens:
		s.finish(RunFailed, CodeTokenBudget)
	}
	if s.Status != "" {
		s.Phase = Ending
		return
	}
	for _, in := range s.Queue {
		s.Messages = append(s.Messages, Message{Role: model.RoleUser, Input: in.ID, Slot: in.Slot, Content: in.Content})
	}
	s.Queue = nil
	s.Turn++
	s.Phase, s.ModelTry, s.CompactTry, s.Squeezed, s.Failures = Model, 0, 0, false, 0
	if upto := s.compactable(); upto > 0 {
		s.askCompact(upto)
	} else {
		s.askModel()
	}
}

func (s *State) askModel() {
	s.Pending = &Op{ID: fmt.Sprintf("t%d.m", s.Turn), Kind: KindModel, Status: Ready, Try: s.ModelTry}
}

// finish decides how the run ends. The first decision wins.
func (s *State) finish(status, code string) {
	if s.Status == "" {
		s.Status, s.Code = status, code
	}
}

func (s *State) claimModel(e event.ModelStarted) bool {
	p := s.pending(e.ID)
	if p == nil || p.Status != Ready || p.Try != e.Try || p.Kind == KindCheck {
		return false
	}
	p.Status = Started
	return true
}

func (s *State) replied(e event.ModelReplied) (bool, error) {
	p := s.pending(e.ID)
	if p == nil || p.Kind != KindModel || p.Status != Started {
		return false, nil
	}
	for i, c := range e.Calls {
		if want := fmt.Sprintf("t%d.c%d", s.Turn, i); c.ID != want {
			return false, fmt.Errorf("reply %s: call %d has the id %q, want %q", e.ID, i, c.ID, want)
		}
	}
	s.Pending, s.Phase = nil, Tools
	s.Usage = s.Usage.Add(e.Usage)
	s.LastInput = e.Usage.Input + e.Usage.CacheRead + e.Usage.CacheWrite
	s.Messages = append(s.Messages, Message{Role: model.RoleAssistant, Content: e.Message, Calls: append([]event.CallRef(nil), e.Calls...)})
	for i, c := range e.Calls {
		o := Op{ID: c.ID, Kind: KindTool, Status: Ready, Tool: c.Tool, Args: c.Args, Bad: c.Bad}
		if c.Child {
			o.Kind = KindChild
		}
		if s.Spec.MaxCalls > 0 && i >= s.Spec.MaxCalls {
			o.end(CodeCallLimit, record.Ref{})
		}
		s.Calls = append(s.Calls, o)
	}
	loop := s.repeats()
	switch {
	case s.Stopping != "":
		s.close(CodeCancelled)
	case loop:
		s.close(CodeLoop)
		s.finish(RunFailed, CodeLoop)
	case len(e.Calls) == 0:
		s.final(e)
	}
	return true, nil
}

// close ends the calls that have not started.
func (s *State) close(code string) {
	for i := range s.Calls {
		if o := &s.Calls[i]; o.Status == Ready || o.Status == Asking {
			o.end(code, record.Ref{})
		}
	}
}

// repeats counts the calls of this reply that the previous reply also made. It reports whether one
// of them was made Spec.MaxRepeats times in a row.
func (s *State) repeats() (loop bool) {
	before := s.Repeats
	s.Repeats = nil
	for i := range s.Calls {
		o := &s.Calls[i]
		if !o.open() {
			continue
		}
		same := func(r Repeat) bool { return r.Tool == o.Tool && r.Args == o.Args.Digest }
		at := slices.IndexFunc(s.Repeats, same)
		if at < 0 {
			at = len(s.Repeats)
			s.Repeats = append(s.Repeats, Repeat{Tool: o.Tool, Args: o.Args.Digest})
			if was := slices.IndexFunc(before, same); was >= 0 {
				s.Repeats[at].N = before[was].N
			}
		}
		s.Repeats[at].N++
		loop = loop || s.Spec.MaxRepeats > 0 && s.Repeats[at].N >= s.Spec.MaxRepeats
	}
	return loop
}

// final handles a reply without calls. If input arrived in the meantime, the reply becomes an
// intermediate answer and the run continues.
func (s *State) final(e event.ModelReplied) {
	if len(s.Queue) > 0 {
		return
	}
	switch model.Stop(e.Stop) {
	case model.StopRefusal:
		s.finish(RunFailed, string(model.CodeRefused))
		return
	case model.StopLength:
		s.finish(RunFailed, CodeReplyCut)
		return
	}
	s.Answer = e.Message
	if s.Spec.Schema.Digest == "" {
		s.finish(RunDone, "")
		return
	}
	s.Pending = &Op{ID: fmt.Sprintf("t%d.o", s.Turn), Kind: KindCheck, Status: Ready}
}

// checked applies the result of checking a final answer. The run ends, or the problem is sent to
// the model as a message and another turn begins.
func (s *State) checked(e event.OutputChecked) bool {
	p := s.pending(e.ID)
	if p == nil || p.Kind != KindCheck {
		return false
	}
	s.Pending = nil
	if e.Code == "" {
		s.Output = e.Output
		s.finish(RunDone, "")
		return true
	}
	s.Answer = record.Ref{}
	s.OutputTries++
	if s.OutputTries > s.Spec.OutputTries {
		s.finish(RunFailed, CodeOutputInvalid)
		return true
	}
	s.Messages = append(s.Messages, Message{Role: model.RoleUser, Slot: policy.Slot{Role: policy.Context, Origin: OriginCheck}, Content: e.Errors})
	s.adopt()
	s.openTurn()
	return true
}

// failed handles a model call or a compaction that failed.
func (s *State) failed(e event.ModelFailed) bool {
	p := s.pending(e.ID)
	if p == nil || p.Try != e.Try || p.Kind == KindCheck {
		return false
	}
	overflow := e.Code == string(model.CodeContextOverflow)
	switch {
	case s.Stopping != "":
		s.Pending = nil
	case overflow && p.Kind == KindModel:
		upto := s.cut()
		if s.Squeezed || upto == 0 {
			s.Pending = nil
			s.finish(RunFailed, e.Code)
			return true
		}
		s.Squeezed = true
		s.ModelTry++
		s.askCompact(upto)
	case e.Retry && !overflow && s.Failures < s.Spec.MaxRetries:
		s.Failures++
		s.retry()
	case p.Kind == KindCompact && !s.Squeezed: // it was only a precaution: go on without, as long as the prompt fits
		s.LastInput, s.Failures, s.CompactTry = 0, 0, p.Try+1
		s.askModel()
	default:
		s.Pending = nil
		s.finish(RunFailed, e.Code)
	}
	return true
}

// retry repeats the pending op.
func (s *State) retry() {
	s.Pending.again()
	if s.Pending.Kind == KindModel {
		s.ModelTry = s.Pending.Try
	} else {
		s.CompactTry = s.Pending.Try
	}
}
