package run

import (
	"fmt"

	"metier/event"
)

// results returns a problem for each call requested by a model that does not have exactly one
// result before the next turn or the end. Runs written by an earlier version, whose record does not
// guarantee this, are skipped.
func (h *history) results() (found []Problem) {
	promised := false
	var asked []event.CallRef
	returned := map[string]int{}
	check := func(seq uint64) {
		for _, c := range asked {
			if returned[c.ID] == 0 {
				found = append(found, Problem{Code: CodeNoResult, Seq: seq, On: c.ID, Detail: fmt.Sprintf("the model called %s, and the run continued without a result", c.Tool)})
			}
		}
		asked = nil
	}
	for _, f := range h.facts {
		switch e := f.event.(type) {
		case event.RunStarted:
			promised, asked = e.Results, nil
		case event.ModelReplied:
			check(f.Seq)
			if promised {
				asked = e.Calls
			}
		case event.ToolResult:
			if returned[e.ID]++; promised && returned[e.ID] > 1 {
				found = append(found, Problem{Code: CodeTwoResults, Seq: f.Seq, On: e.ID, Detail: fmt.Sprintf("a call of %s has a result already", e.Tool)})
			}
		case event.RunEnded:
			check(f.Seq)
		}
	}
	return found
}
