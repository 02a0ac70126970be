package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/internal/testenv"
	"metier/run"
)

const (
	adaToken = "ada-token-0123456789"
	bobToken = "bob-token-0123456789"
)

// client sends the requests of one user.
type client struct {
	t     *testing.T
	base  string
	token string
}

func (c client) do(method, path, body string, want int) []byte {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.base+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	if resp.StatusCode != want {
		c.t.Fatalf("%s %s: status %d, want %d: %s", method, path, resp.StatusCode, want, b)
	}
	return b
}

// start starts a run and returns its ID.
func (c client) start(body string) string {
	c.t.Helper()
	var out struct{ Run string }
	if err := json.Unmarshal(c.do("POST", "/runs", body, http.StatusAccepted), &out); err != nil {
		c.t.Fatal(err)
	}
	return out.Run
}

// events follows a run to its end and returns the types of its events.
func (c client) events(id string) (types []string) {
	c.t.Helper()
	lines := bufio.NewScanner(strings.NewReader(string(c.do("GET", "/runs/"+id+"/events", "", http.StatusOK))))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if typ, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			types = append(types, typ)
		}
	}
	return types
}

func serve(t *testing.T, model string, environ ...string) (ada, bob client) {
	t.Helper()
	data := t.TempDir()
	s, err := newServer(data, "ada:"+adaToken+",bob:"+bobToken, model, environ)
	if err != nil {
		t.Fatal(err)
	}
	shelf := t.TempDir()
	for name, text := range map[string]string{
		filepath.Join(shelf, "count", "SKILL.md"):                              "---\nname: count\ndescription: Count. Use when asked.\n---\nRun scripts/count.sh.\n",
		filepath.Join(shelf, "count", "scripts", "count.sh"):                   "#!/bin/sh\necho counted\n",
		filepath.Join(data, "ada", "home", ".config", "metier", "config.yaml"): "skills: [{path: " + shelf + ", tier: third_party}]\nallow_skill_scripts: ['count:scripts/count.sh']\n",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	srv := httptest.NewServer(s.handler())
	t.Cleanup(func() {
		srv.Close()
		for _, u := range s.users {
			u.work.Wait()
		}
	})
	return client{t, srv.URL, adaToken}, client{t, srv.URL, bobToken}
}

func TestServer_RunsOfTwoUsers(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		testenv.Skip(t, "scripts run on Linux only")
	}
	script := filepath.Join(t.TempDir(), "turns.yaml")
	turns := `turns:
  - when: '{{ offered "run_skill_script" }}'
    calls: [{tool: load_skill, args: {name: count}}]
  - when: '{{ offered "run_skill_script" }}'
    calls: [{tool: run_skill_script, args: {skill: count, path: scripts/count.sh}}]
  - say: Done.
`
	if err := os.WriteFile(script, []byte(turns), 0o600); err != nil {
		t.Fatal(err)
	}
	ada, bob := serve(t, "scripted:"+script)
	id := ada.start(`{"prompt": "Count.", "tools": ["default", "run_skill_script"]}`)
	first := ada.events(id)
	if first[len(first)-1] != "run.parked" {
		t.Fatalf("events: %v", first)
	}

	// Another user can neither see, answer, nor cancel it.
	if diff := cmp.Diff("[]\n", string(bob.do("GET", "/runs", "", http.StatusOK))); diff != "" {
		t.Errorf("runs of the other user (-want +got):\n%s", diff)
	}
	bob.do("GET", "/runs/"+id+"/events", "", http.StatusNotFound)
	bob.do("POST", "/runs/"+id+"/answer", `{"allow": true}`, http.StatusNotFound)
	bob.do("POST", "/runs/"+id+"/cancel", "", http.StatusNotFound)
	client{t, ada.base, "nobody"}.do("GET", "/runs", "", http.StatusUnauthorized)
	ada.do("GET", "/runs/..%2f..%2fbob/events", "", http.StatusBadRequest)

	ada.do("POST", "/runs/"+id+"/answer", `{"allow": true}`, http.StatusAccepted)
	var last []string
	for len(last) == 0 || last[len(last)-1] == "run.parked" {
		last = ada.events(id)
	}
	if last[len(last)-1] != "run.ended" {
		t.Errorf("events: %v", last)
	}
	ada.do("POST", "/runs/"+id+"/cancel", "", http.StatusNotFound) // it is over
	if diff := cmp.Diff(first, last[:len(first)]); diff != "" {
		t.Errorf("events before the answer (-then +now):\n%s", diff)
	}
	var runs []run.Summary
	if err := json.Unmarshal(ada.do("GET", "/runs", "", http.StatusOK), &runs); err != nil {
		t.Fatal(err)
	}
	if len(runs) != 1 || runs[0].ID != id {
		t.Errorf("runs: %+v", runs)
	}
	bob.events(bob.start(`{"prompt": "Say done."}`))
}

// A user's name is the name of a folder in the data.
func TestNewServer_RefusesNamesThatLeaveTheData(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", ".", "..", "a/b"} {
		if _, err := newServer(t.TempDir(), name+":"+adaToken, "", nil); err == nil {
			t.Errorf("name %q is taken", name)
		}
	}
}

func TestServer_CancelStopsARun(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	model := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(model.Close)
	ada, _ := serve(t, "vllm:slow", "VLLM_BASE_URL="+model.URL)
	id := ada.start(`{"prompt": "Think."}`)
	<-asked
	ada.do("POST", "/runs/"+id+"/cancel", "", http.StatusAccepted)
	// The record shows that the run can be continued: it has no end.
	for _, typ := range ada.events(id) {
		if typ == "run.ended" {
			t.Error("the run ended")
		}
	}
}

// A user answers the questions of a run, but cannot read files of another user: no
// question is about paths outside of the workspace.
func TestServer_ReadsOutsideOfTheWorkspaceAreRefused(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "turns.yaml")
	ada, _ := serve(t, "scripted:"+script)
	secret := filepath.Join(t.TempDir(), "secret.txt")
	turns := "turns:\n  - calls:\n      - {tool: read_file, args: {path: " + secret + "}}\n      - {tool: search_files, args: {path: " + filepath.Dir(secret) + ", pattern: s}}\n  - say: Done.\n"
	for name, text := range map[string]string{script: turns, secret: "secret\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	events := ada.events(ada.start(`{"prompt": "Read."}`))
	if last := events[len(events)-1]; last != "run.ended" || slices.Contains(events, "approval.asked") {
		t.Errorf("events: %v", events)
	}
}
