package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"metier"
	"metier/bench/subject"
	"metier/config"
	"metier/engine"
	"metier/model"
	"metier/policy"
)

// turns works on one run of n turns: a tool that does nothing is called in each
// of them, and the record is in files.
func turns(n int) subject.Case {
	return func(_ string, begin func()) (int, map[string]float64, error) {
		f, err := newField("")
		if err != nil {
			return 0, nil, err
		}
		defer f.remove()
		begin()
		o, err := f.run(context.Background(), n, func() {})
		if err == nil && o.Turns != n {
			err = fmt.Errorf("the run had %d turns, not %d", o.Turns, n)
		}
		return o.Turns, nil, err
	}
}

// runs works on n runs at the same time, with all skills of a folder. No run gets
// its first reply before each of them has asked for one.
func runs(n int) subject.Case {
	return func(dir string, begin func()) (int, map[string]float64, error) {
		f, err := newField(dir)
		if err != nil {
			return 0, nil, err
		}
		defer f.remove()
		begin()
		if err := f.share(context.Background()); err != nil {
			return 0, nil, err
		}
		var ready, over sync.WaitGroup
		errs := make([]error, n)
		ready.Add(n)
		for i := range n {
			over.Go(func() {
				var once sync.Once
				arrive := func() { once.Do(ready.Done) }
				defer arrive()
				_, errs[i] = f.run(context.Background(), 3, func() { arrive(); ready.Wait() })
			})
		}
		over.Wait()
		return n, nil, errors.Join(errs...)
	}
}

// field is a workspace with an engine for it.
type field struct {
	dir    string
	skills []string
	e      *engine.Engine
	tool   metier.Tool
	shared *engine.Skills // nil: each run lists its skills
}

// newField has the skills of a folder, or none.
func newField(skills string) (*field, error) {
	dir, err := os.MkdirTemp("", "metier-runs-")
	if err != nil {
		return nil, err
	}
	f := &field{dir: dir}
	ws, none := filepath.Join(dir, "workspace"), filepath.Join(dir, "none")
	if err := errors.Join(os.Mkdir(ws, 0o755), os.Mkdir(none, 0o755)); err != nil {
		return nil, errors.Join(err, f.remove())
	}
	f.skills = []string{none}
	if skills != "" {
		f.skills = []string{skills}
	}
	f.e = engine.New(config.NewEnv([]string{"HOME=" + dir}, ws), engine.Options{})
	f.tool, err = metier.FuncTool("noop", "Do nothing.", policy.Read, func(_ context.Context, in struct {
		N int `json:"n"`
	}) (string, error) {
		return "done " + strconv.Itoa(in.N), nil
	})
	return f, err
}

func (f *field) remove() error { return os.RemoveAll(f.dir) }

func (f *field) request(n int, m model.Model) engine.Request {
	return engine.Request{Roots: f.skills, Prompt: "Do nothing, many times.", MaxTurns: n, Batch: true, Custom: engine.Custom{Tools: []metier.Tool{f.tool}, Model: m}}
}

// share lists the skills once for all runs.
func (f *field) share(ctx context.Context) error {
	p, err := f.e.Plan(ctx, f.request(1, &caller{}))
	if err == nil {
		f.shared, err = f.e.Skills(ctx, p)
	}
	return err
}

// run works on a run of n turns. first is called in its first turn.
func (f *field) run(ctx context.Context, n int, first func()) (o engine.Outcome, err error) {
	p, err := f.e.Plan(ctx, f.request(n, &caller{turns: n, first: first}))
	if err != nil {
		return o, err
	}
	if f.shared != nil {
		p = p.WithSkills(f.shared)
	}
	r, err := f.e.Start(ctx, p, f.e.RunID(), engine.Hooks{})
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, r.Close(ctx)) }()
	if o, err = r.Drive(ctx); err == nil && o.Status != "done" {
		err = fmt.Errorf("the run ended as %s: %s", o.Status, o.Code)
	}
	return o, err
}

// caller is the model of one run: it calls the tool in all turns but the last.
type caller struct {
	turns, turn int
	first       func()
}

func (c *caller) Stream(_ context.Context, r model.Request) iter.Seq2[model.Chunk, error] {
	if c.turn++; c.turn == 1 {
		c.first()
	}
	m, stop := model.Message{Role: model.RoleAssistant, Parts: []model.Part{model.Text("Done.")}}, model.StopEnd
	if c.turn < c.turns {
		m.Parts = []model.Part{{Kind: model.PartCall, Tool: "noop", WireID: "call-" + strconv.Itoa(c.turn), Args: json.RawMessage(fmt.Sprintf(`{"n":%d}`, c.turn))}}
		stop = model.StopTools
	}
	return func(yield func(model.Chunk, error) bool) {
		yield(model.Chunk{Kind: model.ChunkDone, Message: &m, Stop: stop}, nil)
	}
}
