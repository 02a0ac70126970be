package host_test

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"metier/mcp/host"
	"metier/mcp/host/hosttest"
)

// instead answers one method in another way, and everything else as the script
// does.
func instead(far *hosttest.Server, method string, write func(w http.ResponseWriter, id json.RawMessage)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		var q struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if json.Unmarshal(body, &q) == nil && q.Method == method && q.ID != nil {
			write(w, q.ID)
			return
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		far.ServeHTTP(w, r)
	})
}

// without end writes a text until the reader stops, and reports how much it
// wrote.
func without(w io.Writer, text string) (n int64) {
	for {
		m, err := io.WriteString(w, text)
		n += int64(m)
		if err != nil {
			return n
		}
	}
}

// A server that sends without end harms only its own calls. Each case has its
// error code, which comes well before the call's own time limit.
func TestFloodsEnd(t *testing.T) {
	t.Parallel()
	o := &host.Options{Message: 4 << 20, Grace: 100 * time.Millisecond}
	tools := []map[string]any{hosttest.Tool("x")}
	sse := func(first, then string) func(http.ResponseWriter, json.RawMessage) {
		return func(w http.ResponseWriter, id json.RawMessage) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, strings.ReplaceAll(first, "$ID", string(id)))
			without(w, then)
		}
	}
	answer := `{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"`
	for name, c := range map[string]struct {
		flood string                                          // over stdio
		write func(w http.ResponseWriter, id json.RawMessage) // over HTTP
		code  string
		text  string
	}{
		"stdio: a line without end":   {flood: "\n" + strings.Repeat("x", 4096), code: "mcp_"},
		"stdio: a string without end": {flood: `{"a":"` + "\n" + strings.Repeat("x", 4096), code: "mcp_too_much"},
		"stdio: depth without end":    {flood: "\n" + strings.Repeat("[", 4096), code: "mcp_too_deep"},
		"stdio: objects without end":  {flood: "\n" + strings.Repeat(`{"a":`, 4096), code: "mcp_too_deep"},
		"stdio: values without end":   {flood: "\n" + "[" + strings.Repeat("[],", 100_000), code: "mcp_too_much", text: "too many values, more than 1000000"},
		"stdio: blanks without end":   {flood: strings.Repeat("\n", 4096), code: "mcp_too_much"},
		"HTTP: a body without end": {write: func(w http.ResponseWriter, id json.RawMessage) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, strings.ReplaceAll(answer, "$ID", string(id)))
			without(w, strings.Repeat("x", 4096))
		}, code: "mcp_too_much"},
		"HTTP: depth": {write: func(w http.ResponseWriter, id json.RawMessage) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s1%s}`, id, strings.Repeat(`{"a":`, 900), strings.Repeat("}", 900))
		}, code: "mcp_too_deep"},
		"HTTP: values": {write: func(w http.ResponseWriter, id json.RawMessage) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[],"_meta":{"a":[0%s]}}}`, id, strings.Repeat(",0", 1_100_000))
		}, code: "mcp_too_much"},
		"HTTP: a bomb": {write: func(w http.ResponseWriter, id json.RawMessage) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			fmt.Fprint(z, strings.ReplaceAll(answer, "$ID", string(id)))
			for range 1024 {
				_, _ = z.Write([]byte(strings.Repeat("x", 64<<10)))
			}
			fmt.Fprint(z, `"}]}}`)
			_ = z.Close()
		}, code: "mcp_too_much"},
		"HTTP: a failure without end": {write: func(w http.ResponseWriter, _ json.RawMessage) {
			w.WriteHeader(http.StatusInternalServerError)
			without(w, strings.Repeat("x", 4096))
		}, code: "mcp_error"},
		"HTTP: an event without end":  {write: sse("data: ", strings.Repeat("x", 4096)), code: "mcp_"},
		"HTTP: events without end":    {write: sse("", `data: {"jsonrpc":"2.0","method":"notifications/x","params":{"a":"`+strings.Repeat("x", 60<<10)+`"}}`+"\n\n"), code: "mcp_too_much"},
		"HTTP: comments without end":  {write: sse("", ": still here "+strings.Repeat("x", 60<<10)+"\n\n"), code: "mcp_too_much"},
		"HTTP: depth in an event":     {write: sse("", "data: "+strings.Repeat("[", 4096)+"\n"), code: "mcp_too_deep"},
		"HTTP: depth behind comments": {write: sse("", "data: "+strings.Repeat("[", 50)+"\n: "+strings.Repeat("]", 50)+"\n"), code: "mcp_too_deep"},
		"HTTP: depth over many lines": {write: sse("", "data: [\n"), code: "mcp_too_deep"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script := hosttest.Script{Tools: tools}
			var srv host.Server
			if c.write == nil {
				script.Flood = map[string]string{"tools/call": c.flood}
				srv = stdio(t, "s", script)
			} else {
				srv = overHTTP(t, "s", instead(hosttest.New(script), "tools/call", c.write))
			}
			srv.ReadOnly = []string{"x"}
			obs := call(t, session(t, open(t, o, srv), nil), "mcp__s__x", `{}`)
			if got := obs.Code(); !strings.HasPrefix(got, c.code) || got == "mcp_timeout" || !strings.Contains(obs.Text(), c.text) {
				t.Errorf("%q %q", got, obs.Text())
			}
		})
	}
}

// Over HTTP the answers to a server's requests are bounded too: it may leave them
// all without a response.
func TestRepliesOverHTTPAreBounded(t *testing.T) {
	t.Parallel()
	far := hosttest.New(hosttest.Script{Tools: []map[string]any{hosttest.Tool("x")}, Results: map[string]any{"x": hosttest.Words("well")}})
	var now, most atomic.Int64
	enough := make(chan struct{}) // more replies are in flight than allowed
	ping := func(w io.Writer) {
		for i := range 2000 {
			fmt.Fprintf(w, `data: {"jsonrpc":"2.0","id":"p%d","method":"ping"}`+"\n\n", i)
		}
	}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		var q struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.Unmarshal(body, &q)
		switch {
		case r.Method == http.MethodPost && q.Method == "": // a reply
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
				if n == 9 {
					close(enough)
				}
			}
			defer now.Add(-1)
			<-r.Context().Done()
		case q.Method == "tools/call":
			w.Header().Set("Content-Type", "text/event-stream")
			ping(w)
			select {
			case <-enough:
			case <-r.Context().Done():
			}
		default:
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			far.ServeHTTP(w, r)
		}
	})
	srv := overHTTP(t, "s", h)
	srv.ReadOnly, srv.CallMS = []string{"x"}, 2000
	obs := call(t, session(t, open(t, nil, srv), nil), "mcp__s__x", `{}`)
	if obs.Code() == "" || most.Load() == 0 || most.Load() > 8 {
		t.Errorf("%d replies at a time, and the call ends as %q %s", most.Load(), obs.Code(), obs.Text())
	}
}

// The control: the depth that a schema or a result may have.
func TestDepthThatIsUsualIsTaken(t *testing.T) {
	t.Parallel()
	deep := map[string]any{"type": "string"}
	for range 20 {
		deep = map[string]any{"type": "object", "properties": map[string]any{"a": deep}}
	}
	script := hosttest.Script{Tools: []map[string]any{{"name": "x", "inputSchema": deep}}, Results: map[string]any{"x": hosttest.Words(strings.Repeat("[{", 5000) + "\"\\")}}
	for name, srv := range map[string]host.Server{"stdio": stdio(t, "s", script), "HTTP": overHTTP(t, "s", hosttest.New(script))} {
		h := open(t, nil, srv)
		if o := call(t, session(t, h, nil), "mcp__s__x", `{}`); o.Code() != "" || !strings.Contains(o.Text(), ">\n[{[{") {
			t.Errorf("%s: %q %q %v", name, o.Code(), clip(o.Text()), h.Notes())
		}
	}
}

func clip(s string) string { return s[:min(len(s), 200)] }

func TestListsOfToolsAreBounded(t *testing.T) {
	t.Parallel()
	var many, large strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&many, `,{"name":"t%05d","inputSchema":{"type":"object"}}`, i)
	}
	for i := range 100 {
		fmt.Fprintf(&large, `,{"name":"t%05d","description":"%s","inputSchema":{"type":"object"}}`, i, strings.Repeat("d", 9000))
	}
	far := hosttest.New(hosttest.Script{})
	page := 0
	for name, c := range map[string]struct {
		h    http.Handler
		code string
		n    int
	}{
		"100,000 tools": {instead(far, "tools/list", func(w http.ResponseWriter, id json.RawMessage) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[%s]}}`, id, many.String()[1:])
		}), "mcp-tools-cut", 512},
		"large definitions": {instead(far, "tools/list", func(w http.ResponseWriter, id json.RawMessage) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[%s]}}`, id, large.String()[1:])
		}), "mcp-tools-cut", 63},
		"pages without end": {instead(far, "tools/list", func(w http.ResponseWriter, id json.RawMessage) {
			page++
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[],"nextCursor":"c%d"}}`, id, page)
		}), "mcp-server-failed", 0},
	} {
		h := open(t, nil, overHTTP(t, "s", c.h))
		if codes(h) != c.code || len(h.Tools()) != c.n {
			t.Errorf("%s: %d tools, notes %v", name, len(h.Tools()), h.Notes())
		}
	}
}

// A list of skills is bounded in pages and bytes, whatever its cursors are.
func TestListsOfSkillsEnd(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", 60<<10)
	for name, entry := range map[string]string{
		"pages with nothing": ``,
		"pages with much":    `{"uri":"skill://s%d/SKILL.md","frontmatter":{"name":"s%d","description":"d","x":"` + big + `"},"resources":[]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			page := 0
			h := instead(hosttest.New(hosttest.Script{}), "skills/list", func(w http.ResponseWriter, id json.RawMessage) {
				page++
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"skills":[%s],"nextCursor":"c%d"}}`, id, strings.ReplaceAll(entry, "%d", fmt.Sprint(page)), page)
			})
			srv := overHTTP(t, "far", h)
			srv.Skills = true
			x := open(t, &host.Options{Message: 1 << 20}, srv)
			n := build(t, host.Mount("far", x.Source("far")))
			found := false
			for _, d := range n.Diagnostics() {
				found = found || d.Code == "mcp-skills-cut"
			}
			if !found || page > 2100 || entry != "" && page > 40 {
				t.Errorf("%d pages, %d entries, %v", page, len(n.All()), found)
			}
		})
	}
}

// Whatever a server does, a call ends, and so does the host, with no process left.
func TestNoServerOutlivesTheHost(t *testing.T) {
	t.Parallel()
	big := `{"text":"` + strings.Repeat("x", 4<<20) + `"}`
	for name, c := range map[string]struct {
		script hosttest.Script
		args   string
		code   string // of the call; "": it succeeds
	}{
		"it ends":                      {hosttest.Script{}, `{}`, ""},
		"it stays when its input ends": {hosttest.Script{Stubborn: true}, `{}`, ""},
		"it reads nothing more":        {hosttest.Script{Deaf: []string{"tools/list"}}, big, "mcp_timeout"},
		"it dies":                      {hosttest.Script{Die: []string{"tools/call"}}, `{}`, "mcp_server_gone"},
		"it leaves a child":            {hosttest.Script{Child: "child"}, `{}`, ""},
		"it dies and leaves a child":   {hosttest.Script{Child: "child", Die: []string{"tools/call"}}, `{}`, "mcp_"},
		"it hangs and leaves a child":  {hosttest.Script{Child: "child", Hang: []string{"tools/call"}, Stubborn: true}, `{}`, "mcp_timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.script.Tools, c.script.Env = []map[string]any{hosttest.Tool("x")}, true
			child := ""
			if c.script.Child != "" {
				child = filepath.Join(t.TempDir(), "pid")
				c.script.Child = child
			}
			srv := stdio(t, "s", c.script)
			srv.CallMS, srv.ReadOnly = 1500, []string{"*"}
			h, err := host.Open(t.Context(), []host.Server{srv}, &host.Options{Grace: 200 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			s := session(t, h, nil)
			pid := 0
			if c.script.Deaf == nil && c.script.Die == nil && c.script.Hang == nil {
				_, tail, _ := strings.Cut(call(t, s, "mcp__s__env", `{}`).Text(), "PID=")
				if _, err := fmt.Sscan(tail, &pid); err != nil {
					t.Fatal(err)
				}
			}
			if o := call(t, s, "mcp__s__x", c.args); !strings.HasPrefix(o.Code(), c.code) || c.code == "" && o.Code() != "" {
				t.Errorf("%q %q", o.Code(), clip(o.Text()))
			}
			if err := h.Close(); err != nil {
				t.Error(err)
			}
			pids := []int{pid}
			if child != "" && runtime.GOOS != "windows" { // there are no groups
				b, err := os.ReadFile(child)
				var n int
				if _, bad := fmt.Sscan(string(b), &n); err != nil || bad != nil {
					t.Fatal(err, bad)
				}
				pids = append(pids, n)
			}
			for _, p := range pids {
				if p != 0 && alive(p) {
					t.Errorf("process %d is still there", p)
				}
			}
		})
	}
}

// alive reports whether a process exists and is not a zombie of another parent.
func alive(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil || p.Signal(syscall.Signal(0)) != nil {
		return false
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := strings.Cut(string(b), ") ")
	return err != nil || !strings.HasPrefix(after, "Z")
}
