// Package hosttest is an MCP server for the tests of package host. It follows the protocol unless a
// script tells it how to break it. It implements JSON-RPC itself, so that it can send messages that
// no library would.
package hosttest

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
)

// Script defines what a server offers and how it misbehaves.
type Script struct {
	Name     string            `json:"name,omitempty"`     // of serverInfo
	Revision string            `json:"revision,omitempty"` // "": 2025-11-25
	Skills   []Skill           `json:"skills,omitempty"`
	NoSkills bool              `json:"noSkills,omitempty"` // do not declare the extension
	Flat     bool              `json:"flat,omitempty"`     // do not declare directoryRead
	Tools    []map[string]any  `json:"tools,omitempty"`
	Later    []map[string]any  `json:"later,omitempty"` // the tools after the first call, which are announced
	Results  map[string]any    `json:"results,omitempty"`
	Raw      map[string]string `json:"raw,omitempty"`  // method → line that is sent instead of a response
	Hang     []string          `json:"hang,omitempty"` // methods that are never answered
	Die      []string          `json:"die,omitempty"`  // methods that end the process
	PageSize int               `json:"pageSize,omitempty"`
	Loop     bool              `json:"loop,omitempty"`     // skills/list never ends
	Stubborn bool              `json:"stubborn,omitempty"` // does not end when its input does
	Stderr   string            `json:"stderr,omitempty"`
	Log      string            `json:"log,omitempty"` // log file of the requests, one per line
	Env      bool              `json:"env,omitempty"` // adds a tool env that returns its environment
	// Flood maps methods to what is written instead of a response: text, a newline, and more text
	// that is repeated endlessly.
	Flood map[string]string `json:"flood,omitempty"`
	Deaf  []string          `json:"deaf,omitempty"`  // methods after whose response nothing is read
	Child string            `json:"child,omitempty"` // file for the ID of a process that is started and left behind
}

// Skill is a skill and how its description is wrong.
type Skill struct {
	URI       string            `json:"uri"`
	Front     map[string]any    `json:"front,omitempty"`
	Files     map[string]string `json:"files"`               // by path, as listed in the entry
	Served    map[string]string `json:"served,omitempty"`    // what resources/read returns instead
	Extra     map[string]string `json:"extra,omitempty"`     // served but not listed
	Resources any               `json:"resources,omitempty"` // replaces the correct list
	Unlisted  bool              `json:"unlisted,omitempty"`  // skills/get knows it, skills/list does not
	// Next is the skill from the second listing on.
	Next *Skill `json:"next,omitempty"`
}

// Text returns a SKILL.md.
func Text(name, description, body string) string {
	return "---\nname: " + name + "\ndescription: " + description + "\n---\n" + body + "\n"
}

// Plain returns a correct skill of a server.
func Plain(name string, files map[string]string) Skill {
	all := map[string]string{"SKILL.md": Text(name, "Does "+name+".", "Do it. See references/a.md.")}
	maps.Copy(all, files)
	return Skill{URI: "skill://" + name + "/SKILL.md", Front: map[string]any{"name": name, "description": "Does " + name + "."}, Files: all}
}

func (k Skill) folder() string { return strings.TrimSuffix(k.URI, "/SKILL.md") }

func (k Skill) entry() map[string]any {
	res := k.Resources
	if res == nil {
		var list []any
		for _, p := range slices.Sorted(maps.Keys(k.Files)) {
			sum := sha256.Sum256([]byte(k.Files[p]))
			list = append(list, map[string]any{"uri": k.folder() + "/" + p, "digest": "sha256:" + hex.EncodeToString(sum[:]), "size": len(k.Files[p])})
		}
		res = list
	}
	return map[string]any{"uri": k.URI, "frontmatter": k.Front, "resources": res}
}

// Server runs a script.
type Server struct {
	script Script

	mu       sync.Mutex
	requests []string
	lists    int
	calls    int
	last     map[string]json.RawMessage // params of the last request, by method
}

// New creates a server.
func New(s Script) *Server { return &Server{script: s, last: map[string]json.RawMessage{}} }

// Requests returns the methods that were called, with the URIs that were read.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Params returns the parameters of the last request of a method.
func (s *Server) Params(method string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.last[method])
}

type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

type failure struct {
	code int
	text string
}

// answer returns the lines to send, or none for a notification. die ends the process.
func (s *Server) answer(q request) (lines []string, hang, die bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var p struct {
		URI    string `json:"uri"`
		Cursor string `json:"cursor"`
		Name   string `json:"name"`
	}
	_ = json.Unmarshal(q.Params, &p)
	line := strings.TrimSpace(q.Method + " " + p.URI + p.Name)
	s.requests = append(s.requests, line)
	s.last[q.Method] = q.Params
	if s.script.Log != "" {
		if f, err := os.OpenFile(s.script.Log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
			fmt.Fprintln(f, line)
			f.Close()
		}
	}
	switch {
	case slices.Contains(s.script.Die, q.Method):
		return nil, false, true
	case slices.Contains(s.script.Hang, q.Method):
		return nil, true, false
	case s.script.Raw[q.Method] != "":
		return []string{strings.ReplaceAll(s.script.Raw[q.Method], "$ID", string(q.ID))}, false, false
	case q.ID == nil:
		return nil, false, false
	}
	result, bad := s.result(q, p.URI, p.Cursor, p.Name)
	out := map[string]any{"jsonrpc": "2.0", "id": q.ID, "result": result}
	if bad != nil {
		out = map[string]any{"jsonrpc": "2.0", "id": q.ID, "error": map[string]any{"code": bad.code, "message": bad.text}}
	}
	b, _ := json.Marshal(out)
	lines = append(lines, string(b))
	if q.Method == "tools/call" && s.calls == 1 && s.script.Later != nil {
		lines = append([]string{`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`}, lines...)
	}
	return lines, false, false
}

func (s *Server) result(q request, uri, cursor, name string) (any, *failure) {
	switch q.Method {
	case "initialize":
		caps := map[string]any{"resources": map[string]any{}, "tools": map[string]any{"listChanged": true}}
		if !s.script.NoSkills {
			caps["extensions"] = map[string]any{"io.modelcontextprotocol/skills": map[string]any{"directoryRead": !s.script.Flat}}
		}
		v := s.script.Revision
		if v == "" {
			v = "2025-11-25"
		}
		return map[string]any{"protocolVersion": v, "capabilities": caps, "serverInfo": map[string]any{"name": s.script.Name, "version": "1"}}, nil
	case "tools/list":
		tools := s.script.Tools
		if s.calls > 0 && s.script.Later != nil {
			tools = s.script.Later
		}
		if s.script.Env {
			tools = append(tools, Tool("env"))
		}
		if tools == nil {
			tools = []map[string]any{}
		}
		return map[string]any{"tools": tools}, nil
	case "tools/call":
		s.calls++
		if s.script.Env && name == "env" {
			return Words(strings.Join(append(os.Environ(), fmt.Sprintf("PID=%d", os.Getpid())), "\n")), nil
		}
		if r, ok := s.script.Results[name]; ok {
			return r, nil
		}
		return Words("did " + name), nil
	case "skills/list":
		return s.listed(cursor), nil
	case "skills/get":
		for _, k := range s.script.Skills {
			if k.URI == uri {
				return map[string]any{"skill": k.now(s.lists).entry()}, nil
			}
		}
		return nil, &failure{-32602, "no skill"}
	case "resources/read":
		return s.read(uri)
	case "resources/directory/read":
		return map[string]any{"resources": s.children(uri)}, nil
	}
	return nil, &failure{-32601, "no method " + q.Method}
}

func (k Skill) now(lists int) Skill {
	if k.Next != nil && lists > 1 {
		return *k.Next
	}
	return k
}

func (s *Server) listed(cursor string) any {
	if cursor == "" {
		s.lists++
	}
	all := []any{}
	for _, k := range s.script.Skills {
		if !k.Unlisted {
			all = append(all, k.now(s.lists).entry())
		}
	}
	size := s.script.PageSize
	if size <= 0 {
		size = max(len(all), 1)
	}
	var from int
	_, _ = fmt.Sscanf(cursor, "at-%d", &from)
	if s.script.Loop {
		return map[string]any{"skills": all[:min(len(all), 1)], "nextCursor": "at-0"}
	}
	to := min(from+size, len(all))
	r := map[string]any{"skills": all[from:to]}
	if to < len(all) {
		r["nextCursor"] = fmt.Sprintf("at-%d", to)
	}
	return r
}

func (s *Server) read(uri string) (any, *failure) {
	for _, k := range s.script.Skills {
		k = k.now(s.lists)
		p, ok := strings.CutPrefix(uri, k.folder()+"/")
		if !ok {
			continue
		}
		for _, files := range []map[string]string{k.Served, k.Extra, k.Files} {
			if text, there := files[p]; there {
				return map[string]any{"contents": []any{map[string]any{"uri": uri, "mimeType": "text/plain", "text": text}}}, nil
			}
		}
	}
	return nil, &failure{-32602, "no resource"}
}

// children returns the files below a URI, including those that no entry lists.
func (s *Server) children(uri string) []any {
	out := []any{}
	for _, k := range s.script.Skills {
		for _, files := range []map[string]string{k.Files, k.Extra} {
			for _, p := range slices.Sorted(maps.Keys(files)) {
				if at := k.folder() + "/" + p; strings.HasPrefix(at, uri+"/") {
					out = append(out, map[string]any{"uri": at, "name": p, "mimeType": "text/plain"})
				}
			}
		}
	}
	return out
}

// Tool returns a tool that takes a text.
func Tool(name string) map[string]any {
	return map[string]any{"name": name, "description": "Does " + name, "inputSchema": map[string]any{"type": "object", "properties": map[string]any{"text": map[string]any{"type": "string"}}}}
}

// Words returns a text result.
func Words(text string) map[string]any {
	return map[string]any{"content": []any{map[string]any{"type": "text", "text": text}}}
}

// Serve serves a pair of streams until the input ends.
func (s *Server) Serve(in io.Reader, out io.Writer) {
	if s.script.Stderr != "" {
		fmt.Fprintln(os.Stderr, s.script.Stderr)
	}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		var q request
		if json.Unmarshal(line, &q) == nil && q.Method != "" {
			answers, _, die := s.answer(q)
			if die {
				os.Exit(3)
			}
			if text := s.script.Flood[q.Method]; text != "" {
				first, then, _ := strings.Cut(text, "\n")
				for _, err := io.WriteString(out, first); err == nil; {
					_, err = io.WriteString(out, then)
				}
				return
			}
			for _, a := range answers {
				_, _ = io.WriteString(out, a+"\n")
			}
			if slices.Contains(s.script.Deaf, q.Method) {
				s.wait()
			}
		}
		if err != nil {
			break
		}
	}
	if s.script.Stubborn {
		s.wait()
	}
}

// wait blocks until the process is killed.
func (s *Server) wait() {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt)
	<-stop
}

// child starts a process that keeps the streams open and does not end on its own. It writes the
// process ID to the file.
func (s *Server) child() {
	if s.script.Child == "" {
		return
	}
	c := exec.Command(os.Args[0])
	c.Env, c.Stdin, c.Stdout, c.Stderr = []string{waiter + "=1"}, os.Stdin, os.Stdout, os.Stderr
	if err := c.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	_ = os.WriteFile(s.script.Child, fmt.Appendf(nil, "%d", c.Process.Pid), 0o600)
}

// ServeHTTP serves HTTP, without sessions.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		http.Error(w, "no", http.StatusMethodNotAllowed)
		return
	}
	var q request
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, "no", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.last["header"], _ = json.Marshal(r.Header)
	s.mu.Unlock()
	answers, hang, _ := s.answer(q)
	switch {
	case hang:
		<-r.Context().Done()
	case len(answers) == 0:
		w.WriteHeader(http.StatusAccepted)
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answers[len(answers)-1])
	}
}

// Variable is the environment variable with the script file of a program that runs one; see Main.
const (
	Variable = "HOSTTEST_SCRIPT"
	waiter   = "HOSTTEST_WAIT" // the program waits until it is killed
)

// Main runs the script named by the environment, if any, and exits the process. Test programs call
// it first.
func Main() {
	if os.Getenv(waiter) != "" {
		(&Server{}).wait()
	}
	file := os.Getenv(Variable)
	if file == "" {
		return
	}
	b, err := os.ReadFile(file)
	var s Script
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	x := New(s)
	x.child()
	x.Serve(os.Stdin, os.Stdout)
	os.Exit(0)
}
