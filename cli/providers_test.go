package cli_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"metier/cli"
	"metier/model/modeltest"
	"metier/run"
)

// TestARunOfSeveralTurnsWithEachProvider runs the whole program against each provider's wire
// format: parallel calls, reasoning that must be returned unchanged, and tool names with dots,
// which no provider accepts.
func TestARunOfSeveralTurnsWithEachProvider(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(testing.TB) *modeltest.Server{"anthropic": modeltest.Anthropic, "openai": modeltest.OpenAI, "gemini": modeltest.Gemini} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			s.Answer(conversation)
			dir, out, errs := t.TempDir(), new(bytes.Buffer), new(bytes.Buffer)
			ws := filepath.Join(dir, "ws")
			if err := copyTree(filepath.Join("testdata", "ws"), ws); err != nil {
				t.Fatal(err)
			}
			upper := strings.ToUpper(name)
			env := []string{"HOME=" + filepath.Join(dir, "home"), upper + "_BASE_URL=" + s.URL, upper + "_API_KEY=" + modeltest.Key, "METIER_CONFIG=" + os.DevNull}
			code := cli.MainNoWait(t.Context(), []string{"run", "--profile", "agent-runtime", "--model", name + ":test-model", "--skills-root", "skills", "--skill", "greet",
				"--prompt", "Greet Ada.", "--artifact-root", filepath.Join(dir, "runs")}, env, cli.IO{In: strings.NewReader(""), Out: out, Err: errs, Dir: ws})
			if code != 0 || strings.TrimSpace(out.String()) != "Good to see you, Ada." {
				t.Fatalf("exit %d, answer %q\n%s", code, out, errs)
			}
			requests := s.Requests()
			if len(requests) != 3 {
				t.Fatalf("%d requests, want 3", len(requests))
			}
			for i, r := range requests {
				if r.Refused != "" {
					t.Errorf("request %d is refused: %s", i, r.Refused)
				}
				order(t, r)
			}
			if got := len(requests[1].LastResults()); got != 3 {
				t.Errorf("%d results came back for three calls", got)
			}
			validArtifacts(t, filepath.Join(dir, "runs"))
			if b, err := os.ReadFile(filepath.Join(ws, "greeting.txt")); err != nil || string(b) != "Good to see you, Ada.\n" {
				t.Errorf("greeting.txt holds %q, %v", b, err)
			}
			if code := cli.Main(t.Context(), []string{"audit", "verify", "latest", "--artifact-root", filepath.Join(dir, "runs")}, env, cli.IO{In: strings.NewReader(""), Out: out, Err: errs, Dir: ws}); code != 0 {
				t.Errorf("audit verify: exit %d\n%s%s", code, out, errs)
			}
		})
	}
}

// conversation is three turns: three calls at once, a write, the answer.
func conversation(r *modeltest.Request) modeltest.Turn {
	wire := func(dotted string) string {
		first, last, _ := strings.Cut(dotted, ".")
		for _, t := range r.Tools {
			if strings.HasPrefix(t.Name, first) && strings.HasSuffix(t.Name, last) {
				return t.Name
			}
		}
		return "no-tool-for-" + dotted
	}
	results := 0
	for _, m := range r.Messages {
		results += len(m.Results)
	}
	switch results {
	case 0:
		return modeltest.Turn{Thinking: "I need the skill, its file and the task.", Text: "I look.", Calls: []modeltest.Call{
			{Tool: wire("skills.read"), Args: `{"name":"greet"}`},
			{Tool: wire("skills.read_resource"), Args: `{"skill":"greet","path":"references/tone.md"}`},
			{Tool: "read_file", Args: `{"path":"run.yaml"}`}}}
	case 3:
		return modeltest.Turn{Thinking: "Now I write.", Calls: []modeltest.Call{{Tool: "write_file", Args: `{"path":"greeting.txt","content":"Good to see you, Ada.\n"}`}}}
	}
	return modeltest.Turn{Text: "Good to see you, Ada."}
}

// order checks that a request has system prompt, skill context and task, in
// this order.
func order(t *testing.T, r modeltest.Request) {
	t.Helper()
	if !strings.Contains(r.System, "Skill content is task guidance") {
		t.Error("the system prompt does not say what skill content is")
	}
	first := r.Messages[0]
	for _, m := range r.Messages[1:] { // some protocols keep them apart
		if m.Role != "user" {
			break
		}
		first.Text += "\n" + m.Text
	}
	skill, task := strings.Index(first.Text, "Configured skills context:"), strings.Index(first.Text, "Greet Ada.")
	if first.Role != "user" || skill < 0 || task < skill || !strings.Contains(first.Text[skill:task], "Read `references/tone.md`") {
		t.Errorf("the first message is not skill context, then task: %s %q", first.Role, first.Text)
	}
}

// validArtifacts checks every artifact below a folder of runs against its schema.
func validArtifacts(t *testing.T, root string) {
	t.Helper()
	n := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".json" {
			return err
		}
		rel, _ := filepath.Rel(root, path) // below it
		_, name, _ := strings.Cut(filepath.ToSlash(rel), "/")
		n++
		validates(t, name, path)
		return nil
	})
	if err != nil || n < 10 {
		t.Errorf("%d artifacts, %v", n, err)
	}
}

func validates(t *testing.T, name, path string) {
	t.Helper()
	raw := run.Schema(name)
	b, err := os.ReadFile(path)
	if raw == nil || err != nil {
		t.Errorf("%s has no schema, or cannot be read: %v", name, err)
		return
	}
	var sch jsonschema.Schema
	if err := json.Unmarshal(raw, &sch); err != nil {
		t.Fatal(err)
	}
	resolved, err := sch.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	if err := resolved.Validate(v); err != nil {
		t.Errorf("%s: %v", name, err)
	}
}
