package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"metier/cli"
	"metier/internal/testenv"
	"metier/skills"
)

const canaryOfThePage = "canary-7c1e-of-the-page"

// shop is a page with a form that records what was sent to it.
type shop struct {
	*httptest.Server
	mu   sync.Mutex
	sent []string
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if r.Method == http.MethodPost {
			_ = r.ParseForm()
			s.mu.Lock()
			s.sent = append(s.sent, r.PostForm.Encode())
			s.mu.Unlock()
			fmt.Fprintf(w, "<title>Thanks</title><p>%s", canaryOfThePage)
			return
		}
		fmt.Fprint(w, `<title>Order</title><form method=post><input name=name><input name=pass type=password></form>`)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *shop) got() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sent)
}

// pagehand is the folder of the program that the scripts of agent-browser use.
func pagehand(t *testing.T) string {
	t.Helper()
	testenv.NeedTool(t, "go", "golang")
	dir, err := builtPagehand()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// builtPagehand builds it once, into a folder beside the commands of TestMain,
// which removes both.
var builtPagehand = sync.OnceValues(func() (dir string, err error) {
	self, err := exec.LookPath("metier")
	if err != nil {
		return "", err
	}
	dir = filepath.Join(filepath.Dir(filepath.Dir(self)), "pagehand")
	if out, err := exec.Command("go", "build", "-o", dir+string(filepath.Separator), testenv.ModulePath+"/cmd/pagehand").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return dir, nil
})

// errand is a fixture whose model delegates a task to a subagent with a browser.
type errand struct {
	t    *testing.T
	dir  string
	line []string
}

// newErrand writes a script by which the child calls scripts of agent-browser
// with these arguments, in order, and the parent prints what it received.
func newErrand(t *testing.T, hand string, config string, calls ...string) *errand {
	t.Helper()
	e := &errand{t: t, dir: t.TempDir()}
	if err := os.Mkdir(filepath.Join(e.dir, "ws"), 0o755); err != nil {
		t.Fatal(err)
	}
	e.put("config.yaml", "browser:\n  path: ["+hand+"]\n"+config)
	script := "turns:\n  - when: '{{ offered \"delegate_task\" }}'\n    calls: [{tool: delegate_task, args: {profile: browser, task: Order for Ada.}}]\n"
	for _, c := range calls {
		script += "  - when: '{{ not (offered \"delegate_task\") }}'\n    calls: [{tool: run_skill_script, args: " + c + "}]\n"
	}
	told := "  - when: '{{ not (offered \"delegate_task\") }}'\n    say: 'The page answered {{ result \"run_skill_script\" -1 }}'\n"
	e.put("turns.yaml", script+told+"  - say: 'I was told {{ result \"delegate_task\" 1 }}'\n")
	e.line = []string{"run", "--json", "--workspace", "ws", "--model", "scripted:" + filepath.Join(e.dir, "turns.yaml"), "--prompt", "Order it.", "--output-mode", "batch", "--allow-subagent-profile", "browser"}
	return e
}

func (e *errand) put(name, text string) {
	e.t.Helper()
	putFiles(e.t, e.dir, map[string]string{name: text})
}

// call returns the arguments of a call of one of the skill's scripts.
func call(file string, args ...string) string {
	b, err := json.Marshal(map[string]any{"skill": "agent-browser", "path": "scripts/" + file, "args": args})
	if err != nil {
		panic(err)
	}
	return string(b)
}

// run runs metier and returns its exit code and what it printed.
func (e *errand) run(more ...string) (code int, said string) {
	e.t.Helper()
	var out, errs bytes.Buffer
	env := []string{"HOME=" + e.dir, "METIER_CONFIG=" + configIn(e.dir), "OLLAMA_HOST=127.0.0.1:1", "PATH=" + os.Getenv("PATH"), "SHOP_PASSWORD=correct-horse-battery"}
	code = cli.Main(e.t.Context(), append(slices.Clone(e.line), more...), env, cli.IO{In: strings.NewReader(""), Out: &out, Err: &errs, Dir: e.dir})
	return code, out.String() + errs.String()
}

// execution is a row of skill-script-executions.json.
type execution struct {
	Entry  string `json:"entry"`
	Status string `json:"status"`
	Target string `json:"executionTarget"`
	Error  *struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	Hosts []struct {
		Method string `json:"method"`
		Code   string `json:"code"`
	} `json:"hosts"`
}

// executions returns those in the child's record.
func (e *errand) executions() []execution {
	e.t.Helper()
	files, err := filepath.Glob(filepath.Join(e.dir, "ws/.metier/runs/*/children/*/skill-script-executions.json"))
	if err != nil || len(files) != 1 {
		e.t.Fatalf("children: %v %v", files, err)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		e.t.Fatal(err)
	}
	var doc struct {
		List []execution `json:"executions"`
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		e.t.Fatal(err)
	}
	return doc.List
}

// holders returns the files of the run that contain a text, in the parent's
// record and in the child's.
func (e *errand) holders(text string) (parent, child []string) {
	e.t.Helper()
	err := filepath.WalkDir(filepath.Join(e.dir, "ws"), func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		if err == nil && bytes.Contains(b, []byte(text)) {
			if strings.Contains(p, "/children/") {
				child = append(child, p)
			} else {
				parent = append(parent, p)
			}
		}
		return err
	})
	if err != nil {
		e.t.Fatal(err)
	}
	return parent, child
}

// ownBrowserSkill returns the files of the skill agent-browser, for a copy of
// it.
func ownBrowserSkill(t *testing.T) map[string]string {
	t.Helper()
	own := map[string]string{}
	if err := fs.WalkDir(skills.FS, "agent-browser", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := skills.FS.ReadFile(p)
		own[p] = string(b)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return own
}

// lend returns the flags that grant the browser for an origin.
func lend(t *testing.T, origin string) []string {
	return []string{"--browser-endpoint", testenv.Chromium(t), "--browser-origin", origin, "--browser-until", "10m"}
}

// req
func TestSubagentFillsAFormInTheLentBrowser(t *testing.T) {
	t.Parallel()
	hand := pagehand(t)
	own := ownBrowserSkill(t)
	for _, profile := range []string{"default", "cf-harness"} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			args := []string{s.URL + "/", "name=Ada"}
			calls := []string{call("form-automation.sh", args...)}
			var flags []string
			want := 1
			if profile == "cf-harness" { // the endpoint is in the refusal of the first call
				calls = append(calls, call("form-automation.sh", append([]string{"--cdp", `{{ match "pass --cdp (http://[^ ]+)" (result "run_skill_script" 1) }}`}, args...)...))
				flags, want = []string{"--profile", profile, "--skills-root", "skills", "--subagent-profiles", "profiles", "--allow-skill-script", "project:agent-browser:scripts/form-automation.sh"}, 2
			}
			e := newErrand(t, hand, "", calls...)
			if profile == "cf-harness" { // a project's skill runs on the host only by its ID
				e.put("profiles/browser.yaml", "name: browser\ndescription: Works with a page.\nskills: [agent-browser]\nscripts: [project:agent-browser:scripts/form-automation.sh]\ntools: [run_skill_script]\ntarget: host\nbrowser: true\n")
				for p, text := range own {
					e.put("ws/skills/"+p, text)
				}
			}
			code, said := e.run(append(lend(t, s.URL), flags...)...)
			if code != 0 || !slices.Equal(s.got(), []string{"name=Ada&pass="}) {
				t.Fatalf("exit %d, the server received %q\n%s", code, s.got(), said)
			}
			ran := e.executions()
			if len(ran) != want {
				t.Fatalf("executions: %+v", ran)
			}
			if last := ran[want-1]; last.Status != "executed" || last.Target != "host" || len(last.Hosts) != 1 || last.Hosts[0].Method != "browser" {
				t.Errorf("the record says %+v", last)
			}
			parent, child := e.holders(canaryOfThePage)
			if len(child) == 0 || len(parent) > 0 || strings.Contains(said, canaryOfThePage) {
				t.Errorf("what the page said is in the child's %q and in the parent's %q", child, parent)
			}
		})
	}
}

// Tests each reason why a subagent is denied a requested browser, by its code.
//
// req: A-088
func TestBrowserOfASubagentIsRefused(t *testing.T) {
	t.Parallel()
	hand := pagehand(t)
	s, other := newShop(t), newShop(t)
	here := func(t *testing.T) []string { return lend(t, s.URL) }
	const mine = "name: browser\ndescription: Works with a page, and signs in.\nskills: [agent-browser]\nscripts: [agent-browser:scripts/authenticated-session.sh]\ntools: [run_skill_script]\ntarget: host\nbrowser: true\n"
	signIn := call("authenticated-session.sh", s.URL+"/", "name", "pass")
	grant := func(origin string) string {
		return "  grants:\n    - script: agent-browser:scripts/authenticated-session.sh\n      origin: " + origin + "\nsecrets:\n  - {skill: agent-browser, name: LOGIN_USER, env: USERNAME}\n  - {skill: agent-browser, name: LOGIN_PASSWORD, env: SHOP_PASSWORD}\n"
	}
	for name, tt := range map[string]struct {
		call    string
		config  string
		profile string
		flags   func(*testing.T) []string
		code    string
		says    string
	}{
		"nothing lent":   {call("capture-workflow.sh", s.URL), "", "", func(*testing.T) []string { return nil }, "permission_denied", "no browser is shared"},
		"another origin": {call("capture-workflow.sh", other.URL), "", "", here, "permission_denied", "limited to " + s.URL},
		"time is over": {call("capture-workflow.sh", s.URL), "", "",
			func(t *testing.T) []string { return append(lend(t, s.URL), "--browser-until", "2020-01-01T00:00:00Z") }, "permission_denied", "its time is over"},
		"credentials, of the list":  {signIn, "", "", here, "script_not_allowlisted", ""},
		"credentials, no grant":     {signIn, "", mine, here, "permission_denied", "has no grant for " + s.URL},
		"credentials, other origin": {signIn, grant(other.URL), mine, here, "permission_denied", "bound to " + other.URL},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newErrand(t, hand, tt.config, tt.call)
			flags := tt.flags(t)
			if tt.profile != "" {
				e.put("profiles/browser.yaml", tt.profile)
				flags = append(flags, "--subagent-profiles", "profiles")
			}
			if code, said := e.run(flags...); code != 0 {
				t.Fatalf("exit %d\n%s", code, said)
			}
			ran := e.executions()
			if len(ran) != 1 || ran[0].Status != "error" || ran[0].Error == nil || ran[0].Error.Code != tt.code {
				t.Fatalf("the record says %+v", ran)
			}
			if _, child := e.holders(tt.says); len(child) == 0 {
				t.Errorf("the child was not told %q: %+v", tt.says, ran[0].Error)
			}
		})
	}
	if got := append(s.got(), other.got()...); len(got) > 0 {
		t.Errorf("something was sent: %q", got)
	}
}

// req: A-164
func TestARunPutsNoScriptOnTheHost(t *testing.T) {
	t.Parallel()
	e := newErrand(t, t.TempDir(), "")
	e.put("ws/skills/demo/SKILL.md", "---\nname: demo\ndescription: Use when targets are tried.\n---\n")
	e.put("ws/skills/demo/scripts/where.sh", "#!/bin/bash\necho $CF_HARNESS_SKILL_SCRIPT_EXECUTION_TARGET > /workspace/where || echo host > where\n")
	e.put("turns.yaml", "turns:\n  - calls: [{tool: run_skill_script, args: {skill: demo, path: scripts/where.sh}}]\n  - say: done\n")
	flags := []string{"--skills-root", "skills", "--skill", "demo", "--allow-tool", "default", "--allow-tool", "run_skill_script", "--allow-skill-script", "demo:scripts/where.sh"}
	for _, profile := range []string{"default", "cf-harness"} {
		base := append(slices.Clone(flags), "--profile", profile)
		for _, host := range [][]string{{"--skill-script-execution-target", "host"}, {"--set", "script_target=host"}} {
			code, said := e.run(append(slices.Clone(base), host...)...)
			if _, err := os.Stat(filepath.Join(e.dir, "ws/where")); code != 2 || !strings.Contains(said, `"execution_target_refused"`) || !strings.Contains(said, "--allow-subagent-profile") || err == nil {
				t.Errorf("%s %v: exit %d, %v\n%s", profile, host, code, err, said)
			}
		}
		if code, said := e.run(append(slices.Clone(base), "--skill-script-execution-target", "elsewhere")...); code != 2 || !strings.Contains(said, "setting_value") {
			t.Errorf("%s, a target there is not: exit %d\n%s", profile, code, said)
		}
		code, said := e.run(append(slices.Clone(base), "--skill-script-execution-target", "sandbox")...)
		if b, err := os.ReadFile(filepath.Join(e.dir, "ws/where")); code != 0 || string(b) != "sandbox\n" {
			t.Errorf("%s: exit %d, %q %v\n%s", profile, code, b, err, said)
		}
		if err := os.Remove(filepath.Join(e.dir, "ws/where")); err != nil {
			t.Fatal(err)
		}
	}
}
