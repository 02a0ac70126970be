package cli_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"metier/cli"
	"metier/internal/egress"
	"metier/internal/testenv"
	"metier/model/modeltest"
	"metier/run"
)

// deed is a call that the model makes, whatever it reads.
type deed struct{ tool, args string }

// enforced is a workspace in which a model makes the same calls in every run,
// through the command line, with the real sandbox.
type enforced struct {
	t   *testing.T
	dir string
	// internet, if set, is what the proxy of programs reaches.
	internet func(egress.Rules) (*egress.Proxy, error)
}

func newEnforced(t *testing.T, files map[string]string) *enforced {
	t.Helper()
	if runtime.GOOS != "linux" {
		testenv.Skip(t, "programs run in a sandbox on Linux only")
	}
	e := &enforced{t: t, dir: t.TempDir()}
	e.put(files)
	return e
}

func (e *enforced) put(files map[string]string) {
	e.t.Helper()
	putFiles(e.t, e.dir, files)
}

// putFiles writes files below a folder, by their slash-separated paths.
func putFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// there reports whether a file of the workspace exists.
func (e *enforced) there(name string) bool {
	_, err := os.Stat(filepath.Join(e.dir, name))
	return err == nil
}

// text returns the content of a workspace file.
func (e *enforced) text(name string) string {
	e.t.Helper()
	b, err := os.ReadFile(filepath.Join(e.dir, name))
	if err != nil {
		e.t.Error(err)
	}
	return string(b)
}

// kept is what a run left: what the model read, and the artifacts.
type kept struct {
	t        *testing.T
	exit     int
	errs     string
	folder   string
	requests []modeltest.Request
}

// run makes the model send each list of calls in its own turn, then end.
func (e *enforced) run(turns [][]deed, args ...string) kept {
	e.t.Helper()
	server := modeltest.OpenAI(e.t)
	var n atomic.Int64
	server.Answer(func(*modeltest.Request) modeltest.Turn {
		i := int(n.Add(1)) - 1
		if i >= len(turns) {
			return modeltest.Turn{Text: "Done."}
		}
		var out modeltest.Turn
		for _, d := range turns[i] {
			out.Calls = append(out.Calls, modeltest.Call{Tool: d.tool, Args: d.args})
		}
		return out
	})
	line := append([]string{"run", "--output-mode", "batch", "--model", "openai:test", "--artifact-root", filepath.Join(e.dir, "runs")}, args...)
	env := []string{"HOME=" + filepath.Join(e.dir, "home"), "OPENAI_BASE_URL=" + server.URL, "OPENAI_API_KEY=" + modeltest.Key, "METIER_CONFIG=" + configIn(e.dir), "PATH=" + os.Getenv("PATH")}
	k := kept{t: e.t}
	var out, errs bytes.Buffer
	before := e.folders()
	k.exit = cli.MainReaching(e.t.Context(), line, env, cli.IO{In: strings.NewReader(""), Out: &out, Err: &errs, Dir: e.dir}, e.internet)
	k.errs, k.requests = errs.String(), server.Requests()
	for _, f := range e.folders() {
		if !strings.Contains("\n"+strings.Join(before, "\n")+"\n", "\n"+f+"\n") {
			k.folder = f
		}
	}
	if k.folder == "" {
		e.t.Fatalf("exit %d, and no record\n%s\n%s", k.exit, out.Bytes(), errs.Bytes())
	}
	return k
}

func (e *enforced) folders() []string {
	match, err := filepath.Glob(filepath.Join(e.dir, "runs", "2*"))
	if err != nil {
		e.t.Fatal(err)
	}
	return match
}

// read returns what the model read of the calls of its first turn, in order.
func (k kept) read() []string {
	k.t.Helper()
	if len(k.requests) < 2 {
		k.t.Fatalf("the model was asked %d times: %s", len(k.requests), k.errs)
	}
	return k.requests[1].LastResults()
}

func (k kept) trace() run.PolicyTrace {
	k.t.Helper()
	return readArtifact[run.PolicyTrace](k.t, k.folder, run.FilePolicyTrace)
}

func (k kept) snapshot() run.PolicySnapshot {
	k.t.Helper()
	return readArtifact[run.PolicySnapshot](k.t, k.folder, run.FilePolicySnapshot)
}

// decision returns the decision about a call, before it acted.
func (k kept) decision(call string) (d run.Decision) {
	k.t.Helper()
	n := 0
	for _, x := range k.trace().Decisions {
		if x.Call == call && x.Stage == "call" {
			d, n = x, n+1
		}
	}
	if n != 1 {
		k.t.Errorf("%d decisions about %s", n, call)
	}
	return d
}

// told returns everything that was sent to the model.
func (k kept) told() string {
	var b strings.Builder
	for _, r := range k.requests {
		b.Write(r.Body)
	}
	return b.String()
}

func jsonText(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
