package engine_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The first program of docs/EMBEDDING.md builds in its own module, with a main of twenty lines, and
// runs.
func TestEmbeddingPage_ProgramBuildsInItsOwnModule(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "EMBEDDING.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```go\n")
	program, _, _ := strings.Cut(rest, "```")
	_, body, _ := strings.Cut(program, "func main() {\n")
	body, _, _ = strings.Cut(body, "\n}\n")
	if n := strings.Count(body, "\n") + 1; n > 20 {
		t.Errorf("main has %d lines, at most 20", n)
	}
	dir := t.TempDir()
	for _, name := range []string{"go.mod", "go.sum"} {
		b, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Replace(string(b), "module metier\n", "module example\n\nrequire metier v0.0.0\n\nreplace metier => "+root+"\n", 1)
		write(t, filepath.Join(dir, name), text)
	}
	write(t, filepath.Join(dir, "main.go"), program)
	write(t, filepath.Join(dir, "skills", "umbrella", "SKILL.md"), "---\nname: umbrella\ndescription: Say when to take an umbrella. Use when it rains.\n---\nTake one.\n")
	write(t, filepath.Join(dir, "turns.yaml"), "turns:\n  - calls: [{tool: weather, args: {city: Oslo}}, {tool: load_skill, args: {name: umbrella}}]\n  - say: '{{ result \"weather\" 1 }}'\n")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", "program", ".")
	build.Dir = dir
	build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "GOPROXY=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	run := exec.CommandContext(t.Context(), filepath.Join(dir, "program"))
	run.Dir = dir
	run.Env = []string{"HOME=" + filepath.Join(dir, "home"), "METIER_MODEL=scripted:" + filepath.Join(dir, "turns.yaml"), "PATH=" + os.Getenv("PATH")}
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("run: %v\n%s", err, out)
	}
	if diff := cmp.Diff("Rain in Oslo. <nil>\n", string(out)); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}
