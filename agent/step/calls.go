package step

import (
	"fmt"

	"metier/event"
	"metier/policy"
	"metier/record"
)

// claim marks a call as started. A second claim of the same try is rejected.
func (s *State) claim(e event.ToolCallStarted) bool {
	o := s.call(e.ID)
	if o == nil || o.Status != Ready || o.Try != e.Try {
		return false
	}
	o.Status, o.Effect, o.Claimed = Started, e.Effect, true
	return true
}

// asked defers a call until its question is answered. A tool call asks before it is claimed. Only a
// child run that is waiting for approval asks later.
func (s *State) asked(e event.ApprovalRequested) bool {
	o := s.call(e.Call)
	if o == nil || o.Status == Done || o.Status == Started && o.Kind != KindChild && e.Child == "" {
		return false
	}
	if o.Status == Started {
		o.Kind = KindChild
	}
	if o.Ask != nil && o.Ask.ID == e.ID || o.Answered != "" && o.Answered == e.ID {
		return false
	}
	e.Scopes = append([]string(nil), e.Scopes...)
	o.Status, o.Ask = Asking, &e
	return true
}

// answered applies the answer to a call's question. An answer with a wider scope than this call
// also releases the other calls that wait for the same facts.
func (s *State) answered(e event.ApprovalAnswered) bool {
	asks := func(o *Op) bool { return o.Status == Asking && o.Ask != nil && o.Ask.Binds == e.Binds }
	o := s.call(e.Call)
	if o == nil || !asks(o) || o.Ask.ID != e.ID {
		return false
	}
	for i := range s.Calls {
		switch c := &s.Calls[i]; {
		case c != o && (e.Scope == "once" || e.Scope == "" || !asks(c)):
		case e.Allow || c.Claimed && c.Kind == KindChild: // a child that is told no goes on
			c.Answered = c.Ask.ID
			c.again() // Session.Call looks again: what changed since asks again
		default:
			c.end(policy.CodeRefused, record.Ref{})
		}
	}
	return true
}

func (s *State) expired(e event.ApprovalExpired) bool {
	o := s.call(e.Call)
	if o == nil || o.Status != Asking || o.Ask == nil || o.Ask.ID != e.ID {
		return false
	}
	if e.Again {
		o.again()
		return true
	}
	o.end(CodeExpired, record.Ref{})
	return true
}

// returned ends a call. A denied call returns without having been claimed.
func (s *State) returned(id, code string, content record.Ref) bool {
	o := s.call(id)
	if o == nil || !o.open() {
		return false
	}
	o.end(code, content)
	return true
}

// childEnded counts what a child run used. The call itself ends with ToolResult.
func (s *State) childEnded(e event.ChildEnded) bool {
	o := s.call(e.ID)
	if o == nil || !o.open() || o.Kind != KindChild || o.Spent {
		return false
	}
	o.Spent = true
	s.Usage = s.Usage.Add(e.Usage)
	return true
}

// lost records that the outcome of a claimed op is unknown.
func (s *State) lost(e event.ToolCallLost) bool {
	if p := s.pending(e.ID); p != nil {
		if p.Status != Started || p.Try != e.Try {
			return false
		}
		p.Lost++
		switch {
		case s.Stopping != "":
			s.Pending = nil
		case p.Lost >= MaxLost:
			s.Pending = nil
			s.finish(RunFailed, CodeLostTooOften)
		default:
			s.retry()
		}
		return true
	}
	o := s.call(e.ID)
	if o == nil || o.Status != Started || o.Try != e.Try {
		return false
	}
	o.Lost++
	switch harmless := o.Kind == KindChild || o.Effect == policy.Read; {
	case !harmless && (o.Effect != policy.Write || s.Stopping != ""):
		o.end(CodeOutcomeUnknown, record.Ref{}) // an effect nobody named counts as the worst
	case s.Stopping != "":
		o.end(CodeCancelled, record.Ref{})
	case o.Lost >= MaxLost:
		o.end(CodeLostTooOften, record.Ref{})
	default:
		o.again()
	}
	return true
}

// stop ends the turn or the run as soon as the ops in flight have ended. Calls that have not
// started are canceled at once.
func (s *State) stop(e event.RunStopped) (bool, error) {
	if e.Scope != "turn" && e.Scope != "run" {
		return false, fmt.Errorf("stop: unknown scope %q, want turn or run", e.Scope)
	}
	switch {
	case s.Phase != Model && s.Phase != Tools && (s.Phase != Idle || e.Scope != "run"),
		s.Stopping == "run", s.Stopping == e.Scope:
		return false, nil
	}
	s.Stopping = e.Scope
	if e.Scope == "run" {
		switch e.Reason {
		case "", "cancel", CodeCancelled:
			s.finish(RunCancelled, CodeCancelled)
		case RunDenied:
			s.finish(RunDenied, RunDenied)
		default:
			s.finish(RunFailed, e.Reason)
		}
	}
	s.close(CodeCancelled)
	if s.Pending != nil && s.Pending.Status == Ready {
		s.Pending = nil
	}
	return true, nil
}

// ended closes the run. An end in the log always counts, whatever the machine was waiting for, and
// leaves a conversation that another run can continue.
func (s *State) ended(e event.RunEnded) bool {
	if s.Rules == 0 || s.Phase == Ended || s.Run != e.Run {
		return false
	}
	s.close(CodeCancelled)
	for i := range s.Calls {
		if o := &s.Calls[i]; o.open() && (o.Kind == KindChild || o.Effect == policy.Read) {
			o.end(CodeCancelled, record.Ref{})
		} else if o.open() {
			o.end(CodeOutcomeUnknown, record.Ref{})
		}
	}
	s.Pending = nil
	s.flush()
	s.adopt()
	s.Phase, s.Stopping, s.Status, s.Code = Ended, "", e.Status, e.Code
	return true
}
