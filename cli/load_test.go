package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"metier/agent"
	"metier/engine"
	"metier/internal/atomicfile"
	"metier/internal/testenv"
	"metier/model"
	"metier/run"
)

const loadScript = `model: load
turns:
  - say: I look.
    calls:
      - {tool: load_skill, args: {name: greet}}
      - {tool: read_file, args: {path: run.yaml}}
  - calls:
      - {tool: read_skill_resource, args: {skill: greet, path: references/tone.md}}
  - say: Done.
`

// loaded is an app with a planned run of the script.
func loaded(t testing.TB, dir, script string) (*app, *engine.Plan) {
	t.Helper()
	ws := filepath.Join(dir, "ws")
	if err := os.CopyFS(ws, os.DirFS(filepath.Join("testdata", "ws"))); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "script.yaml")
	if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	a := newApp([]string{"HOME=" + filepath.Join(dir, "home"), "METIER_CONFIG=" + os.DevNull},
		IO{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard, Dir: ws})
	a.json = true // no progress
	p, err := a.engine().Plan(t.Context(), engine.Request{Workspace: ws, Roots: []string{"skills"}, Prompt: "Greet.", Model: "scripted:" + path, Artifacts: filepath.Join(dir, "runs"), Batch: true})
	if err != nil {
		t.Fatal(err)
	}
	return a, p
}

// TestAThousandRunsAtOnce runs as many runs in one process as a server might: all end without
// affecting each other, every record verifies, and the heap stays bounded.
func TestAThousandRunsAtOnce(t *testing.T) {
	const most = 1 << 30
	runs := testenv.Count(100, manyRuns)
	dir := t.TempDir()
	a, p := loaded(t, dir, loadScript)
	peak := watchHeap(t)
	begin := time.Now()
	errs := make([]error, runs)
	var all sync.WaitGroup
	for i := range runs {
		all.Go(func() {
			r, err := a.execute(context.WithoutCancel(t.Context()), p, fmt.Sprintf("run-%04d", i))
			if err == nil && (r.Status != "done" || r.Answer != "Done.") {
				err = fmt.Errorf("it ended as %s (%s) with %q", r.Status, r.Code, r.Answer)
			}
			errs[i] = err
		})
	}
	all.Wait()
	took, heap := time.Since(begin), peak()
	t.Logf("%d runs in %s, heap at most %d MiB", runs, took.Round(time.Millisecond), heap>>20)
	if heap > most {
		t.Errorf("the heap grew to %d bytes, want at most %d", heap, most)
	}
	for i, err := range errs {
		if err != nil {
			t.Fatalf("run %d: %v", i, err)
		}
	}
	for i := range runs {
		rep, err := run.VerifyAt(t.Context(), p.Records(), fmt.Sprintf("run-%04d", i), a.engine().RunOptions())
		if err != nil || !rep.OK {
			t.Fatalf("run %d fails verification: %v %v", i, err, rep.Problems)
		}
	}
}

// watchHeap samples the heap until it is asked for the maximum.
func watchHeap(t *testing.T) func() uint64 {
	t.Helper()
	stop, peak := make(chan struct{}), make(chan uint64)
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		var top uint64
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			top = max(top, m.HeapInuse)
			select {
			case <-tick.C:
			case <-stop:
				peak <- top
				return
			}
		}
	}()
	return func() uint64 { close(stop); return <-peak }
}

// TestSecondInterrupt: the first interrupt ends a run gracefully; the second one ends the process
// at once, here while its answer cannot be written.
func TestSecondInterrupt(t *testing.T) {
	t.Parallel()
	for name, asJSON := range map[string]bool{"text": false, "json": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			a, _ := loaded(t, dir, "turns: [{say: Fine.}]")
			out := &stuck{began: make(chan struct{}), free: make(chan struct{})}
			errs := new(guarded)
			a.json, a.Out, a.Err = false, out, errs
			exits := make(chan int, 1)
			a.exit = func(code int) { exits <- code }
			ready := make(chan chan<- os.Signal, 1)
			a.notify = func(c chan<- os.Signal) func() { ready <- c; return func() {} }
			args := []string{"run", "--prompt", "Greet.", "--model", "scripted:" + filepath.Join(dir, "script.yaml")}
			if asJSON {
				args = append(args, "--json")
			}
			ended := make(chan int, 1)
			go func() { ended <- a.main(t.Context(), args) }()
			signals := <-ready
			<-out.began // the run is over, and its answer cannot be written
			signals <- os.Interrupt
			signals <- os.Interrupt
			if code := <-exits; code != exitInterrupted {
				t.Errorf("exit code %d, want %d", code, exitInterrupted)
			}
			text := errs.String()
			close(out.free)
			<-ended
			if asJSON {
				var e struct {
					Error struct{ Code, Message, Hint string }
				}
				if err := json.Unmarshal([]byte(text), &e); err != nil || e.Error.Code != "interrupted" || !strings.Contains(e.Error.Hint, "metier run --resume 20") {
					t.Errorf("standard error is %q, %v", text, err)
				}
			} else if !strings.Contains(text, "metier: stopping; interrupt again to stop immediately\n") ||
				!strings.Contains(text, "metier: stopped immediately [interrupted]\n  hint: the record is kept; continue with: metier run --resume 20") {
				t.Errorf("standard error is %q", text)
			}
		})
	}
}

// stuck is a pipe without a reader.
type stuck struct {
	once        sync.Once
	began, free chan struct{}
}

func (s *stuck) Write(b []byte) (int, error) {
	s.once.Do(func() { close(s.began) })
	<-s.free
	return len(b), nil
}

// guarded is a buffer that several goroutines write to.
type guarded struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (g *guarded) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.b.Write(b)
}

func (g *guarded) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.b.String()
}

// BenchmarkStep measures one turn with one tool call, from the start of a turn
// to that of the next, without the model's time: appends, blobs, and the syncs
// of a claimed write (a read has none). Next to it is the floor of a write: the
// same files written and synced the same number of times. A task is ten times a
// list, a read, a search and a write.
func BenchmarkStep(b *testing.B) {
	const (
		list   = `{tool: list_files, args: {depth: {$json: "{{ add 1 (len (results \"list_files\")) }}"}}}`
		read   = `{tool: read_file, args: {path: run.yaml, offset: {$json: "{{ add 1 (len (results \"read_file\")) }}"}}}`
		search = `{tool: search_files, args: {pattern: "Ada{{ len (results \"search_files\") }}"}}`
		write  = `{tool: write_file, args: {path: "out.txt", content: "{{ len (results \"write_file\") }}"}}`
	)
	for _, c := range []struct {
		name  string
		calls []string
	}{{"task", []string{list, read, search, write}}, {"read", []string{read}}, {"write", []string{write}}} {
		b.Run(c.name, func(b *testing.B) {
			const turns = 40
			var script strings.Builder
			script.WriteString("turns:\n")
			for i := range turns {
				fmt.Fprintf(&script, "  - calls:\n      - %s\n", c.calls[i%len(c.calls)])
			}
			script.WriteString("  - say: Done.\n")
			a, p := loaded(b, b.TempDir(), script.String())
			var steps []time.Duration
			n := 0
			for b.Loop() {
				n++
				steps = append(steps, stepTimes(b, a, p, fmt.Sprintf("run-%d", n))...)
			}
			reportTimes(b, steps)
		})
	}
	b.Run("write-floor", func(b *testing.B) {
		dir := b.TempDir()
		var steps []time.Duration
		for b.Loop() {
			begin := time.Now()
			if err := floorOfWrite(dir); err != nil {
				b.Fatal(err)
			}
			steps = append(steps, time.Since(begin))
		}
		reportTimes(b, steps)
	})
}

func reportTimes(b *testing.B, steps []time.Duration) {
	slices.Sort(steps)
	b.ReportMetric(float64(steps[len(steps)/2].Microseconds()), "p50-µs/step")
	b.ReportMetric(float64(steps[len(steps)*95/100].Microseconds()), "p95-µs/step")
}

// floorOfWrite is the minimum of a claimed write: blobs and log are made
// durable before it, and the new file replaces the old one and is made durable.
func floorOfWrite(dir string) error {
	for name, size := range map[string]int{"blobs": 1500, "log": 4500} {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = f.Write(make([]byte, size))
		if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	return atomicfile.Write(filepath.Join(dir, "out.txt"), []byte("1"), 0o600)
}

// clocked is a model that records how long it took.
type clocked struct {
	model.Model
	took time.Duration
}

func (c *clocked) Stream(ctx context.Context, r model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		begin := time.Now()
		defer func() { c.took = time.Since(begin) }()
		c.Model.Stream(ctx, r)(yield)
	}
}

// stepTimes runs once and returns the time between the starts of its turns,
// without the model's own time.
func stepTimes(b *testing.B, a *app, p *engine.Plan, id string) []time.Duration {
	m := &clocked{Model: p.Model()}
	var out []time.Duration
	var last time.Time
	r, err := a.engine().Start(b.Context(), p.WithModel(m), id, engine.Hooks{Progress: func(g agent.Progress) {
		if g.Kind == agent.TurnStart {
			now := time.Now()
			if !last.IsZero() {
				out = append(out, now.Sub(last)-m.took)
			}
			last = now
		}
	}})
	if err != nil {
		b.Fatal(err)
	}
	o, err := r.Drive(b.Context())
	if err != nil || o.Status != "done" {
		b.Fatalf("%s (%s) %s: %v", o.Status, o.Code, o.Reason, err)
	}
	if err := r.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
	return out
}
