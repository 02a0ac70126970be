package step

import (
	"fmt"

	"metier/event"
	"metier/record"
)

// Action is one thing the driver has to do. Key stays the same while the action is outstanding and
// is unique within the log. A driver performs each key once.
type Action interface{ Key() string }

// CallModel requests one model reply. The driver renders the request from the state, claims it with
// event.ModelStarted, and ends it with Replied or Failed.
type CallModel struct {
	ID  string
	Try int
}

// CallTool requests one tool call. Session.Call decides and claims it. It ends with ToolResult or
// is deferred by ApprovalRequested. Bad means that the arguments are not JSON.
type CallTool struct {
	ID   string
	Try  int
	Tool string
	Args record.Ref
	Bad  bool
}

// Spawn requests a call that is a child run. Session.Call decides and claims it. It ends with
// ToolResult, preceded by ChildEnded, which reports what the child used. ApprovalRequested defers
// it while the child waits for approval. A try above 0 resumes the same child.
type Spawn CallTool

// Compact requests a summary of the messages before Upto. It is claimed by ModelStarted and ends
// with Compacted or Failed.
type Compact struct {
	ID   string
	Try  int
	Upto int
}

// Check requests that Answer, the blob of the final reply, be validated against Schema. It has no
// side effects, needs no claim, and ends with Checked.
type Check struct {
	ID     string
	Answer record.Ref
	Schema record.Ref
}

// Await reports that a call waits for an answer. It ends with ApprovalAnswered or ApprovalExpired.
type Await struct {
	ID       string
	Try      int
	Question event.ApprovalRequested
}

// Cancel asks the driver to stop working on an op and to record how the op actually ended:
// ToolResult, ModelFailed or ToolCallLost.
type Cancel struct {
	ID  string
	Try int
}

// End requests the Ended event. Answer is the blob of the final reply's model.Message. Output is
// the blob of the structured result.
type End struct {
	Run    string
	Status string
	Code   string
	Answer record.Ref
	Output record.Ref
}

// Key is ID#Try.
func (a CallModel) Key() string { return key(a.ID, a.Try) }

// Key is ID#Try.
func (a CallTool) Key() string { return key(a.ID, a.Try) }

// Key is ID#Try.
func (a Spawn) Key() string { return key(a.ID, a.Try) }

// Key is ID#Try.
func (a Compact) Key() string { return key(a.ID, a.Try) }

// Key is ID#0.
func (a Check) Key() string { return key(a.ID, 0) }

// Key is ID#Try?QUESTION. It differs from the key of the call and from the key of a changed
// question.
func (a Await) Key() string { return key(a.ID, a.Try) + "?" + a.Question.ID }

// Key is ID#Try!.
func (a Cancel) Key() string { return key(a.ID, a.Try) + "!" }

// Key names the run and how it ends.
func (a End) Key() string { return "end:" + a.Run + ":" + a.Status + ":" + a.Answer.Digest }

func key(id string, try int) string { return fmt.Sprintf("%s#%d", id, try) }

// Next lists all outstanding actions: ops that have not been claimed, ops to cancel, and questions
// waiting for an answer. The pending op comes first, then the calls in the model's order. Next does
// not change the state.
func Next(s *State) []Action {
	var out []Action
	if p := s.Pending; p != nil {
		switch {
		case p.Status == Started && s.Stopping != "":
			out = append(out, Cancel{p.ID, p.Try})
		case p.Status != Ready:
		case p.Kind == KindModel:
			out = append(out, CallModel{p.ID, p.Try})
		case p.Kind == KindCompact:
			out = append(out, Compact{p.ID, p.Try, p.Upto})
		case p.Kind == KindCheck:
			out = append(out, Check{p.ID, s.Answer, s.Spec.Schema})
		}
	}
	for i := range s.Calls {
		switch o := &s.Calls[i]; {
		case o.Status == Started && s.Stopping != "":
			out = append(out, Cancel{o.ID, o.Try})
		case o.Status == Asking && o.Ask != nil:
			out = append(out, Await{o.ID, o.Try, *o.Ask})
		case o.Status == Ready && o.Kind == KindChild:
			out = append(out, Spawn{o.ID, o.Try, o.Tool, o.Args, o.Bad})
		case o.Status == Ready:
			out = append(out, CallTool{o.ID, o.Try, o.Tool, o.Args, o.Bad})
		}
	}
	if s.Phase == Ending {
		out = append(out, End{s.Run, s.Status, s.Code, s.Answer, s.Output})
	}
	return out
}

// Waiting reports whether the run waits only for answers, so that the process may exit.
func Waiting(s *State) bool {
	if s.Pending != nil {
		return false
	}
	asking := false
	for i := range s.Calls {
		switch s.Calls[i].Status {
		case Asking:
			asking = true
		case Done:
		default:
			return false
		}
	}
	return asking
}

// Interrupted returns an event for each claimed op. A driver that folds the log after a crash
// appends all of them, because no process is working on those ops anymore.
func Interrupted(s *State) []event.ToolCallLost {
	var out []event.ToolCallLost
	if p := s.Pending; p != nil && p.Status == Started {
		out = append(out, event.ToolCallLost{ID: p.ID, Try: p.Try})
	}
	for i := range s.Calls {
		if o := &s.Calls[i]; o.Status == Started {
			out = append(out, event.ToolCallLost{ID: o.ID, Try: o.Try})
		}
	}
	return out
}
