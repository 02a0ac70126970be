package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"

	"metier/model/modeltest"
)

// failureCommands are the script commands for tests of failures.
var failureCommands = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	"standin": standin, "asked": asked, "told": told, "refuses": refuses, "begin": begin, "interrupt": interrupt, "ended": ended,
	"tear": tear, "forge": forge, "rechain": rechain, "empty": empty, "keep": keep, "eraseregistry": eraseRegistry, "putback": putBack, "oneline": oneLine, "exists-none": existsNone,
}

// standIn is a provider's stand-in with the turns of a script.
type standIn struct {
	*modeltest.Server
	mu    sync.Mutex
	turns []turn
	asked chan struct{} // one for each accepted request
	told  int           // how many requests were printed
	work  string        // the folder of the script
}

// turn is a turn of the stand-in, in JSON. Times is how many requests in a row
// take it; 0 means once, -1 always. Rename moves a file or folder of the script
// before the answer, as another program might.
type turn struct {
	modeltest.Turn
	Times  int       `json:"times"`
	Rename [2]string `json:"rename"`
}

func (s *standIn) next(*modeltest.Request) modeltest.Turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked <- struct{}{}
	if len(s.turns) == 0 {
		return modeltest.Turn{Fault: &modeltest.Fault{Status: 500, Message: "the stand-in has no turn left"}}
	}
	t := &s.turns[0]
	out := t.Turn
	if from, to := t.Rename[0], t.Rename[1]; from != "" {
		if err := os.Rename(filepath.Join(s.work, from), filepath.Join(s.work, to)); err != nil {
			return modeltest.Turn{Fault: &modeltest.Fault{Status: 500, Message: err.Error()}}
		}
	}
	if t.Times--; t.Times == 0 || t.Times == -1 {
		s.turns = s.turns[1:]
	} else if t.Times < -1 {
		t.Times = -1
	}
	return out
}

// standins are the stand-ins of each script, by protocol. Each script has a
// goroutine, and no two share an entry.
var standins sync.Map // *testscript.TestScript + protocol → *standIn

type standinKey struct {
	ts    *testscript.TestScript
	proto string
}

// standin starts the stand-in of a provider, or gives it more turns, and points
// the program at it: standin openai TURNS.json.
func standin(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: standin anthropic|openai|gemini TURNS.json")
	}
	var turns []turn
	d := json.NewDecoder(strings.NewReader(ts.ReadFile(args[1])))
	d.DisallowUnknownFields()
	ts.Check(d.Decode(&turns))
	for i := range turns {
		if turns[i].Times < 0 {
			turns[i].Times = -1 << 20
		}
	}
	key := standinKey{ts, args[0]}
	if v, ok := standins.Load(key); ok {
		s := v.(*standIn)
		s.mu.Lock()
		s.turns = turns
		s.mu.Unlock()
		return
	}
	server, err := modeltest.New(args[0])
	ts.Check(err)
	s := &standIn{Server: server, turns: turns, asked: make(chan struct{}, 1024), work: ts.Getenv("WORK")}
	server.Answer(s.next)
	standins.Store(key, s)
	ts.Defer(func() { standins.Delete(key); server.Close() })
	name := strings.ToUpper(args[0])
	ts.Setenv(name+"_BASE_URL", server.URL)
	ts.Setenv(name+"_API_KEY", modeltest.Key)
	ts.Setenv("METIER_MODEL", args[0]+":test-model")
}

func standinOf(ts *testscript.TestScript, proto string) *standIn {
	v, ok := standins.Load(standinKey{ts, proto})
	if !ok {
		ts.Fatalf("there is no stand-in for %s", proto)
	}
	return v.(*standIn)
}

// asked waits until the stand-in got its next request: asked openai.
func asked(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: asked PROTOCOL")
	}
	<-standinOf(ts, args[0]).asked
}

// told writes the requests that the provider got since the last told to a file:
// told openai FILE. Each request is system, tools and messages, in the order
// sent. At least one is required; ! told openai requires none.
func told(ts *testscript.TestScript, neg bool, args []string) {
	if neg && len(args) != 1 || !neg && len(args) != 2 {
		ts.Fatalf("usage: told PROTOCOL FILE, ! told PROTOCOL")
	}
	s := standinOf(ts, args[0])
	all := s.Requests()
	if none := s.told == len(all); none != neg {
		ts.Fatalf("%s was told %d times", args[0], len(all)-s.told)
	}
	if neg {
		return
	}
	var b strings.Builder
	for i, r := range all[s.told:] {
		fmt.Fprintf(&b, "== request %d\n", i+1)
		writeRequest(&b, r)
	}
	s.told = len(all)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(b.String()), 0o600))
}

func writeRequest(w io.Writer, r modeltest.Request) {
	if r.Refused != "" {
		fmt.Fprintf(w, "refused: %s\n", r.Refused)
	}
	fmt.Fprintf(w, "system: %s\n", r.System)
	for _, t := range r.Tools {
		fmt.Fprintf(w, "tool %s: %s\nschema %s\n", t.Name, t.Description, t.Schema)
	}
	for i, m := range r.Messages {
		fmt.Fprintf(w, "message %d %s: %s\n", i+1, m.Role, m.Text)
		for _, c := range m.Calls {
			fmt.Fprintf(w, "call %s %s\n", c.Tool, c.Args)
		}
		for _, c := range m.Results {
			fmt.Fprintf(w, "result %s\n", c.Text)
		}
	}
}

// refuses runs a command twice, as text and with --json. It has to end with an
// exit code, an error code, a message and a hint, both regular expressions:
//
//	refuses 2 usage 'no such' 'see .*--help' metier run --bad
func refuses(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 5 {
		ts.Fatalf("usage: refuses EXIT CODE MESSAGE HINT COMMAND ARGS…")
	}
	exit, code, message, hint, command := args[0], args[1], args[2], args[3], args[4:]
	status(ts, false, append([]string{exit}, command...))
	text := ts.ReadFile("stderr")
	i := strings.LastIndex("\n"+text, "\nmetier: ")
	if i < 0 {
		ts.Fatalf("no line begins with metier: on standard error")
	}
	want := regexp.MustCompile(`(?s)\Ametier: .*` + message + `.* \[` + code + `\]\n  hint: [^\n]*` + hint)
	if !want.MatchString(text[i:]) {
		ts.Fatalf("the error does not match %s:\n%s", want, text[i:])
	}
	status(ts, false, append(append([]string{exit}, command...), "--json"))
	refusedJSON(ts, code, message, hint)
}

func refusedJSON(ts *testscript.TestScript, code, message, hint string) {
	if out := ts.ReadFile("stdout"); out != "" {
		var v any
		d := json.NewDecoder(strings.NewReader(out))
		if err := d.Decode(&v); err != nil || d.More() {
			ts.Fatalf("standard output is not one JSON document: %v", err)
		}
	}
	var e struct {
		Error struct{ Code, Message, Hint, Flag string }
	}
	d := json.NewDecoder(strings.NewReader(ts.ReadFile("stderr")))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil || d.More() {
		ts.Fatalf("standard error is not one JSON object: %v", err)
	}
	if e.Error.Code != code || !regexp.MustCompile("(?s)"+message).MatchString(e.Error.Message) || !regexp.MustCompile("(?s)"+hint).MatchString(e.Error.Hint) {
		ts.Fatalf("the JSON error is %+v", e.Error)
	}
}

// process is a command that runs beside the script.
type process struct {
	*exec.Cmd
	out, err bytes.Buffer
}

var processes sync.Map // *testscript.TestScript → *process

// begin starts a command for interrupt and ended.
func begin(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: begin COMMAND ARGS…")
	}
	p := &process{Cmd: exec.Command(lookPath(ts, args[0]), args[1:]...)}
	p.Dir, p.Stdout, p.Stderr = ts.MkAbs("."), &p.out, &p.err
	for _, k := range []string{"PATH", "HOME", "USERPROFILE", "SYSTEMROOT", "TMPDIR", "OLLAMA_HOST", "METIER_MODEL", "OPENAI_BASE_URL", "OPENAI_API_KEY"} {
		if v := ts.Getenv(k); v != "" {
			p.Env = append(p.Env, k+"="+v)
		}
	}
	ts.Check(p.Start())
	processes.Store(ts, p)
	ts.Defer(func() {
		processes.Delete(ts)
		_ = p.Process.Kill() // already gone if ended was called
	})
}

func lookPath(ts *testscript.TestScript, name string) string {
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if p, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return p
		}
	}
	ts.Fatalf("there is no %s", name)
	return ""
}

func processOf(ts *testscript.TestScript) *process {
	v, ok := processes.Load(ts)
	if !ok {
		ts.Fatalf("nothing was begun")
	}
	return v.(*process)
}

// interrupt sends an interrupt to the command of begin.
func interrupt(ts *testscript.TestScript, neg bool, _ []string) {
	ts.Check(processOf(ts).Process.Signal(os.Interrupt))
}

// ended waits for the command of begin, checks its exit code, and writes its
// output: ended 130 OUT ERR.
func ended(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: ended EXIT OUT ERR")
	}
	p := processOf(ts)
	_ = p.Wait() // the exit code has the error
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), p.out.Bytes(), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), p.err.Bytes(), 0o600))
	if got := fmt.Sprint(p.ProcessState.ExitCode()); got != args[0] {
		ts.Fatalf("exit code %s, want %s\n%s", got, args[0], p.err.String())
	}
}

// only returns the single file that matches a pattern.
func only(ts *testscript.TestScript, pattern string) string {
	match, err := filepath.Glob(ts.MkAbs(pattern))
	if err != nil || len(match) != 1 {
		ts.Fatalf("%s names %d files: %v", pattern, len(match), err)
	}
	return match[0]
}

// tear adds half a line to a file: tear PATTERN.
func tear(ts *testscript.TestScript, neg bool, args []string) {
	f, err := os.OpenFile(only(ts, args[0]), os.O_APPEND|os.O_WRONLY, 0)
	ts.Check(err)
	_, err = f.WriteString(`{"v":1,"seq":99,"pr`)
	ts.Check(err)
	ts.Check(f.Close())
}

// keep copies the single file that matches a pattern: keep PATTERN FILE.
func keep(ts *testscript.TestScript, neg bool, args []string) {
	b, err := os.ReadFile(only(ts, args[0]))
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), b, 0o600))
}

// putBack is the reverse of keep: putback FILE PATTERN.
func putBack(ts *testscript.TestScript, neg bool, args []string) {
	ts.Check(os.WriteFile(only(ts, args[1]), []byte(ts.ReadFile(args[0])), 0o600))
}

// oneLine joins all lines of a file, so that a pattern can match their order.
func oneLine(ts *testscript.TestScript, neg bool, args []string) {
	text := strings.Join(strings.Fields(ts.ReadFile(args[0])), " ")
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

// existsNone fails if a file matches a pattern.
func existsNone(ts *testscript.TestScript, neg bool, args []string) {
	if match, _ := filepath.Glob(ts.MkAbs(args[0])); len(match) > 0 {
		ts.Fatalf("there is %s", match)
	}
}
