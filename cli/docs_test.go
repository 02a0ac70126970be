package cli_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// documents are the pages whose console blocks are run, each in a copy of the
// repository of its own.
var documents = []string{"docs/CLI.md", "docs/RUNS.md"}

// TestDocuments types what the pages tell the reader to type and compares what
// they say comes back.
func TestDocuments(t *testing.T) {
	t.Parallel()
	for _, page := range documents {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			src, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(page)))
			if err != nil {
				t.Fatal(err)
			}
			dir, home := filepath.Join(t.TempDir(), "metier"), t.TempDir()
			for _, part := range []string{"docs", "examples", "skills"} {
				if err := copyTree(filepath.Join("..", part), filepath.Join(dir, part)); err != nil {
					t.Fatal(err)
				}
			}
			steps := consoleSteps(string(src))
			if len(steps) == 0 {
				t.Fatal("the page has no console block")
			}
			for _, s := range steps {
				s.run(t, dir, home)
			}
		})
	}
}

// step is one command of a console block and what it prints, … being anything.
// A comment at its end, # exit N, is the exit code.
type step struct {
	line          int
	command, want string
	exit          string
}

func consoleSteps(page string) []step {
	var out []step
	inside := false
	n := 0
	for line := range strings.Lines(page) {
		n++
		switch {
		case strings.HasPrefix(line, "```"):
			inside = strings.TrimSpace(line) == "```console"
		case !inside:
		case strings.HasPrefix(line, "$ "):
			s := step{line: n, exit: "0"}
			cmd, comment, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "$ "), "  # ")
			s.command = strings.TrimSpace(cmd)
			if code, ok := strings.CutPrefix(comment, "exit "); ok {
				s.exit = code
			}
			out = append(out, s)
		case len(out) > 0:
			out[len(out)-1].want += line
		}
	}
	return out
}

func (s step) run(t *testing.T, dir, home string) {
	t.Helper()
	words := splitWords(s.command)
	if len(words) == 0 || words[0] != "metier" {
		t.Fatalf("line %d: %q is not a metier command", s.line, s.command)
	}
	var both bytes.Buffer
	cmd := exec.Command("metier", words[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &both, &both
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "USERPROFILE=" + home, "TZ=UTC", "OLLAMA_HOST=127.0.0.1:1"}
	code := "0"
	if err := cmd.Run(); err != nil {
		if cmd.ProcessState == nil {
			t.Fatalf("line %d: %v", s.line, err)
		}
		code = fmt.Sprint(cmd.ProcessState.ExitCode())
	}
	if code != s.exit || !alike(s.want, both.String()) {
		t.Fatalf("line %d: %s\nexit %s, want %s; it prints\n%s\nthe page says\n%s", s.line, s.command, code, s.exit, both.String(), s.want)
	}
}

// splitWords splits a command as a shell does that knows only double quotes.
func splitWords(s string) []string {
	var out []string
	var word strings.Builder
	quoted, any := false, false
	for _, r := range s {
		switch {
		case r == '"':
			quoted, any = !quoted, true
		case r == ' ' && !quoted:
			if any {
				out = append(out, word.String())
			}
			word.Reset()
			any = false
		default:
			word.WriteRune(r)
			any = true
		}
	}
	if any {
		out = append(out, word.String())
	}
	return out
}
