package step

import (
	"errors"
	"fmt"
	"slices"

	"metier/event"
)

// ErrRules is returned, wrapped, by Apply when the run began under a rules version that this build
// does not support.
var ErrRules = errors.New("the run has other rules")

// Apply folds one event into the state. It returns used == false and leaves the state unchanged if
// the machine does not handle the event, or if the event is late, duplicated, or already decided.
// The state is also unchanged on error: an unsupported rules version or an event that contradicts
// the state.
//
// Input, ToolsOffered and SkillActivated also count before a run begins, so that a session can be
// prepared in advance.
func (s *State) Apply(e event.Event) (used bool, err error) {
	if s.Rules != 0 && s.Rules != Rules {
		return false, fmt.Errorf("%w: it began with %d, this build has %d: use the version of metier that began it", ErrRules, s.Rules, Rules)
	}
	used, err = s.fold(e)
	if used && err == nil {
		s.settle()
	}
	return used, err
}

func (s *State) fold(e event.Event) (bool, error) {
	switch e := e.(type) {
	case event.RunStarted:
		return s.begin(e)
	case event.RunLimited:
		return s.limit(e), nil
	case event.Input:
		return s.input(e), nil
	case event.ToolsOffered:
		return s.offer(e), nil
	case event.SkillActivated:
		return s.activate(e), nil
	case event.RecordRecovered:
		return s.recovered(e), nil
	case event.ModelStarted:
		return s.claimModel(e), nil
	case event.ModelReplied:
		return s.replied(e)
	case event.ModelFailed:
		return s.failed(e), nil
	case event.ContextCompacted:
		return s.compacted(e), nil
	case event.OutputChecked:
		return s.checked(e), nil
	case event.ToolCallStarted:
		return s.claim(e), nil
	case event.ApprovalRequested:
		return s.asked(e), nil
	case event.ApprovalAnswered:
		return s.answered(e), nil
	case event.ApprovalExpired:
		return s.expired(e), nil
	case event.ToolResult:
		return s.returned(e.ID, e.Code, e.Content), nil
	case event.ChildEnded:
		return s.childEnded(e), nil
	case event.ToolCallLost:
		return s.lost(e), nil
	case event.RunStopped:
		return s.stop(e)
	case event.RunEnded:
		return s.ended(e), nil
	case event.SessionOpened, event.SkillsDiscovered, event.ResourcesIndexed, event.PolicyDecided, event.ResourceRead, event.FileRead,
		event.Staged, event.ScriptExecuted, event.CommandExecuted, event.PackagesRequested, event.PageFetched,
		event.SkillDrifted, event.SkillSuspected, event.CatalogSent, event.RunResumed, event.RunWaiting, event.Note, event.SessionEnded:
		return false, nil // facts for others; a drift that reloads a skill comes with Activated
	}
	return false, fmt.Errorf("the step machine does not know the event %T", e)
}

// begin starts a run. If the log already has a run that ended, the new run continues its
// conversation, skills, and turn numbering.
func (s *State) begin(e event.RunStarted) (bool, error) {
	if e.Rules != Rules {
		return false, fmt.Errorf("%w: it began with %d, this build has %d: use the version of metier that began it", ErrRules, e.Rules, Rules)
	}
	if s.Rules != 0 && (s.Phase != Ended || s.Run == e.Run) {
		return false, nil
	}
	*s = State{Rules: Rules, Run: e.Run, Turn: s.Turn, First: s.Turn, Phase: Idle, Spec: e, Messages: s.Messages,
		Active: s.Active, Offered: s.Offered, NewOffer: s.NewOffer, Queue: s.Queue, LastInput: s.LastInput}
	return true, nil
}

// limit changes the limits of the current run. They are checked from the next turn on.
func (s *State) limit(e event.RunLimited) bool {
	was := s.Spec
	if s.Rules == 0 || s.Phase == Ended || e.Run != s.Run {
		return false
	}
	if e.MaxTurns > 0 {
		s.Spec.MaxTurns = e.MaxTurns
	}
	if e.MaxTokens > 0 {
		s.Spec.MaxTokens = e.MaxTokens
	}
	return s.Spec != was
}

func (s *State) input(e event.Input) bool {
	if slices.ContainsFunc(s.Queue, func(in event.Input) bool { return in.ID == e.ID }) || e.ID != "" && s.said(e.ID) {
		return false
	}
	s.Queue = append(s.Queue, e)
	return true
}

// said reports whether the input with this id is already a message.
func (s *State) said(id string) bool {
	return slices.ContainsFunc(s.Messages, func(m Message) bool { return m.Input == id })
}

// offer sets the tools shown to the model. If the current turn's model call has been sent, the
// change is held until the turn ends.
func (s *State) offer(e event.ToolsOffered) bool {
	newest := &s.Offered
	if s.NewOffer != nil {
		newest = s.NewOffer
	}
	if newest.Digest == e.Digest {
		return false
	}
	e.Names = append([]string(nil), e.Names...)
	if s.shown() {
		s.NewOffer = &e
		return true
	}
	s.Offered, s.NewOffer = e, nil
	return true
}

// shown reports whether the current turn's model call has been sent.
func (s *State) shown() bool {
	switch s.Phase {
	case Tools:
		return true
	case Model:
		return s.ModelTry > 0 || s.Pending == nil || s.Pending.Kind == KindCheck ||
			s.Pending.Kind == KindModel && s.Pending.Status == Started
	}
	return false
}

// activate records an active skill. If a call loaded the skill, the call's result carries the
// instructions. The driver renders the instructions of all other skills.
func (s *State) activate(e event.SkillActivated) bool {
	l := Loaded{SkillID: e.SkillID, Name: e.Name, Digest: e.Hash, Tree: e.Tree, Text: e.Text, Call: e.Call, InMessage: s.carrier(e.Call)}
	for i := range s.Active {
		if s.Active[i].SkillID != l.SkillID {
			continue
		}
		was := s.Active[i]
		if l.InMessage < 0 && was.Text == l.Text {
			l.InMessage = was.InMessage // an older message carries the same text
		}
		if was == l {
			return false
		}
		s.Active[i] = l
		return true
	}
	s.Active = append(s.Active, l)
	return true
}

// carrier returns the index of the message with the call's result, or -1 if the call has no
// successful result.
func (s *State) carrier(call string) int {
	if at, code := s.result(call); code == "" {
		return at
	}
	return -1
}

// result returns the index of the message with the call's result, or -1, and the result's code.
func (s *State) result(call string) (at int, code string) {
	for i := len(s.Messages) - 1; i >= 0 && call != ""; i-- {
		for _, r := range s.Messages[i].Results {
			if r.Call == call {
				return i, r.Code
			}
		}
	}
	return -1, ""
}
