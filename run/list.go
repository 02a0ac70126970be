package run

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"metier"
	"metier/event"
	"metier/internal/distinct"
	"metier/internal/parallel"
	"metier/model"
	"metier/record"
)

// Summary is one line of `runs list`. Problem is "" for a readable run. Otherwise it is the reason,
// and the other fields hold what could be determined.
type Summary struct {
	ID        string   `json:"id"`
	Status    string   `json:"status"`
	Code      string   `json:"code"`
	Model     string   `json:"model"`
	StartedAt string   `json:"startedAt"`
	UpdatedAt string   `json:"updatedAt"`
	Turns     int      `json:"turns"`
	Tokens    Tokens   `json:"tokens"`
	CostUSD   *float64 `json:"costUSD"`
	Questions int      `json:"openQuestions"`
	Task      string   `json:"task"`   // start of the first message, on one line
	Skills    []string `json:"skills"` // names of the skills that were loaded
	Problem   string   `json:"problem"`

	started time.Time // for an unreadable run, from what is left of it
}

// maxRuns limits a list to the last entries of the folder. If there are more, one extra Summary with
// the code list_truncated reports it.
const maxRuns = 10_000

// List returns every folder below root that is a run or looks like one, by id. A folder that cannot
// be read is listed with its problem. With a StateDir, so is one whose log does not match its recorded
// heads. If root does not exist, the list is empty.
func List(ctx context.Context, root string, o *Options) ([]Summary, error) {
	out := []Summary{}
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return nil, fault("list", root, err)
	}
	more := len(entries) > maxRuns
	entries = slices.DeleteFunc(entries[max(0, len(entries)-maxRuns):], func(e fs.DirEntry) bool {
		return e.Name()[0] == '.' && !e.IsDir() // droppings of a file browser
	})
	out = make([]Summary, len(entries), len(entries)+1)
	parallel.Each(ctx, len(entries), 1, func(i int) { out[i] = summarize(ctx, root, entries[i].Name(), o) })
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if more {
		out = append(out, Summary{Code: CodeOverflow, Problem: CodeOverflow + ": the folder has more entries than are listed; move old runs elsewhere"})
	}
	return out, nil
}

func summarize(ctx context.Context, root, id string, o *Options) Summary {
	s := Summary{ID: id, Skills: []string{}}
	fail := func(err error) Summary {
		s.started = startedAt(root, id)
		s.Code, s.Problem = metier.CodeOf(err), err.Error()
		if e, ok := errors.AsType[*metier.Error](err); ok && e.Hint != "" {
			s.Problem += "; " + e.Hint
		}
		return s
	}
	f, err := Look(root, id, o)
	if err != nil {
		return fail(err)
	}
	defer f.Close()
	st, err := f.State(ctx)
	if err != nil {
		return fail(err)
	}
	s = Summary{ID: id, Status: st.Status, Code: st.Code, Model: st.Model, StartedAt: st.StartedAt, UpdatedAt: st.UpdatedAt, Turns: st.Turns,
		Tokens: st.Tokens, CostUSD: st.CostUSD, Questions: len(st.Questions), Skills: s.Skills}
	s.started, s.Task = f.opening(ctx)
	for _, a := range st.Activations {
		s.Skills = append(s.Skills, a.Name)
	}
	s.Skills = distinct.Of(s.Skills)
	if st.working() && !held(f.dir) {
		if s.Status, err = f.idle(ctx, st); err != nil {
			return fail(err)
		}
	}
	var cut *metier.Error
	if err := f.VerifyHead(ctx); errors.As(err, &cut) {
		s.Problem = cut.Code + ": " + headProblem(cut) + "; " + cut.Hint
	} else if p := f.torn(); p != nil {
		s.Problem = p.Code + ": " + p.Detail
	}
	return s
}

// headProblem describes how a log differs from its newest head.
func headProblem(err *metier.Error) string {
	if e, ok := errors.AsType[*record.Error](err); ok {
		return e.Detail
	}
	return err.Error()
}

// idle returns the status of an unfinished run or session that no process is working on.
func (f *Folder) idle(ctx context.Context, st State) (string, error) {
	if st.Status != StatusRunning {
		return StatusInterrupted, nil
	}
	for en, err := range f.log.Read(ctx, st.Seq) {
		if err != nil {
			return "", fault("read", f.dir, err)
		}
		if e, err := event.Decode(en); err == nil {
			if _, is := e.(event.ApprovalAnswered); is {
				return StatusAnswered, nil
			}
		}
	}
	return StatusInterrupted, nil
}

// mostTask is the maximum number of characters of a task in a list.
const mostTask = 200

// opening returns the time of the first entry, and the start of the first message to the agent, on
// one line. Without a message, or if its content is gone, task is "".
func (f *Folder) opening(ctx context.Context) (at time.Time, task string) {
	for en, err := range f.log.Read(ctx, 1) {
		if err != nil {
			break
		}
		if en.Seq == 1 {
			at = en.At
		}
		if en.Type != (event.Input{}).Type() {
			continue
		}
		ev, _ := event.Decode(en)
		if in, is := ev.(event.Input); is {
			return at, f.firstLine(ctx, in.Content)
		}
	}
	return at, ""
}

func (f *Folder) firstLine(ctx context.Context, content record.Ref) string {
	b, err := f.blobs.Open(ctx, content)
	var m model.Message
	if err != nil || json.Unmarshal(b, &m) != nil {
		return ""
	}
	text := []rune(strings.Join(strings.Fields(m.Text()), " "))
	if len(text) > mostTask {
		return strings.TrimRight(string(text[:mostTask-1]), " ") + "…"
	}
	return string(text)
}

// torn reports a tail that the next Open will truncate. While another process writes, an unfinished
// line is just its next one.
func (f *Folder) torn() *Problem {
	if f.loose != nil && f.readOnly {
		p := f.loose.problem()
		return &p
	}
	rec := f.file.Recovered()
	if rec == nil || !f.readOnly || held(f.dir) {
		return nil
	}
	return &Problem{Code: "record_torn", Seq: rec.Seq, Detail: "the last append was not written completely; 'metier audit verify " + f.id + "' shows what is missing; resuming the run removes and reports it"}
}

// Show reports on a run from its log, not from its artifacts. An unfinished run that no process is
// working on has the status interrupted, or answered if its last question was just answered.
func Show(ctx context.Context, f *Folder) (Report, error) {
	p, err := f.projector(ctx)
	if err != nil {
		return Report{}, err
	}
	r := p.report()
	r.Asked = p.questions()
	if p.c.err != nil {
		return r, p.c.err
	}
	if st := p.state(); st.working() && f.readOnly && !held(f.dir) {
		detail := "the process that worked on the run is gone; resume the run to continue"
		if r.Status == StatusOpen {
			detail = "the process that had the session open is gone, and did not end it"
		}
		if r.Status, err = f.idle(ctx, st); err != nil {
			return r, err
		}
		if r.Status == StatusInterrupted {
			r.Problems = append(r.Problems, Problem{Code: CodeInterrupted, Detail: detail})
		}
	}
	if t := f.torn(); t != nil {
		r.Problems = append(r.Problems, *t)
	}
	if f.noHead {
		r.Problems = append(r.Problems, Problem{Code: CodeNoHeads, Detail: "this machine has recorded heads, but none for this log: it was written elsewhere or moved"})
	}
	return r, nil
}

// Conversation returns transcript.json as the log produces it now.
func Conversation(ctx context.Context, f *Folder) (Transcript, error) {
	p, err := f.projector(ctx)
	if err != nil {
		return Transcript{}, err
	}
	return p.transcript(), p.c.err
}
