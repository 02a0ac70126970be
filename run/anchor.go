package run

import (
	"context"
	"fmt"
	"path/filepath"

	"metier"
	"metier/event"
	"metier/policy"
	"metier/record"
)

// loose is the tail of a log that no recorded head covers.
type loose struct {
	after, last uint64 // sequence numbers: of the last entry that is covered, and of the last one
	bytes       int
	digest      string
	file        string // name in the run folder that holds the tail, "" when it was not moved
	claim       *fact  // the first call in it that may have acted
	misplaced   *Problem
}

// unanchored limits the log to the entries that a recorded head covers. If the folder is open for
// writing, the rest is moved to a separate file. A log that is trusted without heads is kept in
// full.
//
// metier records the head of each append before it writes the append, so a killed process leaves no
// tail. A power failure can leave one, but it holds nothing that was confirmed: heads are made
// durable before the log.
func (f *Folder) unanchored(ctx context.Context) error {
	if f.heads == nil {
		return nil
	}
	head, err := f.file.Head(ctx)
	if err != nil || head.Seq == 0 {
		return fault("open", f.dir, err)
	}
	covered, known, err := f.heads.Covered(ctx, f.name, f.file)
	if err != nil {
		return fault("open", f.dir, err)
	}
	f.noHead = !known
	switch {
	case covered == head, !known && f.readOnly:
		return nil
	case !f.readOnly && !f.opt.RequireHead:
		_, err := f.scanTail(ctx, covered, head)
		return err
	case !known:
		return f.stranger()
	case covered.Seq == 0:
		return &metier.Error{Op: "open", Path: f.dir, Kind: metier.Drift, Code: CodeHeads, Hint: "'metier audit verify " + f.id + "' shows what differs; start a new run",
			Err: fmt.Errorf("no entry of the log of run %q is covered by a recorded head", f.id)}
	}
	return f.setAside(ctx, covered, head)
}

func (f *Folder) stranger() error {
	return wrong(metier.Denied, CodeStranger, f.dir, "inspect it with 'metier runs show "+f.id+"'; if the workspace was moved or renamed, move it back; ResumeOptions.TrustRecord accepts it and everything it allows",
		"nothing on this machine shows that you wrote the record of run %q", f.id)
}

// scanTail reads what follows the last covered entry. If the folder is open for writing, a tail
// after the end of the run is an error.
func (f *Folder) scanTail(ctx context.Context, covered, head record.Head) (*loose, error) {
	t := &loose{after: covered.Seq, last: head.Seq}
	var o order
	for en, err := range f.file.Read(ctx, 1) {
		if err != nil {
			return nil, fault("open", f.dir, err)
		}
		e, _ := event.Decode(en) // nil where it cannot be read
		if code := o.next(e); code != "" && t.misplaced == nil {
			t.misplaced = misplacedAt(code, en)
		}
		if s, is := e.(event.ToolCallStarted); is && en.Seq > t.after && t.claim == nil && s.Effect != policy.Read {
			t.claim = &fact{en, e}
		}
	}
	if t.misplaced != nil && !f.readOnly {
		return nil, f.misplacedError(*t.misplaced)
	}
	return t, nil
}

// setAside reopens the log without its tail.
func (f *Folder) setAside(ctx context.Context, covered, head record.Head) error {
	t, err := f.scanTail(ctx, covered, head)
	if err != nil {
		return err
	}
	if err := f.file.Close(); err != nil {
		return fault("open", f.dir, err)
	}
	ro := f.recordOptions()
	ro.Upto = covered
	if !f.readOnly {
		t.file = fmt.Sprintf("events.unanchored-%d.jsonl", covered.Seq+1)
		ro.Aside = filepath.Join(f.dir, t.file)
	}
	if f.file, err = record.OpenFile(filepath.Join(f.dir, FileLog), ro); err != nil {
		return fault("open", f.dir, err)
	}
	if rec := f.file.Recovered(); rec != nil {
		t.bytes, t.digest = rec.Bytes, rec.Digest
	}
	f.log.FileLog, f.loose = f.file, t
	return nil
}

// recovered returns the log entry for a tail that was set aside. A call in the tail that may have
// acted counts as lost, so that the machine does not repeat it.
func (t *loose) recovered() event.RecordRecovered {
	e := event.RecordRecovered{Seq: t.after, Bytes: t.bytes, Digest: t.digest, Unanchored: int(t.last - t.after), Kept: t.file}
	if t.claim != nil {
		e.LostID, e.LostType = t.claim.ID, t.claim.Type
	}
	return e
}

// problem describes the tail to a reader.
func (t *loose) problem() Problem {
	return Problem{Code: CodeUnanchored, Seq: t.after + 1,
		Detail: fmt.Sprintf("no recorded head covers what follows entry %d (%d in all), so it does not count; resuming the run moves it to a file and continues without it", t.after, t.last-t.after)}
}

// order follows the entries of a log and finds those that are out of order. The zero value is the
// order of an empty log.
type order struct {
	begun bool // a run has started
	over  bool // the run or the session has ended
	done  bool // and nothing continues it: it was no run of an agent
}

// next checks the position of an event, which is nil if its type is unknown. It returns a problem
// code, or "". After the end of a run only two things may follow: a recovery, or a resume that
// continues the conversation.
func (o *order) next(e event.Event) string {
	if o.over {
		switch e.(type) {
		case event.RecordRecovered:
			return ""
		case event.SkillDrifted, event.RunResumed:
			if !o.done {
				o.over = false
				return ""
			}
		}
		return CodeAfterEnd
	}
	switch e.(type) {
	case event.RunStarted:
		o.begun = true
	case event.ModelStarted, event.ModelReplied, event.ModelFailed, event.ContextCompacted, event.OutputChecked, event.RunWaiting:
		if !o.begun {
			return CodeNoStart
		}
	case event.RunEnded:
		if !o.begun {
			return CodeNoStart
		}
		o.over = true
	case event.SessionEnded:
		o.over, o.done = true, true
	}
	return ""
}

// misplaced returns the first entry that is out of order, or nil.
func (h *history) misplaced() *Problem {
	var o order
	for _, f := range h.facts {
		if code := o.next(f.event); code != "" {
			return misplacedAt(code, f.Entry)
		}
	}
	return nil
}

func misplacedAt(code string, en record.Entry) *Problem {
	detail := fmt.Sprintf("entry %d (%s) comes after the end of the run: metier did not write it there", en.Seq, en.Type)
	if code == CodeNoStart {
		detail = fmt.Sprintf("entry %d (%s) belongs to a run whose start (run.begun) the log does not hold", en.Seq, en.Type)
	}
	return &Problem{Code: code, Seq: en.Seq, On: en.Type, Detail: detail}
}

func (f *Folder) misplacedError(p Problem) error {
	return wrong(metier.Drift, p.Code, f.dir, "'metier audit verify "+f.id+"' shows what else differs; the run cannot be resumed, start the task as a new run",
		"run %q: %s", f.id, p.Detail)
}
