package run

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"metier/event"
	"metier/policy"
	"metier/record"
)

// foldRules is the version of the fold that produces State. A checkpoint of another version is
// folded again.
const foldRules = 4

// The states of a run. Interrupted and Answered are never in the log: they are unfinished runs that
// no process is working on. Interrupted can also be a session.
const (
	StatusOpen        = "open"  // a session without a run of the agent
	StatusEnded       = "ended" // such a session, and it is over
	StatusRunning     = "running"
	StatusWaiting     = "parked"
	StatusDone        = "done"
	StatusFailed      = "failed"
	StatusCancelled   = "cancelled"
	StatusDenied      = "denied"
	StatusInterrupted = "interrupted"
	StatusAnswered    = "answered" // the newest entry is the answer to the last open question
)

// State is run-state.json, which is also the checkpoint: what a list needs to know about a run
// without reading its log. It is valid for the entry Seq with the hash of Head. If the head or the
// Rules differ, the log is folded again.
type State struct {
	Type        string          `json:"type"`
	Version     int             `json:"version"`
	RunID       string          `json:"runId"`
	Rules       int             `json:"rules"` // of the fold
	Seq         uint64          `json:"seq"`
	Head        record.Head     `json:"head"`
	Status      string          `json:"status"`
	Code        string          `json:"code"` // why it is not done
	Session     string          `json:"session"`
	Build       string          `json:"build"`
	By          string          `json:"by"`
	Model       string          `json:"model"`
	StepRules   int             `json:"stepRules"` // of the machine the run began with
	StartedAt   string          `json:"startedAt"`
	UpdatedAt   string          `json:"updatedAt"`
	DurationMS  int64           `json:"durationMs"` // from the first entry to the last
	Turns       int             `json:"turns"`
	Calls       int             `json:"calls"` // calls that returned
	Tokens      Tokens          `json:"tokens"`
	CostUSD     *float64        `json:"costUSD"`     // null: no price is known
	CostPartial bool            `json:"costPartial"` // some replies had no price
	SkillsRoot  string          `json:"skillsRoot"`
	Activations []ActiveVersion `json:"activations"` // in force, with the newest text
	OpenCalls   []OpenCall      `json:"openCalls"`
	Questions   []OpenQuestion  `json:"openQuestions"`
	Children    []ChildRun      `json:"children"`
	Resumes     int             `json:"resumes"`
}

// Tokens counts the tokens the model read and wrote.
type Tokens struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cacheRead"`
	CacheWrite int64 `json:"cacheWrite"`
	Total      int64 `json:"total"` // input and output
}

// OpenCall is a call that was claimed and has not returned.
type OpenCall struct {
	ID     string `json:"id"`
	Tool   string `json:"tool"`
	Effect string `json:"effect"`
}

// OpenQuestion is a question waiting for an answer.
type OpenQuestion struct {
	ID     string   `json:"id"`
	Call   string   `json:"call"`
	Code   string   `json:"code"`
	Scopes []string `json:"scopes"`
	Binds  string   `json:"binds"` // what the answer will cover
	// Child is the folder name, below children/, of the subagent that asks, and ChildCall is its
	// call. The question itself is in the subagent's record. Child is "" for the run itself.
	Child     string `json:"child"`
	ChildCall string `json:"childCall"`
}

// ChildRun is a child that ended, identified by its head.
type ChildRun struct {
	ID      string      `json:"id"` // of the call
	Run     string      `json:"run"`
	Profile string      `json:"profile"`
	Code    string      `json:"code"` // why it failed
	Tokens  int64       `json:"tokens"`
	Head    record.Head `json:"head"`
}

// working reports whether the log ends as if a process worked on the run.
func (s State) working() bool { return s.Status == StatusRunning || s.Status == StatusOpen }

// Over reports whether a run or session with the status has ended.
func Over(status string) bool {
	switch status {
	case StatusDone, StatusFailed, StatusCancelled, StatusDenied, StatusEnded:
		return true
	}
	return false
}

// stateFold folds a log into its State, one entry at a time. The record of a server's session has
// tens of megabytes of entries, so it keeps none of them.
type stateFold struct {
	State
	began, ended time.Time
	registry     record.Ref        // the newest
	profiles     map[string]string // of the calls that were decided to start a subagent
}

func newStateFold(id string) *stateFold {
	return &stateFold{profiles: map[string]string{}, State: State{Type: typePrefix + "run-state", Version: 1, RunID: id, Rules: foldRules, Status: StatusOpen,
		Activations: []ActiveVersion{}, OpenCalls: []OpenCall{}, Questions: []OpenQuestion{}, Children: []ChildRun{}}}
}

// add folds the next entry.
func (s *stateFold) add(f fact) {
	if s.began.IsZero() {
		s.began = f.At
	}
	s.ended = f.At
	switch e := f.event.(type) {
	case event.SkillsDiscovered:
		s.registry = e.Registry
	case event.PolicyDecided:
		if s.profiles[e.Call] = e.Profile; e.Profile == "" {
			delete(s.profiles, e.Call)
		}
	}
	s.life(f)
	s.work(f)
}

// at returns the state of a log with this head, whose skills are in skillsRoot.
func (s *stateFold) at(head record.Head, skillsRoot string) State {
	s.Seq, s.Head, s.SkillsRoot = head.Seq, head, skillsRoot
	s.StartedAt, s.UpdatedAt, s.DurationMS = stamp(s.began), stamp(s.ended), s.ended.Sub(s.began).Milliseconds()
	for i, c := range s.Children {
		s.Children[i].Profile = s.profiles[c.ID]
	}
	return s.State
}

// state folds the log.
func (p *projector) state() State {
	s := newStateFold(p.h.id)
	for _, f := range p.h.facts {
		s.add(f)
	}
	return s.at(p.h.head, p.reg.SkillsRoot)
}

// foldState folds a log. It reads the registry only for the folder of the skills.
func foldState(ctx context.Context, id string, log record.Log, blobs record.Blobs) (State, error) {
	s := newStateFold(id)
	head, err := facts(ctx, log, s.add)
	if err != nil {
		return State{}, err
	}
	c := &contents{ctx: ctx, blobs: blobs}
	var registry struct {
		SkillsRoot string `json:"skillsRoot"`
	}
	if b, _ := c.load(s.registry); b != nil {
		if err := json.Unmarshal(b, &registry); err != nil {
			return State{}, badIndex(err)
		}
	}
	return s.at(head, registry.SkillsRoot), c.err
}

// life folds the events that begin, pause and end a run.
func (s *State) life(f fact) {
	switch e := f.event.(type) {
	case event.SessionOpened:
		s.Session, s.Build, s.By = e.Session, e.Build, f.By
	case event.SessionEnded:
		if s.Status == StatusOpen {
			s.Status = StatusEnded
		}
	case event.RunStarted:
		s.Status, s.Code, s.Model, s.StepRules = StatusRunning, "", e.Model, e.Rules
	case event.RunResumed:
		s.Resumes++
		if s.Status == StatusWaiting {
			s.Status = StatusRunning
		}
	case event.ModelStarted, event.ToolCallStarted:
		if s.Status == StatusWaiting {
			s.Status = StatusRunning
		}
	case event.RunWaiting:
		s.Status = StatusWaiting
	case event.RunEnded:
		s.Status, s.Code = e.Status, e.Code
	}
}

// work folds the events of work done.
func (s *State) work(f fact) {
	switch e := f.event.(type) {
	case event.SkillActivated:
		s.Activations = activate(s.Activations, ActiveVersion{e.SkillID, e.Name, e.Hash})
	case event.ToolCallStarted:
		s.close(e.ID)
		s.OpenCalls = append(s.OpenCalls, OpenCall{e.ID, e.Tool, string(e.Effect)})
	case event.ToolResult:
		s.close(e.ID)
		s.Calls++
		s.settle(e.ID, "")
	case event.ToolCallLost:
		s.close(e.ID)
	case event.ApprovalRequested:
		s.settle(e.Call, e.ID)
		s.Questions = append(s.Questions, OpenQuestion{e.ID, e.Call, e.Code, some(e.Scopes), e.Binds, e.Child, e.ChildCall})
	case event.ApprovalAnswered:
		s.answered(e)
	case event.ApprovalExpired:
		s.settle(e.Call, e.ID)
	case event.ModelReplied:
		s.Turns++
		s.spend(e.Usage)
		if e.Model != "" && s.Model == "" {
			s.Model = e.Model
		}
	case event.ContextCompacted:
		s.spend(e.Usage)
	case event.ChildEnded:
		if slices.ContainsFunc(s.Children, func(c ChildRun) bool { return c.ID == e.ID }) {
			return // a crash came between this and the result of its call
		}
		s.spend(e.Usage)
		s.Children = append(s.Children, ChildRun{ID: e.ID, Run: e.Run, Code: e.Code, Tokens: e.Usage.Input + e.Usage.Output, Head: e.Head})
	}
}

func (s *State) close(call string) {
	s.OpenCalls = slices.DeleteFunc(s.OpenCalls, func(c OpenCall) bool { return c.ID == call })
}

// answered removes the answered question. If the answer covers more than one call, it also removes
// the questions with the same content. A run keeps waiting as long as one is open.
func (s *State) answered(e event.ApprovalAnswered) {
	s.settle(e.Call, e.ID)
	if e.Scope == policy.ScopeSession || e.Scope == policy.ScopeAlways {
		s.Questions = slices.DeleteFunc(s.Questions, func(q OpenQuestion) bool { return q.Binds == e.Binds })
	}
	if s.Status == StatusWaiting && len(s.Questions) == 0 {
		s.Status = StatusRunning
	}
}

// settle removes one question of a call, or all of them if id is "".
func (s *State) settle(call, id string) {
	s.Questions = slices.DeleteFunc(s.Questions, func(q OpenQuestion) bool { return q.Call == call && (id == "" || q.ID == id) })
}

func (s *State) spend(u event.Usage) {
	s.Tokens.Input += u.Input
	s.Tokens.Output += u.Output
	s.Tokens.CacheRead += u.CacheRead
	s.Tokens.CacheWrite += u.CacheWrite
	s.Tokens.Total = s.Tokens.Input + s.Tokens.Output
	if u.CostMicroUSD == nil {
		s.CostPartial = true
		return
	}
	cost := float64(*u.CostMicroUSD) / 1e6
	if s.CostUSD != nil {
		cost += *s.CostUSD
	}
	s.CostUSD = &cost
}
