package exectool_test

import (
	"context"
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
	"time"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/browser"
	"metier/event"
	"metier/exectool"
	"metier/internal/testenv"
	"metier/policy"
	"metier/record"
	"metier/settings"
	"metier/skills"
)

func secretsOf(skill string, pairs ...string) func(context.Context, metier.Skill) ([]record.Secret, error) {
	return func(_ context.Context, sk metier.Skill) (out []record.Secret, _ error) {
		for i := 0; sk.Name == skill && i+1 < len(pairs); i += 2 {
			out = append(out, record.Secret{Name: pairs[i], Value: pairs[i+1]})
		}
		return out, nil
	}
}

// leased is a shared session of the browser behind an endpoint, with grants.
func leased(t *testing.T, endpoint, origin string, left time.Duration, grants ...browser.Grant) *browser.Session {
	t.Helper()
	l, err := browser.Open(browser.Lease{Endpoint: endpoint, Origin: origin, Until: time.Now().Add(left), Grants: grants}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// The scripts of metier's own skill, as the browser profile has them.
const (
	fillForm = "agent-browser:scripts/form-automation.sh"
	capture  = "agent-browser:scripts/capture-workflow.sh"
	signIn   = "agent-browser:scripts/authenticated-session.sh"
)

// pagehand is the folder of the program that the skill's scripts use.
var pagehand = sync.OnceValues(func() (dir string, err error) {
	dir, err = os.MkdirTemp(testenv.Shared(), "metier-pagehand-")
	if err != nil {
		return "", err
	}
	built = dir
	out, err := exec.Command("go", "build", "-o", dir, testenv.ModulePath+"/cmd/pagehand").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return dir, os.Chmod(dir, 0o755)
})

var built string // pagehand's folder, once it exists

func TestMain(m *testing.M) {
	code := m.Run()
	if built != "" {
		_ = os.RemoveAll(built)
	}
	os.Exit(code)
}

// profileHost is the browser profile with a browser session.
func profileHost(t *testing.T, b exectool.Browser) *exectool.Host {
	t.Helper()
	dir, err := pagehand()
	if err != nil {
		t.Fatal(err)
	}
	return &exectool.Host{Scripts: []string{fillForm, capture}, Path: []string{dir}, Leased: true, Browser: b, Credentials: []string{signIn}}
}

// agentBrowser returns the files of the skill, below skills/.
func agentBrowser(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := fs.WalkDir(skills.FS, "agent-browser", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := skills.FS.ReadFile(p)
		out["skills/"+p] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// browse calls a script of the skill.
func (w *hosted) browse(entry string, args ...string) metier.Observation {
	w.t.Helper()
	skill, path, _ := strings.Cut(entry, ":")
	o, asks := w.call("run_skill_script", exectool.Script{Skill: skill, Path: path, Args: args})
	if asks != nil {
		w.t.Fatalf("asks %s", asks.Question.Text)
	}
	return o
}

// shop is a page with a form, and what was sent to it.
type shop struct {
	*httptest.Server
	mu   sync.Mutex
	sent []string
}

func newShop(t *testing.T) *shop {
	s := &shop{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		switch r.Method + " " + r.URL.Path {
		case "GET /order":
			fmt.Fprint(w, `<title>Order</title><form method=post action=/order><input name=name required><select name=size><option value=s>Small<option value=l>Large</select>
<label><input type=radio name=pay value=card>card</label><label><input type=radio name=pay value=cash>cash</label><input type=checkbox name=news><textarea name=note></textarea>
<button name=go value=1>Send</button></form>`)
		case "GET /login":
			fmt.Fprint(w, `<title>Sign in</title><form method=post action=/login><input name=user><input name=pass type=password></form>`)
		case "POST /order", "POST /login":
			_ = r.ParseForm()
			s.mu.Lock()
			s.sent = append(s.sent, r.PostForm.Encode())
			s.mu.Unlock()
			fmt.Fprintf(w, "<title>Thanks</title><p>Order of %s: canary-on-the-page. %s", r.PostForm.Get("name"), r.PostForm.Get("pass"))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *shop) got() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sent)
}

// tree returns all files of a folder with their content.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			out[p] = "folder"
			return err
		}
		b, err := os.ReadFile(p)
		out[p] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// req
func TestFormIsFilledInTheLeasedBrowser(t *testing.T) {
	t.Parallel()
	for _, profile := range []string{settings.DefaultProfile, cfHarness} {
		s := newShop(t)
		l := leased(t, testenv.Chromium(t), s.URL, time.Hour)
		w := newHosted(t, setup{profile: profile}, profileHost(t, l), agentBrowser(t))
		before := tree(t, w.dir)
		var cdp []string
		if profile == cfHarness {
			cdp = []string{"--cdp", l.Endpoint()}
		}
		o := w.browse(capture, append(cdp, s.URL+"/order", "dom")...)
		if r := result(t, o); r.ExitCode == nil || *r.ExitCode != 0 || !strings.Contains(r.Stdout, `<input name="name" required="">`) {
			t.Fatalf("%s: %s", profile, o.Text())
		}
		o = w.browse(fillForm, append(cdp, s.URL+"/order", "name=Ada & Söhne", "size=Large", "pay=cash", "news=yes", "note=a=b\nsecond line")...)
		if r := result(t, o); r.ExitCode == nil || *r.ExitCode != 0 || !strings.Contains(r.Stdout, "Order of Ada & Söhne: canary-on-the-page") {
			t.Fatalf("%s: %s", profile, o.Text())
		}
		if got, want := s.got(), []string{"name=Ada+%26+S%C3%B6hne&news=on&note=a%3Db%0D%0Asecond+line&pay=cash&size=l"}; !slices.Equal(got, want) {
			t.Errorf("%s: the server received %q, want %q", profile, got, want)
		}
		o = w.browse(capture, append(cdp, "-")...) // where the last script left the page
		if !strings.Contains(o.Text(), "canary-on-the-page") {
			t.Errorf("%s: %s", profile, o.Text())
		}
		if after := tree(t, w.dir); !mapsEqual(before, after) {
			t.Errorf("%s: the workspace was changed: %v, before %v", profile, keys(after), keys(before))
		}
		ran := events[event.ScriptExecuted](w.fixture)
		for _, e := range ran {
			if e.Target != "host" || len(e.Hosts) != 1 || e.Hosts[0].Method != "browser" || e.Hosts[0].Code != "" {
				t.Errorf("%s: the record says %+v", profile, e.Execution)
			}
		}
		if len(w.box.jobs) > 0 || len(ran) != 3 {
			t.Errorf("%s: %d in the sandbox, %d recorded", profile, len(w.box.jobs), len(ran))
		}
	}
	w := newHosted(t, setup{}, profileHost(t, nil), agentBrowser(t)) // no browser session
	w.denies("permission_denied", "no browser is shared with this run; the operator can share one", w.browse(capture, "http://127.0.0.1:8/"))
}

func mapsEqual(a, b map[string]string) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

func keys(m map[string]string) (out []string) {
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// A session that has ended, or is for another origin, refuses before anything
// starts.
//
// req
func TestLeaseIsLookedAtBeforeTheStart(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for name, tt := range map[string]struct {
		left time.Duration
		args []string
		text string
	}{
		"expired":             {-time.Second, []string{s.URL + "/order"}, "its time is over"},
		"another port":        {time.Hour, []string{"http://127.0.0.1:9/order"}, "limited to " + s.URL},
		"another scheme":      {time.Hour, []string{strings.Replace(s.URL, "http:", "https:", 1)}, "limited to " + s.URL},
		"another host":        {time.Hour, []string{s.URL, "https://evil.example/x"}, "names https://evil.example"},
		"capitals":            {time.Hour, []string{"HTTP://Evil.example"}, "evil.example"},
		"a file":              {time.Hour, []string{"file://localhost/etc/passwd"}, "names file://"},
		"a user":              {time.Hour, []string{strings.Replace(s.URL, "http://", "http://u:p@", 1)}, "limited to"},
		"another browser":     {time.Hour, []string{"ws://127.0.0.1:9222/devtools"}, "limited to"},
		"told its browser":    {time.Hour, []string{"--cdp", "http://127.0.0.1:9222", s.URL}, "is not given --cdp"},
		"told so in one word": {time.Hour, []string{"--cdp=http://127.0.0.1:9222", s.URL}, "is not given --cdp"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newHosted(t, setup{}, profileHost(t, leased(t, "http://127.0.0.1:1", s.URL, tt.left)), agentBrowser(t))
			o := w.browse(capture, tt.args...)
			w.denies("permission_denied", strings.ToLower(tt.text), lower{o})
			if d := events[event.PolicyDecided](w.fixture); len(d) == 0 || d[len(d)-1].Code != "permission_denied" {
				t.Errorf("the record says %+v", d)
			}
		})
	}
}

// lower is an observation whose text has no capitals.
type lower struct{ metier.Observation }

func (l lower) Text() string { return strings.ToLower(l.Observation.Text()) }

// req: A-089
func TestCDPIsExactlyTheLease(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	chromium := testenv.Chromium(t)
	for _, set := range []settings.HostCDP{settings.HostCDPRequire, settings.HostCDPForbid} {
		for name, tt := range map[string]struct {
			args    func(at string) []string
			require bool // host_cdp=require
			forbid  bool // host_cdp=forbid
		}{
			"none":            {func(string) []string { return nil }, false, true},
			"the lease":       {func(at string) []string { return []string{"--cdp", at} }, true, false},
			"in one word":     {func(at string) []string { return []string{"--cdp=" + at} }, true, false},
			"the browser":     {func(string) []string { return []string{"--cdp", chromium} }, false, false},
			"a longer path":   {func(at string) []string { return []string{"--cdp", at + "/"} }, false, false},
			"another token":   {func(at string) []string { return []string{"--cdp", at[:len(at)-1] + "x"} }, false, false},
			"both":            {func(at string) []string { return []string{"--cdp", at, "--cdp", chromium} }, false, false},
			"both, one word":  {func(at string) []string { return []string{"--cdp=" + chromium, "--cdp", at} }, false, false},
			"nothing after":   {func(string) []string { return []string{"--cdp"} }, false, false},
			"another machine": {func(string) []string { return []string{"--cdp", "http://192.0.2.1:9222"} }, false, false},
		} {
			l := leased(t, chromium, s.URL, time.Hour)
			w := newHosted(t, setup{set: func(x *settings.Settings) { x.Exec.HostCDP = set }}, profileHost(t, l), agentBrowser(t))
			o := w.browse(capture, append(tt.args(l.Endpoint()), s.URL+"/order")...)
			if ok := set == settings.HostCDPRequire && tt.require || set == settings.HostCDPForbid && tt.forbid; !ok {
				w.denies("permission_denied", "--cdp", o)
				if set == settings.HostCDPRequire && !strings.Contains(o.Text(), "pass --cdp "+l.Endpoint()) {
					t.Errorf("%s, %s: no way out: %s", set, name, o.Text())
				}
				continue
			}
			if o.Code() != "" || !strings.Contains(o.Text(), "Order") {
				t.Errorf("%s, %s: %s %s", set, name, o.Code(), o.Text())
			}
		}
	}
}

// req: A-080
func TestBrowserOfTheScriptsIsLocal(t *testing.T) {
	t.Parallel()
	dir, err := pagehand()
	if err != nil {
		t.Fatal(err)
	}
	bash := testenv.NeedTool(t, "bash", "bash")
	for _, at := range []string{"http://192.0.2.1:9222", "https://127.0.0.1:9222", "http://example.com:9222", "ws://192.0.2.1:9222/devtools", "http://127.0.0.1.example.com:9222", "http://127.0.0.1:9222@192.0.2.1/", "http://0.0.0.0:9222",
		"http://127.0.0.1:9222/?x=http://192.0.2.1", "9222", ""} {
		for entry, args := range map[string][]string{fillForm: {"http://127.0.0.1:8/", "a=b"}, capture: {"http://127.0.0.1:8/"}, signIn: {"http://127.0.0.1:8/", "user", "pass"}} {
			_, file, _ := strings.Cut(entry, ":")
			code, err := skills.FS.ReadFile("agent-browser/" + file)
			if err != nil {
				t.Fatal(err)
			}
			for _, told := range [][]string{append([]string{"--cdp", at}, args...), append([]string{"--cdp=" + at}, args...), args} {
				c := exec.CommandContext(t.Context(), bash, append([]string{"-s", "--"}, told...)...)
				c.Stdin, c.Env, c.Dir = strings.NewReader(string(code)), []string{"PATH=" + dir + ":/usr/bin:/bin", "AGENT_BROWSER_CDP=" + at}, t.TempDir()
				out, err := c.CombinedOutput()
				if exit := c.ProcessState.ExitCode(); err == nil || exit != 2 || !strings.Contains(string(out), "on this machine") && !strings.Contains(string(out), "no browser is given") {
					t.Errorf("%s %q: exit %d, %s", file, told, exit, out)
				}
			}
		}
		if at == "" || strings.HasPrefix(at, "http://127.0.0.1:9222/?") { // none, and a local one
			continue
		}
		for _, cmd := range [][]string{{"open", "http://127.0.0.1:8/"}, {"text"}} {
			out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "pagehand"), append([]string{"--cdp", at}, cmd...)...).CombinedOutput()
			if err == nil || !strings.Contains(string(out), "must be local") {
				t.Errorf("pagehand --cdp %s %s: %v %s", at, cmd, err, out)
			}
		}
	}
}

// Each script takes a browser of this machine, however that is written, from
// --cdp before the environment.
//
// req
func TestBrowserOfTheScriptsIsTheOneNamed(t *testing.T) {
	t.Parallel()
	linux(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "pagehand"), []byte("#!/bin/sh\necho \"$1 $2\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	bash := testenv.NeedTool(t, "bash", "bash")
	for _, at := range []string{"http://127.0.0.1:9222", "http://localhost:9222", "http://[::1]:9222", "http://127.0.0.1:9222/a_B-1/x"} {
		for file, args := range map[string][]string{"form-automation.sh": {"http://127.0.0.1:8/", "a=b"}, "capture-workflow.sh": {"http://127.0.0.1:8/"}, "authenticated-session.sh": {"http://127.0.0.1:8/", "user", "pass"}} {
			code, err := skills.FS.ReadFile("agent-browser/scripts/" + file)
			if err != nil {
				t.Fatal(err)
			}
			for env, told := range map[string][]string{at: args, "http://127.0.0.1:1": append([]string{"--cdp", at}, args...), "": append([]string{"--cdp=" + at}, args...)} {
				c := exec.CommandContext(t.Context(), bash, append([]string{"-s", "--"}, told...)...)
				c.Stdin, c.Env, c.Dir = strings.NewReader(string(code)), []string{"PATH=" + dir + ":/usr/bin:/bin", "AGENT_BROWSER_CDP=" + env}, t.TempDir()
				out, err := c.Output()
				lines := slices.Compact(strings.Split(strings.TrimSpace(string(out)), "\n"))
				if diff := cmp.Diff([]string{"--cdp " + at}, lines); err != nil || diff != "" {
					t.Errorf("%s %q: %v (-want +got):\n%s", file, told, err, diff)
				}
			}
			c := exec.CommandContext(t.Context(), bash, "-s", "--", "--cdp")
			c.Stdin, c.Env = strings.NewReader(string(code)), []string{"PATH=" + dir + ":/usr/bin:/bin", "AGENT_BROWSER_CDP=" + at}
			if out, err := c.CombinedOutput(); err == nil || c.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "--cdp has no value") {
				t.Errorf("%s --cdp: exit %d, %s", file, c.ProcessState.ExitCode(), out)
			}
		}
	}
}

// req
func TestCredentialsNeedAGrantOfTheOrigin(t *testing.T) {
	t.Parallel()
	s, other := newShop(t), newShop(t)
	secrets := secretsOf("agent-browser", "LOGIN_USER", "ada", "LOGIN_PASSWORD", "correct-horse-battery")
	chromium := testenv.Chromium(t)
	try := func(named bool, origin string, grants ...browser.Grant) (*hosted, metier.Observation) {
		h := profileHost(t, leased(t, chromium, origin, time.Hour, grants...))
		if named {
			h.Scripts = append(h.Scripts, signIn)
		}
		w := newHosted(t, setup{grants: func(g *policy.Grants) { g.Scripts = h.Scripts }, options: func(o *exectool.Options) { o.Secrets = secrets }}, h, agentBrowser(t))
		return w, w.browse(signIn, origin+"/login", "user", "pass")
	}
	w, o := try(false, s.URL) // the default list
	w.denies("script_not_allowlisted", "", o)
	w, o = try(true, s.URL)
	w.denies("permission_denied", "has no grant for "+s.URL, o)
	w, o = try(true, s.URL, browser.Grant{Script: fillForm, Origin: s.URL})
	w.denies("permission_denied", "has no grant for "+s.URL, o)
	w, o = try(true, other.URL, browser.Grant{Script: signIn, Origin: s.URL})
	w.denies("permission_denied", "bound to "+s.URL+", and the browser session is limited to "+other.URL, o)
	if len(s.got())+len(other.got()) > 0 {
		t.Fatalf("something was sent: %q %q", s.got(), other.got())
	}
	w, o = try(true, s.URL, browser.Grant{Script: signIn, Origin: s.URL})
	want := []string{w.dir, w.dir + "/skills"}
	for p := range agentBrowser(t) {
		for ; p != "skills"; p = filepath.Dir(p) {
			want = append(want, filepath.Join(w.dir, p))
		}
	}
	slices.Sort(want)
	if diff := cmp.Diff(slices.Compact(want), keys(tree(t, w.dir))); diff != "" {
		t.Errorf("files of the workspace (-want +got):\n%s", diff)
	}
	if got := s.got(); o.Code() != "" || !slices.Equal(got, []string{"pass=correct-horse-battery&user=ada"}) {
		t.Errorf("with the grant: %s %q", o.Text(), got)
	}
	if strings.Contains(o.Text(), "correct-horse") || !strings.Contains(o.Text(), "[redacted:LOGIN_PASSWORD]") {
		t.Errorf("what the page shows of it: %s", o.Text())
	}
}

// What the browser refuses while a script runs is in the result and in the
// record, and the script's own end does not change.
func TestModelIsToldWhatTheBrowserRefused(t *testing.T) {
	t.Parallel()
	other := newShop(t)
	s := httptest.NewServer(http.RedirectHandler(other.URL+"/order", http.StatusFound))
	t.Cleanup(s.Close)
	w := newHosted(t, setup{}, profileHost(t, leased(t, testenv.Chromium(t), s.URL, time.Hour)), agentBrowser(t))
	o := w.browse(capture, s.URL+"/")
	if o.Code() != "script_failed" || !strings.Contains(o.Text(), "The browser did not go to 127.0.0.1:") || !strings.Contains(o.Text(), "limited to "+s.URL) {
		t.Errorf("%s %s", o.Code(), o.Text())
	}
	if ran := events[event.ScriptExecuted](w.fixture); len(ran) != 1 || len(ran[0].Hosts) != 2 || ran[0].Hosts[1].Code != "origin_refused" {
		t.Errorf("the record says %+v", ran)
	}
}

// The endpoint is removed from the output of a script that prints it. A process
// that a script leaves behind loses the browser.
func TestEndpointStaysWithTheScript(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	l := leased(t, testenv.Chromium(t), s.URL, time.Hour)
	h := profileHost(t, l)
	h.Scripts = []string{"demo:scripts/echo.sh"}
	w := newHosted(t, setup{}, h, demo(map[string]string{"scripts/echo.sh": "#!/bin/bash\necho \"at $AGENT_BROWSER_CDP\"; echo \"${AGENT_BROWSER_CDP#http://}\" >&2\n"}))
	r := w.ran("scripts/echo.sh")
	if r.Stdout != "at [redacted:AGENT_BROWSER_CDP]\n" || r.Stderr != "[redacted:AGENT_BROWSER_CDP]\n" || strings.Contains(w.out, l.Endpoint()) {
		t.Errorf("%q %q, as it came %q", r.Stdout, r.Stderr, w.out)
	}
	res, err := http.Get(l.Endpoint() + "/json/list")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusForbidden {
		t.Errorf("once the script has ended, the endpoint answers %d", res.StatusCode)
	}
}

// A browser that does not answer causes an error with a hint, and nothing runs.
//
// req: A-088
func TestBrowserThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	w := newHosted(t, setup{}, profileHost(t, leased(t, "http://127.0.0.1:1", "http://127.0.0.1:8", time.Hour)), agentBrowser(t))
	w.denies("browser_unavailable", "the operator has to check", w.browse(capture, "http://127.0.0.1:8/"))
}
