package agent

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"metier"
	"metier/agent/step"
	"metier/agent/subagent"
	"metier/event"
	"metier/model"
	"metier/policy"
	"metier/record"
	"metier/settings"
)

// Config configures a run. Session, Log, Blobs, and Model are required.
type Config struct {
	Session *metier.Session
	Log     record.Log // the session's own log
	Blobs   record.Blobs
	Model   model.Model
	By      string // principal of the entries the driver writes

	Spec   Spec
	Limits Limits // of a run that is under way
	Prompt Prompt
	Inject settings.InjectRole // role of loaded skills in the request; "" is context

	// Ask returns a user's answer to a question. It may block until ctx ends. If
	// it is nil, no user can answer, and Park decides.
	Ask func(ctx context.Context, q Question) (policy.Answer, error)
	// Park leaves a run with open questions parked, to be answered later. False
	// answers them with no, so that a batch never waits.
	Park bool
	// Observe receives progress and streamed text, in order and never
	// concurrently. It must return quickly. Only the log stores progress.
	Observe func(Progress)

	// Notes returns the notices that the user was given since the last call. They
	// are recorded with the next entries of the run. It can be nil.
	Notes func() []event.Note

	// Spawns reports whether a tool, by its canonical name, starts a subagent
	// run, which another process can resume. Nil means that no tool does.
	Spawns func(tool string, args json.RawMessage) bool

	Children int                                  // calls at once that are runs of their own; 0: 8
	Now      func() time.Time                     // nil: time.Now
	After    func(time.Duration) <-chan time.Time // nil: time.After; waits between retries
	Random   func() float64                       // nil: math/rand; jitter of retries
	Logger   *slog.Logger                         // nil: discard
}

// Spec is the definition of a run. It is recorded, and a resumed run keeps its
// original Spec. Zero values select the defaults of withDefaults.
type Spec struct {
	Run         string          `json:"run"`
	Model       string          `json:"model"` // provider:name, for the record
	Mode        string          `json:"mode"`  // one of Modes
	MaxTurns    int             `json:"maxTurns"`
	MaxCalls    int             `json:"maxCalls"`
	MaxRepeats  int             `json:"maxRepeats"`
	MaxRetries  int             `json:"maxRetries"`
	MaxTokens   int64           `json:"maxTokens,omitempty"`
	ReplyTokens int             `json:"replyTokens,omitempty"` // of one reply; 0: the adapter's default
	Window      int             `json:"window"`
	CompactAt   int             `json:"compactAt"`
	KeepLast    int             `json:"keepLast"`
	Output      json.RawMessage `json:"output,omitempty"` // JSON schema of the final answer
	OutputTries int             `json:"outputTries"`
	Price       *model.Price    `json:"price,omitempty"`
	// Subagent describes the run if it is a subagent.
	Subagent *subagent.Manifest `json:"subagent,omitempty"`
}

// Limits change the limits of a resumed run until it ends. Zero keeps a limit. A
// new run uses the limits of its Spec.
type Limits struct {
	MaxTurns  int
	MaxTokens int64
}

// withDefaults sets defaults: 50 turns, 32 calls per turn, the same call three
// times in a row, five retries, a window of 200,000 tokens, of which three
// quarters may be used before older messages are summarized, and two corrections
// of a structured answer.
func (s Spec) withDefaults() Spec {
	set := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	set(&s.MaxTurns, 50)
	set(&s.MaxCalls, 32)
	set(&s.MaxRepeats, 3)
	set(&s.MaxRetries, 5)
	set(&s.Window, 200_000)
	set(&s.CompactAt, int(step.CompactAt*float64(s.Window)))
	set(&s.KeepLast, step.KeepLast)
	set(&s.OutputTries, 2)
	if s.Mode == "" {
		s.Mode = ModeChat
	}
	return s
}

// The modes of a run. In code mode, the prompt asks to write code and to run it;
// the operator's grants still determine whether a tool can run anything. In plan
// mode, the prompt asks to change nothing; the caller must grant only tools that
// read.
const (
	ModeChat = "chat"
	ModeCode = "code"
	ModePlan = "plan"
)

// Modes returns the modes, the default first.
func Modes() []string { return []string{ModeChat, ModeCode, ModePlan} }

// Question is a question that a user must answer before a call may happen.
type Question struct {
	event.ApprovalRequested
	Text string
}

// Outcome is how Run ended. Status is done, failed, cancelled, denied, parked
// or interrupted; the last two go on with another Run.
type Outcome struct {
	Run    string
	Status string
	Code   string
	Reason string          // failed: the provider's message, one line
	Answer string          // the final text
	Output json.RawMessage // the structured result, when a schema was given
	Turns  int
	Usage  event.Usage
	Asks   []Question // parked: what waits for an answer
	Head   record.Head
}

func (c *Config) withDefaults() error {
	if c.Session == nil || c.Log == nil || c.Blobs == nil || c.Model == nil {
		return &metier.Error{Op: "run", Kind: metier.Invalid, Code: "config_invalid", Err: errors.New("a run needs a session, its log, blobs and a model")}
	}
	if c.Children <= 0 {
		c.Children = 8
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.After == nil {
		c.After = time.After
	}
	if c.Random == nil {
		c.Random = rand.Float64
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Observe == nil {
		c.Observe = func(Progress) {}
	}
	c.Spec = c.Spec.withDefaults()
	return nil
}
