package cli_test

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// at is a client of one endpoint, with or without a token.
func (w *web) at(path, token, version string) mcpClient {
	w.p.t.Helper()
	t := &mcp.StreamableClientTransport{Endpoint: w.url + path}
	if token != "" {
		t.HTTPClient = &http.Client{Transport: bearer(token)}
	}
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(w.p.t.Context(), t, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		w.p.t.Fatal(err)
	}
	w.p.t.Cleanup(func() { _ = c.Close() })
	return mcpClient{c, w.p.t}
}

// Each endpoint has its own skills and settings. A client of one endpoint cannot see or read those
// of another, what it loads is active only there, and its session is not valid elsewhere.
func TestEndpointsAreServersOfTheirOwn(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(map[string]string{
		"ops/deploy/SKILL.md": "---\nname: deploy\ndescription: Deploys.\n---\nCANARY of ops.\n",
		"more/extra/SKILL.md": "---\nname: extra\ndescription: More.\n---\nExtra.\n",
		"docs/write/SKILL.md": "---\nname: write\ndescription: Writes.\n---\nWrite well.\n",
		"tokens":              "ann token-of-ann-0123456789\n"})
	dir := func(name string) string { return filepath.Join(p.home, name) }
	w := p.servesHTTP("--skills-root", dir("docs"), "--skills-root", dir("more"), "--endpoint", "ops=agent-runtime,"+dir("ops")+","+dir("more"),
		"--endpoint", "same=", "--token-file", dir("tokens"))
	const token = "token-of-ann-0123456789"
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		docs, ops := w.at("", token, version), w.at("/ops", token, version)
		if got := ops.tools(); !slices.Contains(got, "skills.list") || slices.Contains(got, "load_skill") {
			t.Errorf("%s: the tools of another profile: %q", version, got)
		}
		for _, tt := range []struct {
			c          mcpClient
			tool, name string
			ok         bool
		}{{docs, "load_skill", "write", true}, {docs, "load_skill", "extra", true}, {docs, "load_skill", "deploy", false},
			{ops, "skills.read", "deploy", true}, {ops, "skills.read", "extra", true}, {ops, "skills.read", "write", false}} {
			if text, ok, _ := tt.c.call(tt.tool, map[string]any{"name": tt.name}); ok != tt.ok || !ok && strings.Contains(text, "CANARY") {
				t.Errorf("%s: %s %s: %t, %s", version, tt.tool, tt.name, ok, text)
			}
		}
		var uri string
		for r, err := range ops.Resources(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(r.URI, "deploy") {
				uri = r.URI
			}
		}
		if _, err := ops.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri}); err != nil {
			t.Errorf("%s: %q at its own endpoint: %v", version, uri, err)
		}
		if r, err := docs.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri}); err == nil {
			t.Errorf("%s: read at another: %+v", version, r.Contents[0])
		}
	}
	id := w.at("", token, "2025-11-25").ID()
	for path, want := range map[string]int{"": 200, "/ops": 404, "/same": 404, "/none": 404} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+path, strings.NewReader(`{"jsonrpc":"2.0","id":9,"method":"ping"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Session-Id": {id}, "Mcp-Protocol-Version": {"2025-11-25"}, "Authorization": {"Bearer " + token}}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("the session of /mcp at /mcp%s: %s, want %d", path, res.Status, want)
		}
		req.Header.Del("Authorization")
		req.Body, _ = req.GetBody()
		if res, err = http.DefaultClient.Do(req); err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if path != "/none" && res.StatusCode != http.StatusUnauthorized {
			t.Errorf("/mcp%s without a token: %s", path, res.Status)
		}
	}
	if c := w.at("/same", token, "2026-07-28"); !slices.Contains(c.tools(), "load_skill") {
		t.Errorf("an endpoint that differs in nothing has %q", c.tools())
	} else if text, ok, _ := c.call("load_skill", map[string]any{"name": "report"}); !ok {
		t.Errorf("without roots it has those of the configuration: %s", text)
	}
	w.end(false)
}

// A server's token file may be in its workspace. No script can read or write it.
func TestMCP_HidesTokensFromScripts(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	const token = "token-of-ann-0123456789"
	p.write(map[string]string{"shelf/report/scripts/tokens.sh": "cat /workspace/tokens\necho bob token-of-bob-0123456789 >>/workspace/tokens || echo kept\n"})
	file := filepath.Join(p.dir, "tokens")
	if err := os.WriteFile(file, []byte("ann "+token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := p.servesHTTP("--allow-skill-script", "report:scripts/tokens.sh", "--token-file", file)
	c := w.at("", token, "2026-07-28")
	c.call("load_skill", map[string]any{"name": "report"})
	text, _, _ := c.call("run_skill_script", map[string]any{"skill": "report", "path": "scripts/tokens.sh"})
	if strings.Contains(text, "ann") || !strings.Contains(text, "kept") {
		t.Errorf("the script printed %q", text)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("ann "+token+"\n", string(b)); diff != "" {
		t.Errorf("the file of tokens (-want +got):\n%s", diff)
	}
	w.end(false)
}
