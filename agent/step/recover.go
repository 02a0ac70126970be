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

// recovered takes the news that entries of the log are gone which are known to
// have been there. A call whose claim is among them looks ready and may have
// acted, so it must not be made again: it ends as outcome_unknown. With one
// entry lost that is the call it names; with more, or an unknown number, it is
// every call of the turn that looks unclaimed. When the lost entry names a call
// of which the log holds no request and no result, the model is told by a message.
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

// report puts a message without content where the model reads it next. It opens
// no turn by itself.
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

// callOf returns the id of the model's call that the id of an entry names
// ("started:t3.c1#0"), or "" when it names none.
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

// numbered reports whether s is the letter and then only digits.
func numbered(s string, letter byte) bool {
	return len(s) > 1 && s[0] == letter && strings.Trim(s[1:], "0123456789") == ""
}
