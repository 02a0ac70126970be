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
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"metier/cli"
	"metier/event"
	"metier/internal/atomicfile"
	"metier/internal/testenv"
	"metier/model/modeltest"
	"metier/record"
	"metier/run"
)

// killAt is the environment variable that makes this test binary metier itself,
// killed at the Nth append or rename; 0 only counts them.
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
			testenv.Die(at)
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
	turns []int    // the turn that each request asked for, in order
	lost  []string // what requests lacked of the active skills, or had twice
}

// newTask is a run that gets the skill table-report at its start and loads
// plain-writing itself. The model asks for plain-writing a second time at the
// end: a run that forgot it would load it again.
func newTask(t *testing.T) *task {
	k := &task{t: t, dir: t.TempDir(), home: t.TempDir(), server: modeltest.OpenAI(t)}
	k.write("count.txt", "one\ntwo\n")
	again := modeltest.Call{Tool: "load_skill", Args: `{"name":"plain-writing"}`}
	turns := []modeltest.Turn{{Text: "First the skill.", Calls: []modeltest.Call{again, {Tool: "read_file", Args: `{"path":"count.txt"}`}}}}
	for _, e := range edits {
		if e.turn > len(turns) {
			turns = append(turns, modeltest.Turn{})
		}
		turns[e.turn-1].Calls = append(turns[e.turn-1].Calls, e.call)
	}
	turns[len(turns)-1].Calls = append(turns[len(turns)-1].Calls, again)
	turns = append(turns, modeltest.Turn{Text: "Done."})
	told, loaded := skillText(t, "table-report"), skillText(t, "plain-writing")
	k.server.Answer(func(r *modeltest.Request) modeltest.Turn {
		turn, all := 0, r.System
		for _, m := range r.Messages {
			if m.Role == "assistant" {
				turn++
			}
			all += "\n" + m.Text // of results too
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		k.turns = append(k.turns, turn)
		if n := strings.Count(all, told); n != 1 {
			k.lost = append(k.lost, fmt.Sprintf("turn %d has the text of table-report %d times", turn, n))
		}
		if n := strings.Count(all, loaded); n != min(turn, 1) {
			k.lost = append(k.lost, fmt.Sprintf("turn %d has the text of plain-writing %d times", turn, n))
		}
		return turns[min(turn, len(turns)-1)]
	})
	return k
}

// asked counts the requests so far.
func (k *task) asked() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.turns)
}

// skillText is what follows the frontmatter of one of metier's own skills.
func skillText(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(testenv.Module(t), "skills", name, "SKILL.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(strings.TrimPrefix(string(b), "---\n"), "\n---\n")
	if !ok {
		t.Fatalf("%s has no frontmatter", name)
	}
	return strings.TrimSpace(text)
}

func (k *task) write(name, text string) {
	k.t.Helper()
	if err := os.WriteFile(filepath.Join(k.dir, name), []byte(text), 0o644); err != nil {
		k.t.Fatal(err)
	}
}

// metier runs the program, which kills itself at the given point, 0 for never.
// killed is false if it ended before that point.
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
	points = -1
	for s := bufio.NewScanner(bytes.NewReader(out.Bytes())); s.Scan(); {
		if v, ok := strings.CutPrefix(s.Text(), "points="); ok {
			points, _ = strconv.Atoi(v)
		}
	}
	if c.ProcessState == nil || ctx.Err() != nil {
		k.t.Fatalf("metier %s, killed at %d: %v\n%s", args, at, err, out.String())
	}
	killed = testenv.DiedAt(c.ProcessState, out.Bytes(), strconv.Itoa(at))
	switch {
	case killed:
	case points < 0:
		k.t.Fatalf("metier %s neither ended nor was killed at point %d: %v\n%s", args, at, err, out.String())
	case at > 0 && at <= points:
		k.t.Fatalf("metier %s was not killed at point %d of %d\n%s", args, at, points, out.String())
	}
	return points, killed, c.ProcessState.ExitCode(), out.String()
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

// start starts the run.
func (k *task) start(at int) (points int, killed bool) {
	k.t.Helper()
	points, killed, exit, out := k.metier(at, "run", "--output-mode", "batch", "--skill", "table-report", "--prompt", "count")
	if !killed && exit != 0 {
		k.t.Fatalf("exit %d\n%s", exit, out)
	}
	return points, killed
}

// files is the workspace without the record.
func (k *task) files() string {
	k.t.Helper()
	files := map[string]string{}
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
		if temporary.MatchString(d.Name()) {
			rel = filepath.Join(filepath.Dir(rel), leftover)
		}
		files[filepath.ToSlash(rel)] = string(data)
		return err
	})
	if err != nil {
		k.t.Fatal(err)
	}
	return listing(files)
}

// log is the path of the run's log, or "". Next to a run that never began there
// may be the one that was started for it: its log is the longer one.
func (k *task) log() (file string) {
	m, err := filepath.Glob(filepath.Join(k.dir, ".metier", "runs", "*", "events.jsonl"))
	if err != nil {
		k.t.Fatal(err)
	}
	size := int64(-1)
	for _, path := range m {
		info, err := os.Stat(path)
		if err != nil {
			k.t.Fatal(err)
		}
		if info.Size() > size {
			file, size = path, info.Size()
		}
	}
	return file
}

// events decodes the complete lines of the log.
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
		if _, ok := e.(event.ModelReplied); ok {
			n++
		}
	}
	return n
}

// check resumes an interrupted run and compares the result with a run that was
// never interrupted.
func (k *task) check(where string) {
	k.t.Helper()
	replied := k.replied()
	before := k.asked()
	exit, out := k.here("run", "--resume", "latest", "--output-mode", "batch")
	if exit == 5 && strings.Contains(out, "heads_mismatch") { // the removed part had been confirmed: a user accepts the loss
		exit, out = k.here("run", "--resume", "latest", "--output-mode", "batch", "--trust-record")
	}
	if exit != 0 {
		if len(k.events()) == 0 { // killed before the run began: nothing was done, and the error has the fix
			if !strings.Contains(out, "run_not_begun") && !strings.Contains(out, "run_not_found") {
				k.t.Errorf("%s: a run that never began: exit %d\n%s", where, exit, out)
			}
			k.start(0)
		} else {
			k.t.Errorf("%s: resume: exit %d\n%s", where, exit, out)
			return
		}
	}
	k.sound(where)
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, turn := range k.turns[before:] {
		if turn < replied {
			k.t.Errorf("%s: the reply of turn %d is in the log, and the model was asked again", where, turn)
		}
	}
}

// sound checks what a finished run left: files, active skills, the record.
func (k *task) sound(where string) {
	k.t.Helper()
	k.holds(where, possible(edits, k.unknown()))
	if d := cmp.Diff([]string{"table-report", "plain-writing"}, k.activated()); d != "" {
		k.t.Errorf("%s: activations of the record (-want +got):\n%s", where, d)
	}
	k.mu.Lock()
	lost := k.lost
	k.mu.Unlock()
	if d := cmp.Diff([]string(nil), lost); d != "" {
		k.t.Errorf("%s: what the model was sent of active skills:\n%s", where, d)
	}
	if exit, out := k.here("audit", "verify", "latest"); exit != 0 {
		k.t.Errorf("%s: verify: exit %d\n%s", where, exit, out)
	}
}

// holds checks that the workspace is one of those wanted.
func (k *task) holds(where string, want []string) {
	k.t.Helper()
	if got := k.files(); !slices.Contains(want, got) {
		k.t.Errorf("%s: files after the resume:\n%s\nwant:\n%s", where, got, strings.Join(want, "\nor:\n"))
	}
}

// activated names the skills of the run's list of activations, in order.
func (k *task) activated() (names []string) {
	k.t.Helper()
	b, err := os.ReadFile(filepath.Join(filepath.Dir(k.log()), run.FileActivations))
	if err != nil {
		k.t.Fatal(err)
	}
	var list run.Activations
	if err := json.Unmarshal(b, &list); err != nil {
		k.t.Fatal(err)
	}
	for _, a := range list.Activations {
		names = append(names, a.Name)
	}
	return names
}

// A real SIGKILL before and after each append and rename. After the resume each
// edit happened exactly once, no recorded model call is sent twice, and every
// request has the text of the active skills, which are not activated a second
// time.
//
// req: A-010
func TestKilledAtEveryAppendAndRename(t *testing.T) {
	t.Parallel()
	ref := newTask(t)
	points, _ := ref.start(0)
	ref.sound("not killed")
	if points < 40 {
		t.Fatalf("only %d points of appends and renames: the faults are not injected", points)
	}
	step := testenv.Count(7, 1) // odd: points before and after an append alternate
	var kills testenv.Kills
	resumed := 0 // with a request to the model
	for at := 1; at <= points; at += step {
		k := newTask(t)
		_, killed := k.start(at)
		if !kills.Count(killed) {
			continue
		}
		asked := k.asked()
		k.check(fmt.Sprintf("killed at point %d of %d", at, points))
		if k.asked() > asked && asked > 0 {
			resumed++
		}
		k.server.Close()
	}
	kills.Check(t, points/step)
	if resumed < kills.Killed/2 {
		t.Errorf("only %d of %d runs asked the model before the kill and after it", resumed, kills.Killed)
	}
}

// The log cut at every byte of its last record, and at some of another one.
func TestLogCutAtEveryByteOfTheLastRecord(t *testing.T) {
	t.Parallel()
	points, _ := newTask(t).start(0)
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
		step := testenv.Count((len(log)-last)/4+1, c.step) // four cuts in the short form
		for size := last; size < len(log); size += step {
			restore(t, saved, k.dir)
			restore(t, savedHome, k.home)
			if err := os.Truncate(k.log(), int64(size)); err != nil {
				t.Fatal(err)
			}
			k.check(fmt.Sprintf("point %d, cut to %d of %d bytes", at, size, len(log)))
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
