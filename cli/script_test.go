package cli_test

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"metier/cli"
	"metier/mcp/host/hosttest"
)

// TestMain makes the test binary the command metier for scripts and documents:
// the program under test is the one that was just compiled.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"mcpserver": hosttest.Main, // plays the script that its environment names
		"online":    mainOnline,
		"metier":    func() { os.Exit(cli.MainNoWait(context.Background(), os.Args[1:], os.Environ(), cli.System())) },
	})
}

// TestScripts runs every testdata/script/*.txtar. $WORK/ws is a workspace with
// one skill and a recorded model (testdata/ws).
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			home := filepath.Join(e.WorkDir, "home")
			e.Setenv("HOME", home)
			e.Setenv("USERPROFILE", home)
			e.Setenv("TZ", "UTC")
			e.Setenv("GORACE", "atexit_sleep_ms=10") // by default each process with the race detector waits a second at its end
			e.Setenv("OLLAMA_HOST", "127.0.0.1:1")   // nothing listens there: no model on this machine is found
			if err := os.MkdirAll(home, 0o700); err != nil {
				return err
			}
			return copyTree(filepath.Join("testdata", "ws"), filepath.Join(e.WorkDir, "ws"))
		},
		Cmds: commands(),
	})
}

func commands() map[string]func(ts *testscript.TestScript, neg bool, args []string) {
	c := map[string]func(ts *testscript.TestScript, neg bool, args []string){
		"looks": looks, "subst": subst, "droplines": droplines, "status": status,
	}
	maps.Copy(c, failureCommands)
	maps.Copy(c, badInputCommands)
	maps.Copy(c, approvalCommands)
	maps.Copy(c, harnessCommands)
	maps.Copy(c, webCommands)
	maps.Copy(c, sourceCommands)
	maps.Copy(c, signerCommands)
	return c
}

// copyTree copies plain files and folders.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == ".git" || d.Name() == ".metier" {
				return filepath.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		}
		if !d.Type().IsRegular() {
			return nil
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), b, 0o644)
	})
}

// status runs a command that must end with an exact exit code: status 5 metier
// audit verify latest.
func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status CODE COMMAND ARGS…")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	if err != nil {
		got = -1
		if x, ok := err.(interface{ ExitCode() int }); ok {
			got = x.ExitCode()
		}
	}
	if fmt.Sprint(got) != args[0] {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

// looks compares output with a golden file. … stands for any text on one line,
// and a line with only … for any lines.
func looks(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: looks stdout|stderr|FILE GOLDEN")
	}
	got, want := ts.ReadFile(args[0]), ts.ReadFile(args[1])
	if !alike(want, got) {
		ts.Fatalf("%s is not like %s:\n%s", args[0], args[1], got)
	}
}

// alike reports whether got matches want, where … matches anything.
func alike(want, got string) bool {
	var re strings.Builder
	re.WriteString(`\A`)
	for line := range strings.Lines(want) {
		if strings.TrimSpace(line) == "…" {
			re.WriteString(`(?:.*\n)*?`)
			continue
		}
		re.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), "…", `.*?`))
	}
	re.WriteString(`\z`)
	return regexp.MustCompile(re.String()).MatchString(got)
}

// subst replaces the first OLD in a file by NEW, in place. FILE may be a
// pattern that matches one file.
func subst(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: subst FILE OLD NEW")
	}
	edit(ts, args[0], func(s string) string {
		if !strings.Contains(s, args[1]) {
			ts.Fatalf("%s does not hold %q", args[0], args[1])
		}
		return strings.Replace(s, args[1], args[2], 1)
	})
}

// droplines removes the last line of a file.
func droplines(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: droplines FILE")
	}
	edit(ts, args[0], func(s string) string { return s[:strings.LastIndexByte(strings.TrimSuffix(s, "\n"), '\n')+1] })
}

func edit(ts *testscript.TestScript, pattern string, change func(string) string) {
	match, err := filepath.Glob(ts.MkAbs(pattern))
	if err != nil || len(match) != 1 {
		ts.Fatalf("%s names %d files: %v", pattern, len(match), err)
	}
	b, err := os.ReadFile(match[0])
	ts.Check(err)
	ts.Check(os.WriteFile(match[0], []byte(change(string(b))), 0o644))
}
