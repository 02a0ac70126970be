package scripted

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"sync"
	"text/template"
	"time"

	"metier/internal/plural"
	"metier/internal/yaml"
	"metier/model"
)

const (
	provider  = "scripted"
	maxOutput = 256 << 10 // bytes one template may write
	maxTurns  = 10_000
	maxRepeat = 1_000_000
	maxTried  = 8192 // error turns remembered; the oldest are forgotten
)

// file is the parsed YAML file.
type file struct {
	Model string `yaml:"model"`
	Turns []turn `yaml:"turns"`
}

type turn struct {
	Say        string      `yaml:"say"`
	Calls      []call      `yaml:"calls"`
	When       string      `yaml:"when"`
	Repeat     int         `yaml:"repeat"`
	Stop       model.Stop  `yaml:"stop"`
	Usage      *usage      `yaml:"usage"`
	Error      *model.Code `yaml:"error"`
	Message    string      `yaml:"message"`
	RetryAfter string      `yaml:"retry_after"`
	retryAfter time.Duration
}

type call struct {
	Tool string         `yaml:"tool"`
	Args map[string]any `yaml:"args"`
	Raw  string         `yaml:"raw"`
}

type usage struct {
	Input  int64 `yaml:"input"`
	Output int64 `yaml:"output"`
}

type script struct {
	model  string
	turns  []turn
	parsed map[string]*template.Template // by text

	mu    sync.Mutex
	tried map[attempt]int // error turns a conversation has met: it does not change by failing, so they are counted here
	order []attempt
}

type attempt struct {
	talk [32]byte
	turn int
}

// New parses a script. Errors in it, including those in templates, are detected here and name the
// turn.
func New(src []byte) (model.Model, error) {
	s := &script{parsed: map[string]*template.Template{}, tried: map[attempt]int{}}
	var f file
	if err := yaml.Decode(src, &f); err != nil {
		return nil, fmt.Errorf("script: %w", err)
	}
	if s.model = f.Model; s.model == "" {
		s.model = "scripted"
	}
	if len(f.Turns) == 0 || len(f.Turns) > maxTurns {
		return nil, fmt.Errorf("script: %d turns: use 1 to %d under the key turns", len(f.Turns), maxTurns)
	}
	s.turns = f.Turns
	for i := range s.turns {
		if err := s.check(&s.turns[i]); err != nil {
			return nil, fmt.Errorf("script: turn %d: %w", i+1, err)
		}
	}
	return s, nil
}

var codeForm = regexp.MustCompile(`^[a-z][a-z_]{2,63}$`)

func (s *script) check(t *turn) error {
	if t.Repeat < 0 || t.Repeat > maxRepeat {
		return fmt.Errorf("repeat is %d: use 1 to %d", t.Repeat, maxRepeat)
	}
	t.Repeat = max(t.Repeat, 1)
	switch t.Stop {
	case "", model.StopEnd, model.StopTools, model.StopLength, model.StopRefusal, model.StopSequence, model.StopOther:
	default:
		return fmt.Errorf("stop is %q: use end, tools, length, refusal, stop_sequence, or other", t.Stop)
	}
	if t.Error != nil {
		if !codeForm.MatchString(string(*t.Error)) {
			return fmt.Errorf("error is %q: use a code such as model_overloaded", *t.Error)
		}
		if t.Say != "" || len(t.Calls) > 0 {
			return errors.New("it has an error, so it cannot say or call anything")
		}
	}
	if t.RetryAfter != "" {
		d, err := time.ParseDuration(t.RetryAfter)
		if err != nil || d < 0 {
			return fmt.Errorf("retry_after is %q: use a duration such as 2s", t.RetryAfter)
		}
		t.retryAfter = d
	}
	for _, text := range []string{t.Say, t.When} {
		if err := s.parse(text); err != nil {
			return err
		}
	}
	for i, c := range t.Calls {
		if c.Tool == "" {
			return fmt.Errorf("call %d has no tool name", i+1)
		}
		if c.Raw != "" && c.Args != nil {
			return fmt.Errorf("call %d has both args and raw: use only one", i+1)
		}
		if _, err := walk(c.Args, func(text string) (string, error) { return "null", s.parse(text) }); err != nil {
			return fmt.Errorf("call %d: %w", i+1, err)
		}
	}
	return nil
}

// position is the position of a conversation: n replies of turn Turn (from 0) have been given.
type position struct {
	Turn int `json:"turn"`
	N    int `json:"n"`
}

func positionOf(messages []model.Message) (p position) {
	replies := 0
	for i := len(messages) - 1; i >= 0; i-- {
		m := messages[i]
		if m.Role != model.RoleAssistant {
			continue
		}
		for _, part := range m.Parts {
			if part.Provider == provider && json.Unmarshal(part.Opaque, &p) == nil {
				p.Turn, p.N = max(0, p.Turn), max(0, p.N)
				return p
			}
		}
		replies++
	}
	return position{Turn: replies}
}

// Stream implements model.Model.
func (s *script) Stream(ctx context.Context, r model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		end, err := s.reply(r)
		if cause := context.Cause(ctx); cause != nil {
			err = &model.Error{Code: model.CodeCanceled, Provider: provider, Message: "the call was ended by its caller", Err: cause}
		}
		if err != nil {
			yield(model.Chunk{}, err)
			return
		}
		for _, c := range deltas(*end.Message) {
			if ctx.Err() != nil {
				yield(model.Chunk{}, &model.Error{Code: model.CodeCanceled, Provider: provider, Message: "the call was ended by its caller", Err: context.Cause(ctx)})
				return
			}
			if !yield(c, nil) {
				return
			}
		}
		yield(end, nil)
	}
}

func fail(code model.Code, format string, args ...any) *model.Error {
	return &model.Error{Code: code, Provider: provider, Message: fmt.Sprintf(format, args...)}
}

// reply returns the conversation's next turn.
func (s *script) reply(r model.Request) (model.Chunk, error) {
	at := positionOf(r.Messages)
	talk := &talk{request: r}
	for i := at.Turn; i < len(s.turns); i++ {
		t := &s.turns[i]
		n := 0
		if i == at.Turn {
			n = at.N
		}
		if n >= t.Repeat {
			continue
		}
		if t.When != "" {
			out, err := s.render(t.When, talk)
			if err != nil {
				return model.Chunk{}, fail(model.CodeScriptFailed, "script: turn %d: when: %v", i+1, err)
			}
			switch out {
			case "true":
			case "false", "":
				continue
			default:
				return model.Chunk{}, fail(model.CodeScriptFailed, "script: turn %d: when renders as %.80q: use true or false", i+1, out)
			}
		}
		if t.Error != nil {
			if s.spent(r, i, t.Repeat) {
				continue
			}
			return model.Chunk{}, &model.Error{Code: *t.Error, Provider: provider, RetryAfter: t.retryAfter, Message: message(t, i)}
		}
		return s.answer(t, position{Turn: i, N: n + 1}, talk)
	}
	return model.Chunk{}, fail(model.CodeScriptEnded, "the script has only %s; add a turn, or let the last turn end the run", plural.Of(len(s.turns), "turn"))
}

func message(t *turn, i int) string {
	if t.Message != "" {
		return t.Message
	}
	return fmt.Sprintf("turn %d of the script fails on purpose", i+1)
}

// spent counts how often this conversation has reached an error turn. It reports whether the turn
// has already failed repeat times.
func (s *script) spent(r model.Request, turn, repeat int) bool {
	b, err := json.Marshal(r.Messages)
	if err != nil {
		b = nil // arguments that are not JSON: all such conversations count as one
	}
	key := attempt{talk: sha256.Sum256(b), turn: turn}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tried[key] >= repeat {
		return true
	}
	if s.tried[key] == 0 {
		s.order = append(s.order, key)
		if len(s.order) > maxTried {
			delete(s.tried, s.order[0])
			s.order = s.order[1:]
		}
	}
	s.tried[key]++
	return false
}

func (s *script) answer(t *turn, p position, talk *talk) (model.Chunk, error) {
	failed := func(what string, err error) (model.Chunk, error) {
		return model.Chunk{}, fail(model.CodeScriptFailed, "script: turn %d: %s: %v", p.Turn+1, what, err)
	}
	m := &model.Message{Role: model.RoleAssistant, Parts: []model.Part{}}
	text, err := s.render(t.Say, talk)
	if err != nil {
		return failed("say", err)
	}
	written := len(text)
	if text != "" {
		m.Parts = append(m.Parts, model.Text(text))
	}
	for i, c := range t.Calls {
		args, err := walk(c.Args, func(text string) (string, error) { return s.render(text, talk) })
		if err != nil {
			return failed(fmt.Sprintf("call %d (%s)", i+1, c.Tool), err)
		}
		raw, err := json.Marshal(args)
		if err != nil {
			return failed(fmt.Sprintf("call %d (%s)", i+1, c.Tool), err)
		}
		switch {
		case c.Raw != "":
			raw = []byte(c.Raw)
		case args == nil:
			raw = nil
		}
		written += len(c.Tool) + len(raw)
		m.Parts = append(m.Parts, model.Call(fmt.Sprintf("call_%d_%d_%d", p.Turn+1, p.N, i+1), c.Tool, string(raw)))
	}
	if len(m.Parts) == 0 {
		m.Parts = append(m.Parts, model.Part{Kind: model.PartOpaque})
	}
	mark, err := json.Marshal(p)
	if err != nil {
		return failed("its place", err)
	}
	m.Parts[0].Provider, m.Parts[0].Opaque = provider, mark
	stop := t.Stop
	if stop == "" {
		stop = model.StopEnd
		if len(t.Calls) > 0 {
			stop = model.StopTools
		}
	}
	u := model.Usage{Input: talk.size()/4 + 1, Output: int64(written)/4 + 1}
	if t.Usage != nil {
		u = model.Usage{Input: t.Usage.Input, Output: t.Usage.Output}
	}
	return model.Chunk{Kind: model.ChunkDone, Message: m, Usage: u, Stop: stop, Model: s.model}, nil
}

// deltas splits the message into words, each with its preceding space.
func deltas(m model.Message) []model.Chunk {
	var out []model.Chunk
	for _, p := range m.Parts {
		switch p.Kind {
		case model.PartText:
			begin, word := 0, false
			for i, r := range p.Text {
				space := r == ' ' || r == '\n' || r == '\t'
				if space && word {
					out = append(out, model.Chunk{Kind: model.ChunkText, Text: p.Text[begin:i]})
					begin, word = i, false
				}
				word = word || !space
			}
			out = append(out, model.Chunk{Kind: model.ChunkText, Text: p.Text[begin:]})
		case model.PartCall:
			out = append(out, model.Chunk{Kind: model.ChunkCall, Tool: p.Tool})
		}
	}
	return out
}
