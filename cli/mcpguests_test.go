package cli_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"metier/internal/testenv"
	"metier/mcp/server"
)

// web is a `metier mcp --http` that a test started.
type web struct {
	p   *place
	cmd *exec.Cmd
	url string
	err *bufio.Reader
}

// servesHTTP starts the server and waits until it serves.
func (p *place) servesHTTP(args ...string) *web {
	p.t.Helper()
	w := &web{p: p, cmd: p.command("metier", append([]string{"mcp", "--http", "127.0.0.1:0", "--watch", "0"}, args...)...)}
	stderr, err := w.cmd.StderrPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := w.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = w.cmd.Process.Kill(); _ = w.cmd.Wait() }) // for a server that the test did not end
	w.err = bufio.NewReader(stderr)
	line, err := w.err.ReadString('\n')
	var is bool
	if w.url, is = strings.CutPrefix(strings.TrimSpace(line), "serving skills at "); err != nil || !is {
		p.t.Fatalf("%q, %v", line, err)
	}
	return w
}

// end interrupts or kills the server, and returns the rest of its output.
func (w *web) end(kill bool) string {
	w.p.t.Helper()
	signal := os.Signal(os.Interrupt)
	if kill {
		signal = os.Kill
	}
	if err := w.cmd.Process.Signal(signal); err != nil {
		w.p.t.Fatal(err)
	}
	said, _ := io.ReadAll(w.err)
	_ = w.cmd.Wait()
	if killed := testenv.Killed(w.cmd.ProcessState); killed != kill || !kill && !w.cmd.ProcessState.Success() {
		w.p.t.Errorf("kill %t: %s: %s", kill, w.cmd.ProcessState, said)
	}
	return string(said)
}

// client connects over HTTP.
func (w *web) client(version string) mcpClient {
	w.p.t.Helper()
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(w.p.t.Context(), &mcp.StreamableClientTransport{Endpoint: w.url}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		w.p.t.Fatal(err)
	}
	w.p.t.Cleanup(func() { _ = c.Close() })
	return mcpClient{c, w.p.t}
}

// recorded returns the output of 'metier runs list', oldest first.
func (p *place) recorded() (ids, states []string) {
	p.t.Helper()
	exit, out := p.metier("runs", "list", "--json")
	var doc struct {
		Runs []struct{ ID, Status, Problem string } `json:"runs"`
	}
	if err := json.Unmarshal([]byte(out), &doc); exit != 0 || err != nil {
		p.t.Fatalf("exit %d: %s", exit, out)
	}
	for _, r := range doc.Runs {
		if r.Problem != "" {
			p.t.Errorf("%s: %s", r.ID, r.Problem)
		}
		ids, states = append(ids, r.ID), append(states, r.Status)
	}
	slices.Reverse(ids)
	slices.Reverse(states)
	return ids, states
}

// Anonymous requests share one record and nothing else: a skill that one loads is not active for
// the next. The record contains all of them, verifies, and says whether the server ended or was
// killed.
func TestRequestsOfNobodyShareARecordAndNoSession(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(map[string]string{"shelf/other/SKILL.md": "---\nname: other\ndescription: Another.\n---\nOther text.\n"})
	for _, kill := range []bool{false, true} {
		w := p.servesHTTP("--allow-skill-script", "report:scripts/a.sh")
		c := w.client("2026-07-28")
		for _, name := range []string{"report", "other", "report"} {
			if text, ok, _ := c.call("load_skill", map[string]any{"name": name}); !ok {
				t.Errorf("%s: %s", name, text)
			}
		}
		if text, ok, _ := c.call("run_skill_script", map[string]any{"skill": "report", "path": "scripts/a.sh"}); ok || !strings.Contains(text, "skill_activations_missing") && !strings.Contains(text, "not_activated") {
			t.Errorf("a script of a skill that another request loaded: %s", text)
		}
		if _, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "skill://shelf/other/SKILL.md"}); err != nil {
			t.Error(err)
		}
		if _, states := p.recorded(); states[len(states)-1] != "open" {
			t.Errorf("while it is served: %q", states)
		}
		w.end(kill)
	}
	ids, states := p.recorded()
	if len(ids) != 2 || !slices.Equal(states, []string{"ended", "interrupted"}) {
		t.Fatalf("records %q: %q", ids, states)
	}
	for _, id := range ids {
		if exit, out := p.metier("audit", "verify", id); exit != 0 {
			t.Errorf("%s: exit %d: %s", id, exit, out)
		}
		_, out := p.metier("runs", "show", id, "--json")
		var r struct {
			Calls       int
			Activations []struct{ Name string }
			Reads       []struct{ Path string }
		}
		if err := json.Unmarshal([]byte(out), &r); err != nil || r.Calls != 5 || len(r.Reads) != 1 {
			t.Errorf("%s: %v, %s", id, err, out)
		}
		var names []string
		for _, a := range r.Activations {
			names = append(names, a.Name)
		}
		if want := []string{"report", "other", "report"}; !slices.Equal(names, want) {
			t.Errorf("%s: activations %q, want %q", id, names, want)
		}
	}
}

// Only the newest of these records are kept, across servers that ended or were killed. The current
// record names the removed ones with their final hashes.
func TestOldRecordsOfNobodyAreRemovedAndNamed(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	if exit, out := p.metier("exec", "report", "scripts/a.sh"); exit != 0 {
		t.Fatalf("exit %d: %s", exit, out)
	}
	mine, _ := p.recorded()
	heads := map[string]string{}
	for i := range 4 {
		w := p.servesHTTP("--anonymous-records", "2")
		w.client("2026-07-28").call("load_skill", map[string]any{"name": "report"})
		said := w.end(i == 0)
		if removed := strings.Contains(said, "record_removed"); removed != (i > 1) {
			t.Errorf("server %d said %q", i, said)
		}
		ids, _ := p.recorded()
		id := ids[len(ids)-1]
		log, err := os.ReadFile(filepath.Join(p.dir, ".metier", "runs", id, "events.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256([]byte(lastLine(string(log))))
		heads[id] = "sha256:" + hex.EncodeToString(sum[:])
		for old, head := range heads {
			kept := slices.Contains(ids, old)
			if named := strings.Contains(string(log), `"code":"record_removed","on":"`+old+"@"+head); !kept && !named && len(heads) < 4 {
				t.Errorf("%s was removed, and the record does not say so: %s", old, log)
			}
		}
	}
	ids, _ := p.recorded()
	if len(ids) != 3 || ids[0] != mine[0] {
		t.Errorf("left: %q; the run was %q", ids, mine)
	}
	left, err := os.ReadDir(filepath.Join(p.home, ".local", "state", "metier", "heads"))
	if err != nil || len(left) != 3 {
		t.Errorf("%d files of heads, %v", len(left), err)
	}
}

func lastLine(s string) string {
	s = strings.TrimSuffix(s, "\n")
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// With many concurrent clients, no call is lost, and reads return the content of the files. (bench/
// has the long form, with figures.)
func TestNoCallIsLostUnderLoad(t *testing.T) {
	t.Parallel()
	const calls = 24
	clients := testenv.Count(8, 64)
	p := newPlace(t)
	files, sums := map[string]string{}, map[string]string{}
	for i := range 40 {
		name := fmt.Sprintf("s%02d", i)
		text := fmt.Sprintf("---\nname: %s\ndescription: Number %d.\n---\nThe text of %s.\n", name, i, name)
		files["shelf/"+name+"/SKILL.md"], files["shelf/"+name+"/notes.md"] = text, "Notes of "+name+".\n"
		for file, text := range map[string]string{"SKILL.md": text, "notes.md": "Notes of " + name + ".\n"} {
			sum := sha256.Sum256([]byte(text))
			sums["skill://shelf/"+name+"/"+file] = hex.EncodeToString(sum[:])
		}
	}
	p.write(files)
	w := p.servesHTTP()
	var wg sync.WaitGroup
	for i := range clients {
		c := w.client([]string{"2026-07-28", "2025-11-25"}[i%4/3])
		wg.Go(func() {
			for n := range calls {
				if err := oneOf(c, (i+n)%3, fmt.Sprintf("s%02d", (i*7+n)%40), sums); err != nil {
					t.Errorf("client %d, call %d: %v", i, n, err)
				}
			}
		})
	}
	wg.Wait()
	if said := w.end(false); strings.Contains(said, "ERROR") {
		t.Errorf("the server said %s", said)
	}
	ids, states := p.recorded()
	whole := 0
	for i, id := range ids {
		if states[i] != "ended" {
			t.Errorf("%s is %s", id, states[i])
		}
		if strings.HasSuffix(id, "-anonymous") {
			whole++
		}
	}
	if want := clients/4*3*calls*4/3/1000 + 1; whole != want || len(ids) != want+clients/4 {
		t.Errorf("%d records, %d of them of nobody, want %d and %d", len(ids), whole, want+clients/4, want)
	}
}

// oneOf makes one call of a kind and checks the answer.
func oneOf(c mcpClient, kind int, name string, sums map[string]string) error {
	switch kind {
	case 0:
		r, err := c.CallTool(c.t.Context(), &mcp.CallToolParams{Name: "load_skill", Arguments: map[string]any{"name": name}})
		if err != nil {
			return err
		}
		data, _ := r.Meta[server.DetailKey].(map[string]any)
		if text := r.Content[0].(*mcp.TextContent).Text; r.IsError || data["hash"] != "sha256:"+sums["skill://shelf/"+name+"/SKILL.md"] || !strings.Contains(text, "The text of "+name+".") {
			return fmt.Errorf("load_skill %s: %+v", name, r)
		}
		return nil
	case 1:
		r, err := c.CallTool(c.t.Context(), &mcp.CallToolParams{Name: "search_skills", Arguments: map[string]any{"query": name}})
		if err == nil && r.IsError {
			err = errors.New(r.Content[0].(*mcp.TextContent).Text)
		}
		return err
	}
	for _, file := range []string{"SKILL.md", "notes.md"} {
		uri := "skill://shelf/" + name + "/" + file
		r, err := c.ReadResource(c.t.Context(), &mcp.ReadResourceParams{URI: uri})
		if err != nil {
			return err
		}
		if sum := sha256.Sum256([]byte(r.Contents[0].Text)); hex.EncodeToString(sum[:]) != sums[uri] {
			return fmt.Errorf("%s is %q", uri, r.Contents[0].Text)
		}
	}
	return nil
}

// bearing reaches the server with a token.
func (w *web) bearing(token string) mcp.Transport {
	return &mcp.StreamableClientTransport{Endpoint: w.url, HTTPClient: &http.Client{Transport: bearer(token)}}
}

type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}
