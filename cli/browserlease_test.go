package cli_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"metier/cli"
	"metier/internal/testenv"
	"metier/model/modeltest"
	"metier/run"
)

// lessee is a run whose subagent reads a page of a shared browser, and then sends
// its form as often as its turns allow. Each time requires an approval.
type lessee struct {
	*kin
	shop    *shop
	clock   time.Time
	results []string // of the subagent, in order
}

const readingBrowser = `name: browser
description: Works with a page, and reads what a person lets it.
skills: [agent-browser]
scripts: [agent-browser:scripts/form-automation.sh, agent-browser:scripts/capture-workflow.sh]
tools: [run_skill_script, read_file]
target: host
browser: true
max_turns: 16
`

func newLessee(t *testing.T, forms int) *lessee {
	t.Helper()
	l := &lessee{shop: newShop(t), clock: time.Now()}
	l.kin = newKin(t, map[string]string{"config.yaml": "browser: {path: [" + pagehand(t) + "]}\n", "subs/browser.yaml": readingBrowser})
	l.main = func(ctx context.Context, args, env []string, std cli.IO) int {
		return cli.MainAt(ctx, func() time.Time { return l.clock }, args, env, std)
	}
	outside := filepath.Join(t.TempDir(), "order.txt")
	must(t, os.WriteFile(outside, []byte("One for Ada.\n"), 0o600))
	l.parent = once(delegate(`{"profile":"browser","task":"Order for Ada."}`))
	l.child = func(_ string, turn int, r *modeltest.Request) modeltest.Turn {
		l.results = nil
		for _, m := range r.Messages {
			for _, res := range m.Results {
				l.results = append(l.results, res.Text)
			}
		}
		switch {
		case turn == 0:
			return turnOf(modeltest.Call{Tool: "run_skill_script", Args: call("capture-workflow.sh", l.shop.URL+"/")})
		case turn > 2*forms:
			return modeltest.Turn{Text: "Ordered, or not."}
		case turn%2 == 1:
			return turnOf(modeltest.Call{Tool: "read_file", Args: `{"path":"` + outside + `"}`})
		}
		return turnOf(modeltest.Call{Tool: "run_skill_script", Args: call("form-automation.sh", l.shop.URL+"/", "name=Ada")})
	}
	l.want(7, append([]string{"run", "--output-mode", "batch", "--on-approval", "wait", "--set", "guard_allow=roots", "--prompt", "Go.", "--subagent-profiles", "subs", "--allow-subagent-profile", "browser"}, lend(t, l.shop.URL)...)...)
	if len(l.shop.got()) > 0 || len(l.results) != 1 || !strings.Contains(l.results[0], "Order") {
		t.Fatalf("sent %q; the subagent was told %q", l.shop.got(), l.results)
	}
	return l
}

// later answers yes after some time, and resumes the run; exit is the exit code
// of the run.
func (l *lessee) later(d time.Duration, exit int, flags ...string) {
	l.t.Helper()
	l.want(0, "runs", "approve", "latest")
	l.clock = l.clock.Add(d)
	l.want(exit, append([]string{"run", "--resume", "latest"}, flags...)...)
}

// A lease that expired while the run was waiting stays expired on resume: the subagent is refused,
// and the user is shown how to fix it.
func TestALeaseThatEndedIsNotTakenUpAgain(t *testing.T) {
	t.Parallel()
	l := newLessee(t, 1)
	l.later(time.Hour, 0)
	if len(l.shop.got()) > 0 {
		t.Errorf("sent: %q", l.shop.got())
	}
	if last := l.results[len(l.results)-1]; !strings.HasPrefix(last, "Error: permission_denied: ") || !strings.Contains(last, "its time is over") || !strings.Contains(last, "renew the session on resume") {
		t.Errorf("the subagent was told %q", l.results)
	}
	if said := l.err.String(); !strings.Contains(said, "note: the shared browser session ended at "+l.clock.Add(-50*time.Minute).UTC().Format(time.RFC3339)) || !strings.Contains(said, "--browser-until") {
		t.Errorf("the person was told:\n%s", said)
	}
	ran := readArtifact[run.Scripts](t, l.childFolder("t1.c0"), run.FileScripts).Executions
	if len(ran) != 2 || ran[0].Status != "executed" || ran[1].Error == nil || ran[1].Error.Code != "permission_denied" {
		t.Errorf("%+v", ran)
	}
}

// With a new lease it works, for the new duration and over further interruptions. The record says
// so.
func TestALeaseThatEndedIsLentAnew(t *testing.T) {
	t.Parallel()
	l := newLessee(t, 4)
	sent := func(n int) {
		t.Helper()
		if got := l.shop.got(); !slices.Equal(got, slices.Repeat([]string{"name=Ada&pass="}, n)) {
			t.Fatalf("the server received %q, want %d; the subagent was told %q\n%s", got, n, l.results, l.err.String())
		}
	}
	l.later(time.Minute, 7) // its time is not over
	sent(1)
	l.later(time.Hour, 7, "--browser-until", "30m")
	sent(2)
	if strings.Contains(l.err.String(), "note: the lease") {
		t.Error(l.err.String())
	}
	l.later(20*time.Minute, 7) // as in the last session
	sent(3)
	l.later(20*time.Minute, 0)
	sent(3)
	if last := l.results[len(l.results)-1]; !strings.Contains(last, "its time is over") {
		t.Errorf("the subagent was told %q", last)
	}
	var leases []string
	for _, en := range entriesOf(t, l.folder()) {
		if en.Type == "run.resumed" && strings.Contains(string(en.Data), `"lease"`) {
			leases = append(leases, string(en.Data))
		}
	}
	if len(leases) != 1 {
		t.Errorf("the record says %q", leases)
	}
	l.want(0, "audit", "verify", "latest")
	l.want(0, "runs", "export", "latest", "-o", "run.zip")
}

// An invalid lease is rejected before the run resumes, and the run keeps waiting.
func TestWhatIsNoLeaseIsNotLentAnew(t *testing.T) {
	t.Parallel()
	l := newLessee(t, 1)
	before := len(entriesOf(t, l.folder()))
	for _, c := range []struct{ flag, value, hint string }{
		{"--browser-until", "soon", "use a duration"}, {"--browser-endpoint", "http://example.com:9222", "127.0.0.1"}, {"--browser-origin", "ftp://x", "https://example.com"},
	} {
		l.want(2, "run", "--resume", "latest", c.flag, c.value)
		if said := l.err.String(); !strings.Contains(said, "[lease_invalid]") || !strings.Contains(said, c.hint) {
			t.Errorf("%s %s:\n%s", c.flag, c.value, said)
		}
	}
	if got := len(entriesOf(t, l.folder())); got != before {
		t.Errorf("%d entries, there were %d", got, before)
	}
	l.later(0, 0, "--browser-endpoint", testenv.Chromium(t))
	if got := l.shop.got(); len(got) != 1 {
		t.Errorf("sent: %q\n%s", got, l.results)
	}

	k := newKin(t, map[string]string{"config.yaml": "{}\n", "policy.yaml": "version: 1\nrules:\n  - ask: write_file\n"}) // a run that never had a session
	k.parent = once(modeltest.Call{Tool: "write_file", Args: `{"path":"a.txt","content":"x"}`})
	k.want(7, "run", "--output-mode", "batch", "--on-approval", "wait", "--policy", "policy.yaml", "--prompt", "Go.")
	k.want(2, "run", "--resume", "latest", "--browser-until", "10m")
	if said := k.err.String(); !strings.Contains(said, "[lease_invalid]") || !strings.Contains(said, "--browser-endpoint") {
		t.Error(said)
	}
}
