package agent

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"metier"
	"metier/agent/subagent"
	"metier/event"
	"metier/model"
	"metier/policy"
	"metier/record"
	"metier/settings"
)

// Config is what a run is made of. Session, Log, Blobs and Model are required.
type Config struct {
	Session *metier.Session
	Log     record.Log // the session's own log
	Blobs   record.Blobs
	Model   model.Model
	By      string // principal of the entries the driver writes

	Spec   Spec
	Limits Limits // of a run that is under way
	Prompt Prompt
	Inject settings.InjectRole // where loaded skills stand; "" is context

	// Ask brings a person's answer to a question. It may take as long as it
	// likes and ends with ctx. Nil: nobody is there; then Park decides.
	Ask func(ctx context.Context, q Question) (policy.Answer, error)
	// Park leaves a run with open questions parked, to be answered later. False
	// answers them with no, so that a batch never waits.
	Park bool
	// Observe hears of progress and streamed text, in order and one at a time.
	// It must be quick. Nothing it is told is kept but by the log.
	Observe func(Progress)

	// Spawns reports whether a call of a tool, by its canonical name, is a run of
	// its own: its process may stop and take it up again. Nil: none is.
	Spawns func(tool string, args json.RawMessage) bool

	Children int                                  // calls at once that are runs of their own; 0: 8
	Now      func() time.Time                     // nil: time.Now
	After    func(time.Duration) <-chan time.Time // nil: time.After; waits between retries
	Random   func() float64                       // nil: math/rand; jitter of retries
	Logger   *slog.Logger                         // nil: discard
}

// Spec is a run's definition. It goes into the record, and a resumed run keeps
// the one it began with. Zero values take the defaults of withDefaults.
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
	// Subagent is what the run was made to be, where it is a child.
	Subagent *subagent.Manifest `json:"subagent,omitempty"`
}

// Limits change what a run under way began with, for as long as it lasts. Zero
// leaves what there is. A run that begins takes its Spec's.
type Limits struct {
	MaxTurns  int
	MaxTokens int64
}

// withDefaults fills in what was left out: 50 turns, 32 calls a turn, the same
// call three times in a row, five retries, a window of 200,000 tokens of which
// three quarters may be used before older messages are summarized, and two
// corrections of a structured answer.
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
	set(&s.CompactAt, s.Window/4*3)
	set(&s.KeepLast, 6)
	set(&s.OutputTries, 2)
	if s.Mode == "" {
		s.Mode = ModeChat
	}
	return s
}

// The modes of a run. Code is told to write code and to run what it wrote;
// whether there is a tool to run anything is the operator's word, as ever. Plan
// is told to change nothing; who wires a run in plan mode grants only tools that
// read.
const (
	ModeChat = "chat"
	ModeCode = "code"
	ModePlan = "plan"
)

// Modes returns the modes, the default first.
func Modes() []string { return []string{ModeChat, ModeCode, ModePlan} }

// Question is what a person has to answer before a call may happen.
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
	Reason string          // failed: what the provider said, one line
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
