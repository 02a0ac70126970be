package cli_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"metier/internal/digest"
	"metier/internal/testenv"
	"metier/mcp/server"
)

// mcpClient is a client of `metier mcp`, which it starts.
type mcpClient struct {
	*mcp.ClientSession
	t *testing.T
}

// serves starts the server with arguments and connects to it.
func (p *place) serves(args ...string) mcpClient { return p.servesTo(nil, args...) }

// servesTo is a server for a client with options.
func (p *place) servesTo(o *mcp.ClientOptions, args ...string) mcpClient {
	p.t.Helper()
	cmd := p.command("metier", append([]string{"mcp", "--watch", "0"}, args...)...)
	stderr := &strings.Builder{}
	cmd.Stderr = stderr
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o).Connect(p.t.Context(), &mcp.CommandTransport{Command: cmd, TerminateDuration: 30 * time.Second}, nil)
	if err != nil {
		p.t.Fatalf("%v: %s", err, stderr)
	}
	p.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			p.t.Errorf("the server ended badly: %v: %s", err, stderr)
		}
	})
	return mcpClient{c, p.t}
}

func (c mcpClient) tools() (names []string) {
	c.t.Helper()
	for tool, err := range c.Tools(c.t.Context(), nil) {
		if err != nil {
			c.t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	return names
}

// call returns the text of a result, whether there is one, and its data.
func (c mcpClient) call(name string, args map[string]any) (text string, ok bool, data map[string]any) {
	c.t.Helper()
	r, err := c.CallTool(c.t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		c.t.Fatal(err)
	}
	for _, p := range r.Content {
		text += p.(*mcp.TextContent).Text
	}
	if data, _ = r.StructuredContent.(map[string]any); data == nil {
		data, _ = r.Meta[server.DetailKey].(map[string]any)
	}
	return text, !r.IsError, data
}

// write adds files to those of the place.
func (p *place) write(files map[string]string) {
	p.t.Helper()
	for name, text := range files {
		to := filepath.Join(p.home, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			p.t.Fatal(err)
		}
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
}

// req: C-065, C-066, C-067
func TestTheRuntimesToolsAreServed(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	another := "---\nname: another\ndescription: Does more. Use when more is asked for.\nlicense: MIT\n---\n# Another\n\n---\nIts last line.\n"
	p.write(map[string]string{"shelf/report/references/how.md": "Count twice.\n", "shelf/report/references/space.md": "\n    indented\n\n\n", "shelf/report/assets/a.bin": "\x00\x01",
		"shelf/another/SKILL.md": another, "shelf/broken/SKILL.md": "---\nname: broken\n---\nNo description.\n"})
	c := p.serves("--profile", "agent-runtime")
	if got := c.tools(); !slices.Equal(got, []string{"skills.list", "skills.read", "skills.read_resource"}) {
		t.Fatalf("tools %q", got)
	}
	text, ok, data := c.call("skills.list", nil)
	first := map[string]any{"name": "another", "skillId": "shelf:another", "description": "Does more. Use when more is asked for."}
	second := map[string]any{"name": "report", "skillId": "shelf:report", "description": "Counts. Use when something is to be counted."}
	if diff := cmp.Diff(map[string]any{"results": []any{first, second}, "total": 2.0}, data); !ok || diff != "" {
		t.Errorf("skills.list: %s %s", text, diff)
	}
	for _, page := range []map[string]any{{"limit": 1}, {"after": "another"}} {
		want := map[string]any{"results": []any{map[bool]any{true: first, false: second}[page["limit"] != nil]}, "total": 2.0}
		if text, ok, data = c.call("skills.list", page); !ok || !cmp.Equal(want, data) {
			t.Errorf("skills.list %v: %s %v", page, text, data)
		}
	}
	text, ok, data = c.call("skills.read", map[string]any{"name": "report"})
	if !ok || !strings.Contains(text, "Run scripts/a.sh.") || data["name"] != "report" || !strings.HasPrefix(fmt.Sprint(data["hash"]), "sha256:") {
		t.Errorf("skills.read: %q, %v", text, data)
	}
	text, ok, data = c.call("skills.read", map[string]any{"skillId": "shelf:another"})
	if want := "<skill_context name=\"another\" origin=\"third-party, untrusted\">\n# Another\n\n---\nIts last line.\n</skill_context>\n"; !ok || text != want {
		t.Errorf("skills.read: %q, want %q", text, want)
	}
	if diff := cmp.Diff(map[string]any{"name": "another", "skillId": "shelf:another", "source": "third_party", "hash": digest.Bytes([]byte(another))}, data); diff != "" {
		t.Errorf("skills.read: %s", diff)
	}
	text, ok, data = c.call("skills.read_resource", map[string]any{"skill": "report", "path": "references/how.md"})
	want := map[string]any{"skillName": "report", "skillId": "shelf:report", "path": "references/how.md", "status": "read", "observedSizeBytes": 13.0, "observedDigest": digest.Bytes([]byte("Count twice.\n")), "truncated": false}
	if diff := cmp.Diff(want, data); !ok || !strings.Contains(text, "Count twice.") || diff != "" {
		t.Errorf("skills.read_resource: %q, %s", text, diff)
	}
	text, ok, data = c.call("skills.read_resource", map[string]any{"skill": "report", "path": "assets/a.bin"})
	if !ok || !strings.Contains(text, "AAE=") || data["encoding"] != "base64" || data["status"] != "binary" {
		t.Errorf("skills.read_resource: %q, %v", text, data)
	}
	if text, ok, _ = c.call("skills.read_resource", map[string]any{"skill": "report", "path": "references/space.md"}); !ok || !strings.Contains(text, "\n    indented\n\n\n") {
		t.Errorf("white space is not kept: %q", text)
	}
	for _, bad := range []struct {
		name, says string
		args       map[string]any
	}{
		{"skills.read", "skill_not_found", map[string]any{"name": "nope"}},
		{"skills.read", "skill_not_found", map[string]any{"name": "broken"}},
		{"skills.read_resource", "resource_path_invalid", map[string]any{"skill": "report", "path": "../x"}},
		{"skills.read_resource", "resource_not_found", map[string]any{"skill": "report", "path": "references/none.md"}},
		{"skills.read_resource", "resource_too_large", map[string]any{"skill": "report", "path": "references/how.md", "maxBytes": 5}},
		{"skills.list", "invalid_arguments", map[string]any{"limit": 0.5}},
	} {
		if text, ok, _ := c.call(bad.name, bad.args); ok || !strings.Contains(text, bad.says) {
			t.Errorf("%s %v: %s", bad.name, bad.args, text)
		}
	}
}

// req: C-068
func TestScriptsAreServedWhereTheOperatorNamesThem(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(map[string]string{"shelf/report/scripts/b.sh": "echo other >>/workspace/other.txt\n", "shelf/report/scripts/c.sh": "echo \"got $1 in $PWD\"; cat; echo odd >&2; exit 3\n", "shelf/report/scripts/d.sh": "sleep 20\n",
		"shelf/another/SKILL.md": "---\nname: another\ndescription: Does more. Use when more is asked for.\n---\nMore.\n"})
	c := p.serves("--profile", "agent-runtime", "--allow-skill-script", "report:scripts/a.sh", "--allow-skill-script", "report:scripts/c.sh", "--allow-skill-script", "report:scripts/d.sh")
	run := func(path string) (string, bool, map[string]any) {
		return c.call("skills.run_script", map[string]any{"skill": "report", "path": path})
	}
	if text, ok, _ := run("scripts/a.sh"); ok || !strings.Contains(text, "skill_activations_missing") {
		t.Errorf("before the skill is read: %s", text)
	}
	c.call("skills.read", map[string]any{"name": "another"})
	if text, ok, _ := run("scripts/a.sh"); ok || !strings.Contains(text, "skill_not_activated") {
		t.Errorf("with another skill active: %s", text)
	}
	c.call("skills.read", map[string]any{"name": "report"})
	text, ok, data := run("scripts/a.sh")
	if b, err := os.ReadFile(filepath.Join(p.dir, "ran.txt")); !ok || err != nil || string(b) != "ran\n" || text == "" {
		t.Errorf("%q, %q, %v", text, b, err)
	}
	if diff := cmp.Diff(map[string]any{"status": "executed", "exitCode": 0.0, "signal": "", "limit": "", "truncated": false}, data); diff != "" { // the raw output stays on the server
		t.Errorf("skills.run_script: %s", diff)
	}
	if text, ok, _ = c.call("skills.run_script", map[string]any{"skill": "report", "path": "scripts/d.sh", "timeoutMs": 200}); ok || !strings.Contains(text, "Ended at a limit: wall.") {
		t.Errorf("a script that takes too long: %s", text)
	}
	if text, ok, _ := run("../report/scripts/a.sh"); ok || !strings.Contains(text, "script_path_invalid") {
		t.Errorf("a path that leaves the skill: %s", text)
	}
	text, ok, _ = c.call("skills.run_script", map[string]any{"skill": "report", "path": "scripts/c.sh", "args": []string{"a b"}, "stdin": "in\n"})
	if want := "Exit code 3.\n<program_output stream=\"stdout\">\ngot a b in /skills/report\nin\n</program_output>\n<program_output stream=\"stderr\">\nodd\n</program_output>\n"; ok || text != want {
		t.Errorf("a script that fails: %q, want %q", text, want)
	}
	if text, ok, _ := run("scripts/b.sh"); ok || !strings.Contains(text, "approval_required") {
		t.Errorf("one that was not named: %s", text)
	}
	if _, err := os.Stat(filepath.Join(p.dir, "other.txt")); err == nil {
		t.Error("a script ran that nobody named")
	}
	p.write(map[string]string{"shelf/report/scripts/a.sh": "echo changed >>/workspace/other.txt\n"})
	if text, ok, _ := run("scripts/a.sh"); ok || !strings.Contains(text, "script_snapshot_mismatch") {
		t.Errorf("one that changed: %s", text)
	}
	if _, err := os.Stat(filepath.Join(p.dir, "other.txt")); err == nil {
		t.Error("a changed script ran")
	}
	if got := p.serves("--profile", "agent-runtime").tools(); slices.Contains(got, "skills.run_script") {
		t.Errorf("offered where no script is allowed: %q", got)
	}
}

// A client without paths uses the ID of a skill in every call.
//
// req: C-027
func TestMCP_SkillIDWithoutPaths(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(map[string]string{"shelf/report/references/how.md": "Count twice.\n"})
	c := p.serves("--profile", "agent-runtime", "--set", "paths=none", "--allow-skill-script", "report:scripts/a.sh")
	_, _, data := c.call("skills.list", nil)
	results, _ := data["results"].([]any)
	if len(results) != 1 {
		t.Fatalf("skills.list: %v", data)
	}
	id, _ := results[0].(map[string]any)["skillId"].(string)
	if id == "" {
		t.Fatalf("skills.list has no skillId: %v", results)
	}
	named := map[string]bool{}
	for tool, err := range c.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		schema, _ := tool.InputSchema.(map[string]any)
		props, _ := schema["properties"].(map[string]any)
		_, named[tool.Name] = props["skillId"]
	}
	for _, tool := range []string{"skills.read", "skills.read_resource", "skills.run_script"} {
		if !named[tool] {
			t.Errorf("the schema of %s has no skillId", tool)
		}
	}
	for _, call := range []struct {
		tool, says string
		args       map[string]any
	}{
		{"skills.read", "Run scripts/a.sh.", map[string]any{"skillId": id}},
		{"skills.read_resource", "Count twice.", map[string]any{"skillId": id, "path": "references/how.md"}},
		{"skills.run_script", "", map[string]any{"skillId": id, "path": "scripts/a.sh"}},
	} {
		if text, ok, _ := c.call(call.tool, call.args); !ok || !strings.Contains(text, call.says) {
			t.Errorf("%s %v: %s", call.tool, call.args, text)
		}
	}
	if b, err := os.ReadFile(filepath.Join(p.dir, "ran.txt")); err != nil || string(b) != "ran\n" {
		t.Errorf("the script wrote %q, %v", b, err)
	}
	if text, ok, _ := c.call("skills.run_script", map[string]any{"skillId": id, "skill": "report", "path": "scripts/a.sh"}); ok || !strings.Contains(text, "invalid_arguments") {
		t.Errorf("both an ID and a name: %s", text)
	}
}

// The tools are in the registry that every client reads, and the operator's deny rules apply to
// them.
//
// req: C-005
func TestPolicyIsAskedAboutWhatIsServed(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(map[string]string{"shelf/secret/SKILL.md": "---\nname: secret\ndescription: Secrets.\n---\nCANARY\n", "rules.yaml": "version: 1\nskills:\n  - deny: secret\n  - ask: report\n"})
	c := p.serves("--policy", filepath.Join(p.home, "rules.yaml"))
	if got := c.tools(); !slices.Contains(got, "load_skill") || !slices.Contains(got, "list_skills") {
		t.Errorf("tools %q", got)
	}
	for _, tt := range []struct{ name, says string }{{"secret", "denied"}, {"report", "approval_required"}} {
		if text, ok, _ := c.call("load_skill", map[string]any{"name": tt.name}); ok || !strings.Contains(text, tt.says) || strings.Contains(text, "CANARY") {
			t.Errorf("%s: %s", tt.name, text)
		}
	}
	if text, ok, _ := c.call("read_skill_resource", map[string]any{"skill": "report", "path": "scripts/a.sh"}); ok || !strings.Contains(text, "approval_required") {
		t.Errorf("a file of a skill that has to be asked for: %s", text)
	}
	p.write(map[string]string{"deny.yaml": "version: 1\nrules:\n  - deny: load_skill\n"})
	if text, ok, _ := p.serves("--policy", filepath.Join(p.home, "deny.yaml")).call("load_skill", map[string]any{"name": "report"}); ok || !strings.Contains(text, "rule_denied") {
		t.Errorf("a tool that a rule denies: %s", text)
	}
	for tool, args := range map[string]map[string]any{"list_skills": nil, "search_skills": {"query": "secrets"}, "read_skill_resource": {"skill": "secret", "path": "SKILL.md"}} {
		if text, ok, _ := c.call(tool, args); ok && strings.Contains(text, "secret") || strings.Contains(text, "CANARY") {
			t.Errorf("%s: %s", tool, text)
		}
	}
	for r, err := range c.Resources(t.Context(), nil) {
		if err != nil || strings.Contains(r.URI, "secret") {
			t.Errorf("listed: %+v, %v", r, err)
		}
	}
	if r, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "skill://shelf/secret/SKILL.md"}); err == nil {
		t.Errorf("a denied skill is a resource: %+v", r)
	}
}

// A client's user sees what an approval covers and the arguments of the call. Only the operator can
// approve permanently.
func TestMCP_QuestionSaysWhatItCovers(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		testenv.Skip(t, "programs have a sandbox on Linux only")
	}
	p := newPlace(t)
	p.write(map[string]string{"rules.yaml": "version: 1\ntools: [run_skill_script]\nscripts: [\"report:scripts/a.sh\"]\n"})
	var asked []*mcp.ElicitParams
	c := p.servesTo(&mcp.ClientOptions{ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		asked = append(asked, r.Params)
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": "refuse"}}, nil
	}}, "--policy", filepath.Join(p.home, "rules.yaml"))
	c.call("load_skill", map[string]any{"name": "report"})
	text, ok, _ := c.call("run_skill_script", map[string]any{"skill": "report", "path": "scripts/a.sh", "args": []string{"--all\ntool: none"}})
	if ok || len(asked) != 1 {
		t.Fatalf("asked %d times: %s", len(asked), text)
	}
	for _, want := range []string{"scripts/a.sh", "\nskill: ", "\ntree: sha256:", "\nsandbox: L2", "\nnetwork: none", `given: | {"args":["--all\ntool: none"]`, "\n(an approval covers any arguments)"} {
		if !strings.Contains(asked[0].Message, want) {
			t.Errorf("%q is not in the question:\n%s", want, asked[0].Message)
		}
	}
	schema, err := json.Marshal(asked[0].RequestedSchema)
	if err != nil || !strings.Contains(string(schema), `"allow session"`) || strings.Contains(string(schema), "always") {
		t.Errorf("choices: %s, %v", schema, err)
	}
}

// The server reports its address and port. An interrupt ends it.
func TestServingOverHTTP(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	cmd := p.command("metier", "mcp", "--http", "127.0.0.1:0")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stderr).ReadString('\n')
	url, is := strings.CutPrefix(strings.TrimSpace(line), "serving skills at ")
	if err != nil || !is {
		t.Fatalf("%q, %v", line, err)
	}
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(context.Background(), &mcp.StreamableClientTransport{Endpoint: url}, &mcp.ClientSessionOptions{ProtocolVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		if text, ok, _ := (mcpClient{c, t}).call("load_skill", map[string]any{"name": "report"}); !ok || !strings.Contains(text, "Run scripts/a.sh.") {
			t.Errorf("%s: %s", version, text)
		}
		c.Close()
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, stderr)
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit %d", code)
	}
}
