package server_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"metier/event"
	"metier/internal/digest"
	"metier/mcp/server"
	"metier/policy"
	"metier/settings"
)

// The two revisions that are served: one with sessions, one without.
const (
	older  = "2025-11-25"
	newest = "2026-07-28"
)

var (
	process = server.Client{Process: true}
	nobody  = server.Client{}
)

// library is a few skills of different kinds.
var library = map[string]string{
	"guide/SKILL.md":              skill("guide", "Guide people. Use when they are lost.", "Read references/way.md."),
	"guide/references/way.md":     "The way.\n",
	"guide/assets/dot.bin":        "\x00\xff\x01",
	"guide/scripts/x.sh":          "#!/bin/bash\necho x\n",
	"hello/SKILL.md":              "---\nname: hello\ndescription: Say hello.\narguments: who\n---\nSay hello to $ARGUMENTS.\n",
	"quiet/SKILL.md":              "---\nname: quiet\ndescription: For people only.\ndisable-model-invocation: true\n---\nQuiet.\n",
	"secret/SKILL.md":             skill("secret", "Denied by the operator.", "Secret."),
	"bent/SKILL.md":               "---\nname: bent\ndescription: has: a colon\n---\nBent.\n",
	"deep/folder/inner/SKILL.md":  skill("inner", "Deep down.", "Inner."),
	"odd name/SKILL.md":           skill("odd", "In a folder of another name.", "Odd."),
	"models-only/SKILL.md":        "---\nname: models-only\ndescription: Not for people.\nuser-invocable: false\n---\nModels.\n",
	"unnamed/SKILL.md":            "---\ndescription: A skill without a name.\n---\nText.\n",
	"guide/nested/deep/a/b/c.txt": "c\n",
}

func denied(w *fixture) {
	w.grants = func(g *policy.Grants) {
		g.Skills = append(g.Skills, policy.SkillRule{Skill: "secret", Effect: policy.RuleDeny})
	}
}

func TestToolsAnswerAsTheirSchemasSay(t *testing.T) {
	t.Parallel()
	w := start(t, library, denied)
	c := w.stdio(nil)
	schemas := map[string]*jsonschema.Resolved{}
	var names []string
	for tool, err := range c.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
		if a := tool.Annotations; a == nil || !a.ReadOnlyHint || *a.DestructiveHint {
			t.Errorf("%s is not said to read only: %+v", tool.Name, a)
		}
		for what, s := range map[string]any{"input": tool.InputSchema, "output": tool.OutputSchema} {
			if s == nil {
				continue
			}
			sch := into[*jsonschema.Schema](t, s)
			r, err := sch.Resolve(nil)
			if err != nil {
				t.Fatalf("%s of %s: %v", what, tool.Name, err)
			}
			schemas[tool.Name+" "+what] = r
		}
	}
	if want := []string{"list_skills", "load_skill", "read_skill_resource", "search_skills"}; !slices.Equal(names, want) {
		t.Fatalf("tools %v, want %v", names, want)
	}
	for name, args := range map[string]map[string]any{
		"load_skill":          {"name": "guide"},
		"read_skill_resource": {"skill": "guide", "path": "references/way.md"},
		"list_skills":         {},
		"search_skills":       {"query": "guide"},
	} {
		if err := schemas[name+" input"].Validate(args); err != nil {
			t.Errorf("%s: its own arguments: %v", name, err)
		}
		r := c.call(name, args)
		if r.IsError || said(r) == "" {
			t.Errorf("%s: %s", name, said(r))
		}
		if output := schemas[name+" output"]; output == nil {
			if r.StructuredContent != nil {
				t.Errorf("%s has structured content, which clients show their model in place of the text", name)
			}
		} else if err := output.Validate(into[map[string]any](t, r.StructuredContent)); err != nil {
			t.Errorf("%s: its result: %v", name, err)
		}
		if b, _ := json.Marshal(r); strings.Contains(string(b), w.dir) {
			t.Errorf("%s tells where the skills lie: %s", name, b)
		}
	}
	got := events[event.SkillActivated](w, process)
	if len(got) != 1 || got[0].Name != "guide" || got[0].ActivationSource != "model-tool" {
		t.Errorf("activations %+v", got)
	}
	if r := c.call("load_skill", map[string]any{"name": "secret"}); !r.IsError || strings.Contains(said(r), "Secret.") {
		t.Errorf("a denied skill: %s", said(r))
	}
}

// A client's conversation may have lost a skill's text: the text comes again,
// and the skill counts once.
func TestAnActiveSkillIsShownAgain(t *testing.T) {
	t.Parallel()
	w := start(t, library)
	c := w.stdio(nil)
	first, again := c.call("load_skill", map[string]any{"name": "guide"}), c.call("load_skill", map[string]any{"name": "guide"})
	if said(first) != said(again) || !strings.Contains(said(again), "Read references/way.md.") {
		t.Errorf("first %q, again %q", said(first), said(again))
	}
	if n := len(events[event.SkillActivated](w, process)); n != 1 {
		t.Errorf("%d activations", n)
	}
}

func TestFilesAreServedAsTheyAre(t *testing.T) {
	t.Parallel()
	w := start(t, library, denied)
	c := w.stdio(nil)
	for uri, want := range map[string]struct{ media, text string }{
		"skill://project/guide/SKILL.md":              {"text/markdown", library["guide/SKILL.md"]},
		"skill://project/guide/references/way.md":     {"text/markdown", "The way.\n"},
		"skill://project/guide/assets/dot.bin":        {"application/octet-stream", "\x00\xff\x01"},
		"skill://project/guide/nested/deep/a/b/c.txt": {"text/plain", "c\n"},
		"skill://project/odd%20name/odd/SKILL.md":     {"text/markdown", library["odd name/SKILL.md"]},
		"skill://project/deep/folder/inner/SKILL.md":  {"text/markdown", library["deep/folder/inner/SKILL.md"]},
		"skill://project/bent/SKILL.md":               {"text/markdown", library["bent/SKILL.md"]},
		"skill://project/quiet/SKILL.md":              {"text/markdown", library["quiet/SKILL.md"]},
		"skill://project/models-only/SKILL.md":        {"text/markdown", library["models-only/SKILL.md"]},
	} {
		r, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
		if err != nil {
			t.Errorf("%s: %v", uri, err)
			continue
		}
		got := r.Contents[0]
		if len(r.Contents) != 1 || got.MIMEType != want.media || got.Text+string(got.Blob) != want.text {
			t.Errorf("%s: %d contents, %+v", uri, len(r.Contents), got)
		}
	}
	if err := os.WriteFile(filepath.Join(w.dir, "outside.txt"), []byte("canary"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, uri := range []string{"skill://project/secret/SKILL.md", "skill://project/guide/../outside.txt", "skill://project/guide/%2e%2e/outside.txt", "skill://project/guide/..%2foutside.txt",
		"skill://project/guide//SKILL.md", "skill://project/guide/./SKILL.md", "skill://project/guide/references", "skill://project/guide", "skill://project", "skill://", "skill://project/guide/SKILL.md?x",
		"skill://project/guide/SKILL%2Emd", "SKILL://project/guide/SKILL.md", "file:///etc/passwd", "skill://project/guide/nope.md", "skill://project/guide/\x00"} {
		if r, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri}); err == nil {
			t.Errorf("%q was read: %+v", uri, r.Contents[0])
		}
	}
	if n := len(events[event.SkillActivated](w, process)); n != 0 {
		t.Errorf("reading SKILL.md activated %d skills", n)
	}
	reads := events[event.ResourceRead](w, process)
	if i := slices.IndexFunc(reads, func(r event.ResourceRead) bool { return r.Path == "references/way.md" }); i < 0 || reads[i].ObservedDigest != digest.Bytes([]byte("The way.\n")) {
		t.Errorf("the record of reads: %+v", reads)
	}
}

type listParams struct {
	mcp.ParamsBase
	Cursor string `json:"cursor,omitempty"`
}

type uriParams struct {
	mcp.ParamsBase
	URI    string `json:"uri"`
	Cursor string `json:"cursor,omitempty"`
}

type entry struct {
	URI         string         `json:"uri"`
	Frontmatter map[string]any `json:"frontmatter"`
	Resources   []file         `json:"resources"`
}

type file struct {
	URI    string `json:"uri"`
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
}

type extResult struct {
	mcp.ResultBase
	Skills     []entry         `json:"skills"`
	Skill      entry           `json:"skill"`
	Resources  []*mcp.Resource `json:"resources"`
	Next       string          `json:"nextCursor"`
	ResultType string          `json:"resultType"`
	TTL        *int            `json:"ttlMs"`
	Scope      string          `json:"cacheScope"`
}

func ext[P interface {
	mcp.Params
	*T
}, T any](c *client, method string, p P) (*extResult, error) {
	return mcp.CallCustomMethod[P, *extResult](c.t.Context(), c.ClientSession, method, p)
}

// skills returns all pages of skills/list.
func (c *client) skills() (out []entry) {
	c.t.Helper()
	for p := (&listParams{}); ; {
		r, err := ext(c, "skills/list", p)
		if err != nil {
			c.t.Fatal(err)
		}
		out = append(out, r.Skills...)
		if p.Cursor = r.Next; p.Cursor == "" {
			return out
		}
	}
}

func uris(entries []entry) (out []string) {
	for _, e := range entries {
		out = append(out, e.URI)
	}
	return out
}

func TestEntriesAreCompleteAndPaged(t *testing.T) {
	t.Parallel()
	w := start(t, library, denied)
	c := w.stdio(nil)
	all := c.skills()
	if got, want := uris(all), []string{"skill://project/deep/folder/inner/SKILL.md", "skill://project/guide/SKILL.md", "skill://project/hello/SKILL.md", "skill://project/models-only/SKILL.md",
		"skill://project/odd%20name/odd/SKILL.md"}; !slices.Equal(got, want) {
		t.Fatalf("listed %q, want %q", got, want)
	}
	for _, e := range all {
		for _, f := range e.Resources {
			r, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: f.URI})
			if err != nil {
				t.Fatal(err)
			}
			b := []byte(r.Contents[0].Text + string(r.Contents[0].Blob))
			if digest.Bytes(b) != f.Digest || int64(len(b)) != f.Size {
				t.Errorf("%s: %d bytes of %s, the entry says %d of %s", f.URI, len(b), digest.Bytes(b), f.Size, f.Digest)
			}
		}
	}
	if guide := all[1]; len(guide.Resources) != 5 || guide.Frontmatter["description"] != "Guide people. Use when they are lost." {
		t.Errorf("the entry of guide: %+v", guide)
	}
	for _, uri := range []string{"skill://project/quiet/SKILL.md", "skill://project/bent/SKILL.md", "skill://project/guide/SKILL.md"} {
		if r, err := ext(c, "skills/get", &uriParams{URI: uri}); err != nil || r.Skill.URI != uri {
			t.Errorf("skills/get %s: %v", uri, err)
		}
	}
	for method, p := range map[string][]*uriParams{
		"skills/get":               {{URI: "skill://project/secret/SKILL.md"}, {URI: "skill://project/nope/SKILL.md"}, {URI: "skill://project/guide/references/way.md"}, {URI: ""}},
		"resources/directory/read": {{URI: "skill://project/guide/SKILL.md"}, {URI: "skill://nope"}, {URI: "skill://project/secret"}, {URI: "skill://project/guide", Cursor: "bad"}},
	} {
		for _, p := range p {
			_, err := ext(c, method, p)
			if e, is := errors.AsType[*jsonrpc.Error](err); !is || e.Code != jsonrpc.CodeInvalidParams {
				t.Errorf("%s %q: %v", method, p.URI, err)
			}
		}
	}
	if _, err := ext(c, "skills/list", &listParams{Cursor: "bad"}); err == nil {
		t.Error("a cursor that nobody gave is taken")
	}
}

func TestFoldersAreWalked(t *testing.T) {
	t.Parallel()
	w := start(t, library, denied)
	c := w.stdio(nil)
	var walk func(uri string) []string
	walk = func(uri string) (out []string) {
		for p := (&uriParams{URI: uri}); ; {
			r, err := ext(c, "resources/directory/read", p)
			if err != nil {
				t.Fatalf("%s: %v", uri, err)
			}
			for _, x := range r.Resources {
				if x.MIMEType == "inode/directory" {
					out = append(out, walk(x.URI)...)
				} else {
					out = append(out, x.URI)
				}
			}
			if p.Cursor = r.Next; p.Cursor == "" {
				return out
			}
		}
	}
	got := walk("skill://project")
	if len(got) != 12 || !slices.Contains(got, "skill://project/guide/nested/deep/a/b/c.txt") || slices.ContainsFunc(got, func(u string) bool { return strings.Contains(u, "secret") }) {
		t.Errorf("%d files: %q", len(got), got)
	}
}

// A changed skill is announced: skills/get returns the current version, and
// lists send a change notification.
func TestChangesAreTold(t *testing.T) {
	t.Parallel()
	w := start(t, library)
	c := w.stdio(nil)
	c.call("load_skill", map[string]any{"name": "guide"})
	w.put("guide/references/way.md", "Another way.\n")
	r, err := ext(c, "skills/get", &uriParams{URI: "skill://project/guide/SKILL.md"})
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(r.Skill.Resources, func(f file) bool { return f.Digest == digest.Bytes([]byte("Another way.\n")) }); i < 0 {
		t.Errorf("the entry is the old one: %+v", r.Skill)
	}
	w.put("new/SKILL.md", skill("new", "A new one.", "New."))
	if err := w.server.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{"tools": true, "prompts": true, "resources": true}
	for len(want) > 0 {
		delete(want, <-c.changed)
	}
	if got := uris(c.skills()); !slices.Contains(got, "skill://project/new/SKILL.md") {
		t.Errorf("listed %q", got)
	}
	if r := c.call("load_skill", map[string]any{"name": "new"}); r.IsError {
		t.Errorf("the session does not know it: %s", said(r))
	}
	if err := os.RemoveAll(filepath.Join(w.dir, "new")); err != nil {
		t.Fatal(err)
	}
	if err := w.server.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := uris(c.skills()); slices.Contains(got, "skill://project/new/SKILL.md") {
		t.Errorf("listed %q", got)
	}
}

// req: A-030
func TestPromptsAreTheSkillsOfPeople(t *testing.T) {
	t.Parallel()
	w := start(t, library, denied)
	c := w.stdio(nil)
	var names []string
	for p, err := range c.Prompts(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, p.Name)
	}
	if want := []string{"bent", "guide", "hello", "inner", "odd", "quiet", "unnamed"}; !slices.Equal(names, want) {
		t.Errorf("prompts %q, want %q", names, want)
	}
	r, err := c.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "hello", Arguments: map[string]string{"who": "the world"}})
	if err != nil {
		t.Fatal(err)
	}
	if text := r.Messages[0].Content.(*mcp.TextContent).Text; !strings.Contains(text, "Say hello to the world.") {
		t.Errorf("the prompt: %q", text)
	}
	got := events[event.SkillActivated](w, process)
	if len(got) != 1 || got[0].ActivationSource != "user-explicit" {
		t.Errorf("activations %+v", got)
	}
	for _, name := range []string{"secret", "models-only", "nope"} {
		if _, err := c.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: name}); err == nil {
			t.Errorf("%s is a prompt", name)
		}
	}
}

func TestWhoMayCallOverHTTP(t *testing.T) {
	t.Parallel()
	w := start(t, library)
	open, guarded := w.http(server.Access{Hosts: []string{"skills.example.org", "[fd00::1]"}, Origins: []string{"https://page.example.org"}}), w.http(server.Access{Tokens: map[string]string{"ann": "token-of-ann-0123456789"}})
	ping := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	for _, tt := range []struct {
		name, url, host, origin, auth string
		want                          int
	}{
		{"a program", open.URL, "", "", "", 200},
		{"by the name of this machine", open.URL, "localhost:1", "", "", 200},
		{"by a name that was allowed", open.URL, "skills.example.org", "", "", 200},
		{"by an address that was allowed", open.URL, "[fd00::1]:80", "", "", 200},
		{"by a name that leads here", open.URL, "evil.example.org", "", "", http.StatusMisdirectedRequest},
		{"an allowed page", open.URL, "", "https://page.example.org", "", 200},
		{"another page", open.URL, "", "https://evil.example.org", "", 403},
		{"a page without a name", open.URL, "", "null", "", 403},
		{"a page that has the name of this machine", open.URL, "", "http://localhost.evil.example.org", "", 403},
		{"the page of this address", open.URL, "localhost:1", "http://localhost:1", "", 200},
		{"the page of this address with another scheme", open.URL, "localhost:1", "https://localhost:1", "", 403},
		{"the page of this address with another port", open.URL, "localhost:1", "http://localhost:2", "", 403},
		{"the page of this address with the default port", open.URL, "localhost", "http://localhost:80", "", 200},
		{"an allowed page with another scheme", open.URL, "", "http://page.example.org", "", 403},
		{"an allowed page with the default port", open.URL, "", "https://page.example.org:443", "", 200},
		{"no token", guarded.URL, "", "", "", 401},
		{"a wrong token", guarded.URL, "", "", "Bearer token-of-ann-0123456788", 401},
		{"not as a bearer", guarded.URL, "", "", "Basic token-of-ann-0123456789", 401},
		{"the token", guarded.URL, "", "", "Bearer token-of-ann-0123456789", 200},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, tt.url, strings.NewReader(ping))
		if err != nil {
			t.Fatal(err)
		}
		if tt.host != "" {
			req.Host = tt.host
		}
		req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Origin": {tt.origin}, "Authorization": {tt.auth}}
		for k, v := range req.Header {
			if v[0] == "" {
				delete(req.Header, k)
			}
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != tt.want {
			t.Errorf("%s: %s, want %d", tt.name, res.Status, tt.want)
		}
		challenge := ""
		if tt.want == 401 {
			challenge = "Bearer"
		}
		if got := res.Header.Get("WWW-Authenticate"); got != challenge {
			t.Errorf("%s: WWW-Authenticate is %q, want %q", tt.name, got, challenge)
		}
	}
}

// What one principal loaded is not active for another, what a principal loaded
// stays active across connections, and an anonymous request has nothing.
func TestSessionsAreKeptByWhoCalls(t *testing.T) {
	t.Parallel()
	w := start(t, library)
	guarded := w.http(server.Access{Tokens: map[string]string{"ann": "token-of-ann-0123456789", "bob": "token-of-bob-0123456789"}})
	open := w.http(server.Access{})
	for range 2 {
		for _, name := range []string{"ann", "bob"} {
			if r := w.over(guarded, "token-of-"+name+"-0123456789", newest, nil).call("load_skill", map[string]any{"name": "guide"}); r.IsError {
				t.Fatal(said(r))
			}
		}
		if r := w.over(open, "", newest, nil).call("load_skill", map[string]any{"name": "guide"}); r.IsError {
			t.Fatal(said(r))
		}
	}
	for len(w.ends) > 0 {
		if who := <-w.ends; who != nobody {
			t.Errorf("the session of %+v ended", who)
		}
	}
	var sessions []string
	for range 2 {
		c := w.over(open, "", older, nil)
		for range 2 {
			if r := c.call("load_skill", map[string]any{"name": "guide"}); r.IsError {
				t.Fatal(said(r))
			}
		}
		sessions = append(sessions, c.ID())
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if who := <-w.ends; who != (server.Client{Session: c.ID()}) {
			t.Errorf("%+v ended, not the session that was closed", who)
		}
	}
	for _, id := range sessions {
		if got := len(events[event.SkillActivated](w, server.Client{Session: id})); id == "" || got != 1 {
			t.Errorf("session %q: %d activations", id, got)
		}
	}
	for who, want := range map[server.Client]int{{Principal: "ann"}: 1, {Principal: "bob"}: 1, nobody: 2} {
		if got := len(events[event.SkillActivated](w, who)); got != want {
			t.Errorf("%+v: %d activations, want %d", who, got, want)
		}
	}
	old := w.over(guarded, "token-of-ann-0123456789", older, nil)
	if r := old.call("load_skill", map[string]any{"name": "guide"}); r.IsError {
		t.Fatal(said(r))
	}
	for who, want := range map[server.Client]string{{Principal: "ann"}: "ann", {Principal: "bob"}: "bob", {Session: old.ID()}: "ann", nobody: "mcp"} {
		if by := w.actors(who, event.SkillActivated{}); len(by) == 0 || len(slices.Compact(by)) != 1 || by[0] != want {
			t.Errorf("%+v: the record says that %q activated, not %s", who, by, want)
		}
	}
}

func TestPromptsAreShownAsTheyCannotAct(t *testing.T) {
	t.Parallel()
	w := start(t, map[string]string{"x/SKILL.md": "---\nname: x\ndescription: \"A\\e[2J \\u202eb\"\nargument-hint: \"\\ec\"\n---\nText.\n"})
	c := w.stdio(nil)
	r, err := c.ListPrompts(t.Context(), nil)
	if err != nil || len(r.Prompts) != 1 || r.Prompts[0].Description != `A\x1b[2J \u{202e}b` || r.Prompts[0].Arguments[0].Description != `\x1bc` {
		t.Errorf("%+v, %v", r.Prompts[0], err)
	}
}

// An entry is returned with its SKILL.md or not at all.
func TestASkillWhoseFileIsNoneIsNotAnsweredFor(t *testing.T) {
	t.Parallel()
	w := start(t, library)
	c := w.stdio(nil)
	const uri = "skill://project/guide/SKILL.md"
	if _, err := ext(c, "skills/get", &uriParams{URI: uri}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(w.dir, "guide", "SKILL.md")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(file, 0o755); err != nil {
		t.Fatal(err)
	}
	if r, err := ext(c, "skills/get", &uriParams{URI: uri}); err == nil {
		t.Errorf("%+v", r)
	}
	if err := w.server.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r, err := ext(c, "skills/get", &uriParams{URI: uri}); err == nil {
		t.Errorf("afterwards: %+v", r)
	}
}

// A denied skill is not available as files of the skill around it either.
func TestADeniedSkillInsideAnotherIsNotThere(t *testing.T) {
	t.Parallel()
	w := start(t, map[string]string{"o/SKILL.md": skill("o", "Around.", "Outer."), "o/in/SKILL.md": skill("in", "Inside.", "CANARY"), "o/in/a/b.md": "CANARY", "o/inn/c.md": "fine"},
		func(w *fixture) {
			w.nested = settings.NestedYes
			w.grants = func(g *policy.Grants) { g.Denied = []string{"in"} }
		})
	c := w.stdio(nil)
	r, err := ext(c, "skills/get", &uriParams{URI: "skill://project/o/SKILL.md"})
	if err != nil || strings.Contains(string(into[json.RawMessage](t, r.Skill)), "/in/") {
		t.Errorf("%+v, %v", r, err)
	}
	for _, uri := range []string{"skill://project/o/in/SKILL.md", "skill://project/o/in/a/b.md"} {
		if r, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri}); err == nil {
			t.Errorf("%s: %+v", uri, r.Contents[0])
		}
	}
	if _, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "skill://project/o/inn/c.md"}); err != nil {
		t.Error(err)
	}
	if _, err := ext(c, "resources/directory/read", &uriParams{URI: "skill://project/o/in"}); err == nil {
		t.Error("its folder is there")
	}
	for file, want := range map[string]bool{"in/SKILL.md": false, "in/a/b.md": false, "./in/a/b.md": false, "inn/c.md": true} {
		r := c.call("read_skill_resource", map[string]any{"skill": "o", "path": file})
		if r.IsError == want || strings.Contains(said(r), "CANARY") {
			t.Errorf("%s: %s", file, said(r))
		}
	}
}
