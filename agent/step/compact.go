package step

import (
	"fmt"

	"metier/event"
	"metier/model"
	"metier/policy"
)

// Defaults of a run: compaction begins when a request used CompactAt of the window, and keeps the
// last KeepLast messages.
const (
	CompactAt = 0.75
	KeepLast  = 6
)

// compactable returns how many messages to compact before the next model call, or 0: the last call
// has to have used Spec.CompactAt tokens.
func (s *State) compactable() int {
	if s.Spec.CompactAt <= 0 || s.LastInput < int64(s.Spec.CompactAt) {
		return 0
	}
	return s.cut()
}

func (s *State) askCompact(upto int) {
	s.Pending = &Op{ID: fmt.Sprintf("t%d.k", s.Turn), Kind: KindCompact, Status: Ready, Try: s.CompactTry, Upto: upto}
}

// cut returns how many of the oldest messages a compaction may replace, or 0 if compaction would
// gain nothing. The last Spec.KeepLast messages (at least one) are kept, and a tool message stays
// with the assistant message it answers.
func (s *State) cut() int {
	upto := len(s.Messages) - max(s.Spec.KeepLast, 1)
	for upto > 0 && s.Messages[upto].Role == model.RoleTool {
		upto--
	}
	if upto < 2 {
		return 0
	}
	return upto
}

// compacted replaces the oldest messages with their summary. Active skills whose text was in those
// messages are rendered from the state from now on.
func (s *State) compacted(e event.ContextCompacted) bool {
	p := s.pending(e.ID)
	if p == nil || p.Kind != KindCompact || p.Status != Started || p.Upto != e.Upto || e.Upto > len(s.Messages) {
		return false
	}
	s.Usage = s.Usage.Add(e.Usage)
	rest := s.Messages[e.Upto:]
	s.Messages = append([]Message{{Role: model.RoleUser, Slot: policy.Slot{Role: policy.Context, Origin: OriginSummary}, Content: e.Summary}}, rest...)
	for i := range s.Active {
		if at := &s.Active[i].InMessage; *at < e.Upto {
			*at = -1
		} else {
			*at -= e.Upto - 1
		}
	}
	s.Pending, s.LastInput, s.Failures = nil, 0, 0
	s.CompactTry = p.Try + 1
	if s.Stopping == "" {
		s.askModel()
	}
	return true
}
