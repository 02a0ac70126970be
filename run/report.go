package run

import (
	"cmp"
	"encoding/json"
	"fmt"

	"metier/event"
	"metier/model"
	"metier/policy"
	"metier/record"
)

// Report is run-report.json and `runs show ID --json`.
type Report struct {
	Type        string          `json:"type"`
	Version     int             `json:"version"`
	ID          string          `json:"id"`
	RunID       string          `json:"runId"`
	Status      string          `json:"status"`
	Code        string          `json:"code"`
	Model       string          `json:"model"`
	StartedAt   string          `json:"startedAt"`
	EndedAt     string          `json:"endedAt"` // of the last entry
	DurationMS  int64           `json:"durationMs"`
	Turns       int             `json:"turns"`
	Calls       int             `json:"calls"`
	Tokens      Tokens          `json:"tokens"`
	CostUSD     *float64        `json:"costUSD"`
	CostPartial bool            `json:"costPartial"`
	Activations []Activation    `json:"activations"`
	Reads       []Read          `json:"reads"`
	Scripts     []Script        `json:"scripts"`
	Decisions   []Decision      `json:"decisions"`
	Questions   []Pending       `json:"openQuestions"`
	Denied      []event.Denial  `json:"denied"`  // with those of subagents
	Catalog     *CatalogReport  `json:"catalog"` // null: no turn was offered a catalog
	Files       []FileChange    `json:"files"`
	Children    []ChildRun      `json:"children"`
	Answer      json.RawMessage `json:"answer"` // the final text, null before
	Output      json.RawMessage `json:"output"` // the structured result, null without
	Problems    []Problem       `json:"problems"`
	Notices     []Notice        `json:"notices,omitempty"`
	Head        record.Head     `json:"head"`
	// Asked are all questions with their answers. It is in the output of `runs show` only:
	// run-report.json does not have it, and policy-trace.json has the same list.
	Asked []Question `json:"questions,omitzero"`
}

// CatalogReport counts the skills shown in the last catalog.
type CatalogReport struct {
	Listed  int `json:"listed"`
	Omitted int `json:"omitted"`             // skills that are not listed
	Cut     int `json:"descriptionsCut"`     // listed skills with a shortened description
	Dropped int `json:"descriptionsDropped"` // listed skills without their description
	Tokens  int `json:"estimatedTokens"`
	Budget  int `json:"budget"` // in tokens; 0: none
}

// Notice is a message that the user was given during the run.
type Notice struct {
	Code     string `json:"code"`
	Seq      uint64 `json:"seq"`      // of the entry
	Severity string `json:"severity"` // note, warning
	Text     string `json:"text"`
}

// Pending is an open question with what a person needs to answer it. Text is the question and what
// the answer covers (see [policy.SplitQuestion]). Args are the arguments of the call. Each is null or a gap
// if its content is gone. For a question of a subagent, Text only names the subagent.
type Pending struct {
	OpenQuestion
	AskedAt string          `json:"askedAt"`
	Tool    string          `json:"tool"`
	Text    json.RawMessage `json:"text"`
	Args    json.RawMessage `json:"arguments"`
	SkillID string          `json:"-"` // of the skill whose files a yes covers
	Tree    string          `json:"-"` // of these files
}

// pending fills in the open questions.
func (p *projector) pending(open []OpenQuestion) []Pending {
	out := []Pending{}
	for _, q := range open {
		w := Pending{OpenQuestion: q, Text: json.RawMessage("null"), Args: json.RawMessage("null")}
		for _, f := range p.h.facts {
			switch e := f.event.(type) {
			case event.ApprovalRequested:
				if e.Call == q.Call && e.ID == q.ID {
					w.AskedAt = stamp(f.At)
					w.Text, w.SkillID, w.Tree = p.c.text(e.Text), e.SkillID, e.Tree
				}
			case event.PolicyDecided:
				if e.Call == q.Call && (e.Outcome == policy.Ask || q.Child != "") {
					w.Tool = e.Tool
					w.Args = p.c.raw(e.Args)
				}
			}
		}
		out = append(out, w)
	}
	return out
}

// FileChange is one call that wrote a file. Before and After are digests, if the tool reported
// them. Before is "absent" for a new file.
type FileChange struct {
	Path   string `json:"path"`
	Call   string `json:"call"`
	Tool   string `json:"tool"`
	At     string `json:"at"`
	Before string `json:"before"`
	After  string `json:"after"`
}

func (p *projector) report() Report {
	s := p.state()
	r := Report{Type: typePrefix + "run-report", Version: 1, ID: p.h.id, RunID: p.h.id, Status: s.Status, Code: s.Code, Model: s.Model, StartedAt: s.StartedAt,
		EndedAt: s.UpdatedAt, DurationMS: s.DurationMS, Turns: s.Turns, Calls: s.Calls, Tokens: s.Tokens, CostUSD: s.CostUSD, CostPartial: s.CostPartial,
		Activations: p.activations(), Decisions: p.decisions(p.promptSlots()), Denied: Denied(p.h.events()), Children: s.Children,
		Questions: p.pending(s.Questions), Reads: p.reads(), Scripts: p.scripts(), Files: p.files(),
		Answer: json.RawMessage("null"), Output: json.RawMessage("null"), Head: p.h.head}
	if e, _, ok := last[event.RunEnded](p.h); ok && s.Status == e.Status {
		r.Answer, r.Output = p.answer(e.Answer), p.c.raw(e.Output)
	}
	if c, _, ok := last[event.CatalogSent](p.h); ok {
		r.Catalog = &CatalogReport{c.Listed, c.Omitted, c.Cut, c.Dropped, c.Tokens, c.Budget}
	}
	r.Problems, r.Notices = p.problems(), p.notices()
	return r
}

// notices lists what the user was told.
func (p *projector) notices() (out []Notice) {
	for _, f := range p.h.facts {
		if e, ok := f.event.(event.Note); ok && e.Text != "" {
			out = append(out, Notice{e.Code, f.Seq, e.Severity, e.Text})
		}
	}
	return out
}

// answer returns the final text, either from a reply or stored separately.
func (p *projector) answer(r record.Ref) json.RawMessage {
	var m model.Message
	if b, _ := p.c.load(r); json.Unmarshal(b, &m) != nil || m.Role == "" {
		return p.c.text(r)
	}
	return p.c.json(m.Text())
}

// files lists the successful writes.
func (p *projector) files() []FileChange {
	out := []FileChange{}
	for _, f := range p.h.facts {
		e, ok := f.event.(event.ToolResult)
		started := p.started[e.ID]
		if !ok || e.Code != "" || started.Effect != policy.Write {
			continue
		}
		var intent, args struct {
			Path, Before, After string
		}
		p.decode(f.Seq, started.Intent, &intent)
		p.args(e.ID, &args)
		c := FileChange{Path: cmp.Or(intent.Path, args.Path), Call: e.ID, Tool: e.Tool, At: stamp(f.At), Before: intent.Before, After: intent.After}
		out = append(out, c)
	}
	return out
}

// problems lists the problems recorded in the log.
func (p *projector) problems() []Problem {
	out := []Problem{}
	for _, f := range p.h.facts {
		add := func(code, on, format string, a ...any) {
			out = append(out, Problem{code, f.Seq, on, fmt.Sprintf(format, a...)})
		}
		switch e := f.event.(type) {
		case nil:
			code := CodeUnknown
			if f.Must {
				code = CodeNewer
			}
			add(code, f.Type, "this build does not know the type %s, version %d", f.Type, f.V)
		case event.ToolCallLost:
			add(CodeLost, e.ID, "try %d was started and did not return before the process ended", e.Try)
		case event.SkillDrifted:
			add(CodeDrift, e.SkillID, "%s was %s and is %s; chosen: %s", e.Path, e.Was, cmp.Or(e.Now, "gone"), cmp.Or(e.Choice, "nothing yet"))
		case event.SkillSuspected:
			_, _, detail := trustFact(e)
			add(CodeSuspect, e.SkillID, "%s: %s", e.Path, detail)
		case event.RecordRecovered:
			lost := ""
			if e.LostID != "" {
				lost = fmt.Sprintf("; lost: %s (%s)", e.LostType, e.LostID)
			}
			if e.Unanchored > 0 {
				add(CodeUnanchored, e.Kept, "no recorded head covered the %d entries after entry %d; they were set aside in %s and do not count%s", e.Unanchored, e.Seq, e.Kept, lost)
				continue
			}
			add(CodeRecovered, "", "%d bytes after entry %d were not complete and were cut off%s", e.Bytes, e.Seq, lost)
		case event.ModelFailed:
			if !e.Retry {
				status := ""
				if e.Status > 0 {
					status = fmt.Sprintf(" (HTTP %d)", e.Status)
				}
				add(CodeModelFailed, e.ID, "%s%s after try %d", e.Code, status, e.Try)
			}
		case event.Note:
			if e.Text == "" {
				add(e.Code, e.On, "%d", e.N)
			}
		}
	}
	return append(out, p.found...)
}
