package step

import (
	"fmt"
	"strings"
	"unicode"

	"metier/event"
	"metier/model"
	"metier/policy"
	"metier/record"
)

// recovered handles the loss of entries that are known to have been in the log. If the claim of a
// call is among them, the call looks ready but may have acted. It must not be made again, so it
// ends as outcome_unknown. If one entry was lost, that is the call it names. If several or an
// unknown number were lost, it is every call of the turn that looks unclaimed. If the lost entry
// names a call with no request and no result in the log, a message tells the model.
func (s *State) recovered(e event.RecordRecovered) bool {
	if e.LostID == "" && e.LostType == "" {
		return false
	}
	isCall := e.LostType == "" || strings.HasPrefix(e.LostType, "call.") || e.LostType == event.ChildEnded{}.Type()
	only := e.LostSeq != 0 && e.LostSeq == e.Seq+1
	if only && !isCall {
		return false
	}
	lost := callOf(e.LostID)
	used, known := false, false
	for i := range s.Calls {
		o := &s.Calls[i]
		named := lost == o.ID
		known = known || named
		if (o.Status == Ready || o.Status == Asking) && (named || !only) {
			o.end(CodeOutcomeUnknown, record.Ref{})
			used = true
		}
	}
	if at, _ := s.result(lost); lost == "" || known || !isCall || at >= 0 {
		return used
	}
	return s.report(fmt.Sprintf("%s:%d:%s", OriginRecovery, e.Seq, lost)) || used
}

// report adds a message without content where the model reads it next. It does not start a turn.
func (s *State) report(id string) bool {
	slot := policy.Slot{Role: policy.Context, Origin: OriginRecovery}
	if s.said(id) {
		return false
	}
	if len(s.Calls) > 0 {
		return s.input(event.Input{ID: id, Slot: slot})
	}
	s.Messages = append(s.Messages, Message{Role: model.RoleUser, Input: id, Slot: slot})
	return true
}

// callOf returns the id of the model's call named by an entry id such as "started:t3.c1#0", or ""
// if the entry id names no call.
func callOf(entry string) string {
	words := strings.FieldsFunc(entry, func(r rune) bool {
		return r != '.' && r != '_' && r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	for _, w := range words {
		turn, call, ok := strings.Cut(w, ".")
		if ok && numbered(turn, 't') && numbered(call, 'c') {
			return w
		}
	}
	return ""
}

// numbered reports whether s is the letter followed only by digits.
func numbered(s string, letter byte) bool {
	return len(s) > 1 && s[0] == letter && strings.Trim(s[1:], "0123456789") == ""
}
