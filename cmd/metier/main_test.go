package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"metier/cli"
	"metier/event"
	"metier/internal/atomicfile"
	"metier/model/modeltest"
	"metier/record"
)

// killAt is the environment variable that makes this test binary metier
// itself, killed at the Nth append or rename; 0 only counts them.
const killAt = "METIER_TEST_KILL_AT"

func TestMain(m *testing.M) {
	at, ok := os.LookupEnv(killAt)
	if !ok {
		os.Exit(m.Run())
	}
	n, err := strconv.Atoi(at)
	if err != nil {
		panic(err)
	}
	var mu sync.Mutex
	count := 0
	atomicfile.SetHook(func(stage, path string) error {
		switch stage {
		case atomicfile.BeforeAppend, atomicfile.AfterAppend, atomicfile.BeforeRename, atomicfile.AfterRename:
		default:
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if count++; count == n {
			self, err := os.FindProcess(os.Getpid())
			if err != nil {
				panic(err)
			}
			_ = self.Kill() // SIGKILL: no deferred call runs
			select {}
		}
		return nil
	})
	code := cli.Main(context.Background(), os.Args[1:], os.Environ(), cli.System())
	fmt.Fprintf(os.Stderr, "points=%d\n", count)
	os.Exit(code)
}

// task is a run with edits that are not idempotent: done twice or not at all,
// they leave other files.
type task struct {
	t      *testing.T
	dir    string
	home   string
	server *modeltest.Server

	mu    sync.Mutex
	turns []int // the turn each request asked for, in order
}

var replies = []modeltest.Turn{
	{Text: "First the skill.", Calls: []modeltest.Call{{Tool: "load_skill", Args: `{"name":"plain-writing"}`}, {Tool: "read_file", Args: `{"path":"count.txt"}`}}},
	{Calls: []modeltest.Call{{Tool: "edit_file", Args: `{"path":"count.txt","old":"one","new":"one one"}`}}},
	{Calls: []modeltest.Call{
		{Tool: "edit_file", Args: `{"path":"count.txt","old":"two","new":"two two"}`},
		{Tool: "write_file", Args: `{"path":"notes/new.txt","content":"fresh\n"}`},
		{Tool: "edit_file", Args: `{"path":"notes/new.txt","old":"fresh","new":"fresh fresh"}`},
	}},
	{Text: "Done."},
}

func newTask(t *testing.T) *task {
	k := &task{t: t, dir: t.TempDir(), home: t.TempDir(), server: modeltest.OpenAI(t)}
	k.write("count.txt", "one\ntwo\n")
	k.server.Answer(func(r *modeltest.Request) modeltest.Turn {
		turn := 0
		for _, m := range r.Messages {
			if m.Role == "assistant" {
				turn++
			}
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		k.turns = append(k.turns, turn)
		return replies[min(turn, len(replies)-1)]
	})
	return k
}

func (k *task) write(name, text string) {
	k.t.Helper()
	if err := os.WriteFile(filepath.Join(k.dir, name), []byte(text), 0o644); err != nil {
		k.t.Fatal(err)
	}
}

// metier runs the program, killed at the given point. killed is true when it
// ended by the signal.
func (k *task) metier(at int, args ...string) (points int, killed bool, exit int, output string) {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), time.Minute) // a hang fails by name
	defer cancel()
	c := exec.CommandContext(ctx, os.Args[0], args...)
	c.WaitDelay = time.Second
	c.Dir = k.dir
	c.Env = append(k.env(), killAt+"="+strconv.Itoa(at))
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	for s := bufio.NewScanner(bytes.NewReader(out.Bytes())); s.Scan(); {
		if v, ok := strings.CutPrefix(s.Text(), "points="); ok {
			points, _ = strconv.Atoi(v)
		}
	}
	if err != nil && c.ProcessState == nil || ctx.Err() != nil {
		k.t.Fatalf("metier %s, killed at %d: %v\n%s", args, at, err, out.String())
	}
	return points, points == 0, c.ProcessState.ExitCode(), out.String()
}

// env is the environment of the program.
func (k *task) env() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + k.home, "SYSTEMROOT=" + os.Getenv("SYSTEMROOT"),
		"OPENAI_API_KEY=" + modeltest.Key, "OPENAI_BASE_URL=" + k.server.URL, "METIER_MODEL=openai:stand-in",
		"GORACE=atexit_sleep_ms=10"} // by default each process with the race detector waits a second at its end
}

// here runs the program in this process: many times, and nothing is killed.
func (k *task) here(args ...string) (exit int, output string) {
	var out bytes.Buffer
	exit = cli.Main(k.t.Context(), args, k.env(), cli.IO{In: strings.NewReader(""), Out: &out, Err: &out, Dir: k.dir})
	return exit, out.String()
}

// start begins the run.
func (k *task) start(at int) (points int, killed bool) {
	k.t.Helper()
	points, killed, exit, out := k.metier(at, "run", "--output-mode", "batch", "--prompt", "count")
	if !killed && exit != 0 {
		k.t.Fatalf("exit %d\n%s", exit, out)
	}
	return points, killed
}

// files is the workspace without the record.
func (k *task) files() string {
	k.t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(k.dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == ".metier" {
				return fs.SkipDir
			}
			return nil
		}
		data, err := os.ReadFile(p)
		rel, _ := filepath.Rel(k.dir, p) // below dir
		fmt.Fprintf(&b, "%s:\n%s", filepath.ToSlash(rel), data)
		return err
	})
	if err != nil {
		k.t.Fatal(err)
	}
	return b.String()
}

// log is the path of the only run's log, or "".
func (k *task) log() string {
	m, err := filepath.Glob(filepath.Join(k.dir, ".metier", "runs", "*", "events.jsonl"))
	if err != nil {
		k.t.Fatal(err)
	}
	if len(m) != 1 {
		return ""
	}
	return m[0]
}

// events decodes the whole lines of the log.
func (k *task) events() []event.Event {
	k.t.Helper()
	var out []event.Event
	b, err := os.ReadFile(k.log())
	if err != nil {
		return nil
	}
	for line := range bytes.Lines(b) {
		var en record.Entry
		if !bytes.HasSuffix(line, []byte("\n")) || json.Unmarshal(line, &en) != nil {
			continue
		}
		e, err := event.Decode(en)
		if err != nil {
			k.t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

// replied counts the model calls whose reply is in the log.
func (k *task) replied() int {
	n := 0
	for _, e := range k.events() {
		if _, ok := e.(event.Replied); ok {
			n++
		}
	}
	return n
}

// unknown reports whether some call ended with an unknown outcome.
func (k *task) unknown() bool {
	for _, e := range k.events() {
		switch e := e.(type) {
		case event.Recovered:
			return e.LostID != ""
		case event.Returned:
			if e.Code == "outcome_unknown" {
				return true
			}
		}
	}
	return false
}

// check goes on with an interrupted run and compares what it left with a run
// that was never interrupted.
func (k *task) check(where, want string) {
	k.t.Helper()
	replied := k.replied()
	k.mu.Lock()
	before := len(k.turns)
	k.mu.Unlock()
	exit, out := k.here("run", "--resume", "latest", "--output-mode", "batch")
	if exit == 5 && strings.Contains(out, "heads_mismatch") { // what was cut off had been confirmed: a person says so
		exit, out = k.here("run", "--resume", "latest", "--output-mode", "batch", "--trust-record")
	}
	if exit != 0 {
		if len(k.events()) == 0 { // killed before the run began: nothing was done, and the error says what to do
			if !strings.Contains(out, "run_not_begun") && !strings.Contains(out, "run_not_found") {
				k.t.Errorf("%s: a run that never began: exit %d\n%s", where, exit, out)
			}
			k.start(0)
		} else {
			k.t.Errorf("%s: resume: exit %d\n%s", where, exit, out)
			return
		}
	}
	if got := k.files(); got != want && !k.unknown() {
		k.t.Errorf("%s: files after the resume:\n%s\nwant:\n%s", where, got, want)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, turn := range k.turns[before:] {
		if turn < replied {
			k.t.Errorf("%s: the reply of turn %d is in the log, and the model was asked again", where, turn)
		}
	}
	if exit, out := k.here("audit", "verify", "latest"); exit != 0 {
		k.t.Errorf("%s: verify: exit %d\n%s", where, exit, out)
	}
}

// A real SIGKILL before and after each append and rename: after the resume
// each edit happened exactly once, and no journaled model call is sent twice.
//
// req: A-010
func TestKilledAtEveryAppendAndRename(t *testing.T) {
	t.Parallel()
	ref := newTask(t)
	points, _ := ref.start(0)
	want := ref.files()
	if !strings.Contains(want, "one one\ntwo two\n") || !strings.Contains(want, "fresh fresh\n") {
		t.Fatalf("the reference run left\n%s", want)
	}
	if points < 40 {
		t.Fatalf("only %d points of appends and renames: the faults are not injected", points)
	}
	t.Logf("%d points", points)
	for at := 1; at <= points; at++ {
		k := newTask(t)
		if _, killed := k.start(at); !killed {
			continue // ids and times differ in length, so may the number of points
		}
		k.check(fmt.Sprintf("killed at point %d of %d", at, points), want)
		k.server.Close()
	}
}

// The log cut at every byte of its last record, and at some of another one.
func TestLogCutAtEveryByteOfTheLastRecord(t *testing.T) {
	t.Parallel()
	ref := newTask(t)
	points, _ := ref.start(0)
	want := ref.files()
	for _, c := range []struct{ part, step int }{{4, 1}, {2, 29}} {
		at := points - points/c.part
		k := newTask(t)
		if _, killed := k.start(at); !killed {
			t.Fatalf("not killed at point %d", at)
		}
		saved := t.TempDir()
		copyTree(t, k.dir, saved)
		savedHome := t.TempDir()
		copyTree(t, k.home, savedHome)
		log, err := os.ReadFile(k.log())
		if err != nil {
			t.Fatal(err)
		}
		last := bytes.LastIndexByte(bytes.TrimSuffix(log, []byte("\n")), '\n') + 1
		for size := last; size < len(log); size += c.step {
			restore(t, saved, k.dir)
			restore(t, savedHome, k.home)
			if err := os.Truncate(k.log(), int64(size)); err != nil {
				t.Fatal(err)
			}
			k.check(fmt.Sprintf("point %d, cut to %d of %d bytes", at, size, len(log)), want)
		}
	}
}

func copyTree(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

func restore(t *testing.T, from, to string) {
	t.Helper()
	entries, err := os.ReadDir(to)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(to, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	copyTree(t, from, to)
}
