package repocheck_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"metier/internal/repocheck"
	"metier/internal/testenv"
)

// documents are the files whose commands a reader types.
func documents(t *testing.T) []string {
	t.Helper()
	root := testenv.Module(t)
	docs := []string{"README.md"}
	err := fs.WalkDir(os.DirFS(root), "docs", func(p string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(p, ".md") {
			docs = append(docs, p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return docs
}

// Every command block of the documents is run, top to bottom, in a copy of the
// repository, and its output matches the document.
func TestDocumentedCommandsRun(t *testing.T) {
	t.Parallel()
	root := testenv.Module(t)
	shell := testenv.NeedTool(t, "bash", "bash")
	blocks := map[string][]repocheck.Block{}
	count := 0
	for _, p := range documents(t) {
		text, err := os.ReadFile(filepath.Join(root, p))
		if err != nil {
			t.Fatal(err)
		}
		bs, findings := repocheck.Blocks(p, text)
		for _, f := range findings {
			t.Error(f)
		}
		bs = slices.DeleteFunc(bs, func(b repocheck.Block) bool {
			if b.Reason != "" {
				t.Logf("%s:%d: not run: %s", b.Path, b.Line, b.Reason)
			}
			if b.CI && p != "README.md" {
				t.Errorf("%s:%d: only README.md's commands are run by .ci/fresh-clone", b.Path, b.Line)
			}
			return b.Reason != "" || b.CI
		})
		if len(bs) > 0 {
			blocks[p] = bs
			count += len(bs)
		}
	}
	t.Logf("%d blocks in %d documents", count, len(blocks))
	if len(blocks) == 0 {
		return
	}
	bin := t.TempDir()
	build := exec.Command("go", "build", "-o", bin+string(filepath.Separator), "./cmd/metier")
	build.Dir = root
	if b, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build metier: %v\n%s", err, b)
	}
	for p, bs := range blocks {
		t.Run(p, func(t *testing.T) {
			t.Parallel()
			dir := scratch(t, root)
			env := environment(t, bin)
			for _, b := range bs {
				for _, c := range b.Commands() {
					enter(t, shell, dir, env, b, c)
				}
			}
		})
	}
}

// enter runs a command as a reader would type it.
func enter(t *testing.T, shell, dir string, env []string, b repocheck.Block, c repocheck.Command) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	const stays = "\n[ \"$PWD\" = \"$start\" ] || { echo 'these commands leave the reader in another folder'; exit 97; }"
	cmd := exec.CommandContext(ctx, shell, "-euo", "pipefail", "-c", "start=$PWD\n"+c.Text+stays)
	cmd.Dir, cmd.Env, cmd.WaitDelay = dir, env, 10*time.Second
	out, err := cmd.CombinedOutput()
	code := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatalf("%s:%d: %s: %v", b.Path, b.Line, c.Text, err)
	}
	if code != c.Exit {
		t.Fatalf("%s:%d: %s\nexit %d, the document says %d; it printed:\n%s", b.Path, b.Line, c.Text, code, c.Exit, out)
	}
	if got := string(out); !repocheck.Matches(c.Want, got) {
		t.Errorf("%s:%d: %s\n(-document +printed)\n%s", b.Path, b.Line, c.Text, cmp.Diff(c.Want, got))
	}
}

// environment is that of a new user: none of our variables, and an empty home.
// The caches of Go stay, since a block does not test the network.
func environment(t *testing.T, bin string) []string {
	t.Helper()
	env := []string{"HOME=" + t.TempDir(), "PATH=" + bin + string(filepath.ListSeparator) + os.Getenv("PATH"), "LANG=C.UTF-8", "GOPROXY=off"}
	vars := []string{"GOCACHE", "GOMODCACHE", "GOPATH", "GOFLAGS", "GOTOOLCHAIN"}
	out, err := exec.Command("go", append([]string{"env"}, vars...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range strings.Split(strings.TrimSuffix(string(out), "\n"), "\n") {
		env = append(env, vars[i]+"="+v)
	}
	return env
}

// scratch copies the repository, without its history and build output.
func scratch(t *testing.T, root string) string {
	t.Helper()
	to := t.TempDir()
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if slices.Contains([]string{".git", ".metier", "bin", "dist"}, d.Name()) {
				return fs.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		case !d.Type().IsRegular():
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), b, info.Mode().Perm())
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}

func TestBlocksAreRead(t *testing.T) {
	t.Parallel()
	doc := strings.Join([]string{
		"```sh", "a", "b", "```", "text",
		"```console", "$ c \\", "> d", "out", "$ e", "```",
		"```go", "$ not a command", "```",
		"```sh not-run reason=\"needs a key\"", "f", "```",
		"```sh ci", "g", "```",
		"```console exit=3", "$ h", "denied…", "```",
		"````text", "```sh", "quoted", "```", "````",
	}, "\n")
	got, findings := repocheck.Blocks("d.md", []byte(doc))
	if len(findings) > 0 {
		t.Error(findings)
	}
	want := []repocheck.Block{
		{Path: "d.md", Line: 1, Kind: "sh", Text: "a\nb"},
		{Path: "d.md", Line: 6, Kind: "console", Text: "$ c \\\n> d\nout\n$ e"},
		{Path: "d.md", Line: 15, Kind: "sh", Reason: "needs a key", Text: "f"},
		{Path: "d.md", Line: 18, Kind: "sh", CI: true, Text: "g"},
		{Path: "d.md", Line: 21, Kind: "console", Exit: 3, Text: "$ h\ndenied…"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	commands := []repocheck.Command{{Text: "c \\\nd", Want: "out\n"}, {Text: "e"}}
	if diff := cmp.Diff(commands, got[1].Commands()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]repocheck.Command{{Text: "h", Want: "denied…\n", Exit: 3}}, got[4].Commands()); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"```\nx\n```", "```bash\nx\n```", "```sh no-run\nx\n```", "```sh not-run reason=\"\"\nx\n```", "```sh\nx"} {
		if _, f := repocheck.Blocks("d.md", []byte(bad)); len(f) == 0 {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestShownOutputIsCompared(t *testing.T) {
	t.Parallel()
	tests := []struct {
		want, got string
		match     bool
	}{
		{"", "anything\n", true},
		{"a b\n", "a b\n", true},
		{"a b\n", "a  b\n", false},
		{"a b", "a b \n\n", true},
		{"took … ms\n", "took 12 ms\n", true},
		{"took … ms\n", "took 12\nms\n", false},
		{"a\n…\nz\n", "a\nb\nc\nz\n", true},
		{"a\n…\nz\n", "a\nz\n", true},
		{"a\n…\n", "a\n", true},
		{"a\n…\nz\n", "a\nb\n", false},
		{"a\n", "a\nb\n", false},
		{"(.*)\n", "x\n", false},
	}
	for _, tt := range tests {
		if got := repocheck.Matches(tt.want, tt.got); got != tt.match {
			t.Errorf("%q with %q: %v", tt.want, tt.got, got)
		}
	}
}
