package engine_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The programs of docs/EMBEDDING.md build in their own module, the first one with a main of twenty
// lines, and run.
func TestEmbeddingPage_ProgramsBuildInTheirOwnModule(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "EMBEDDING.md"))
	if err != nil {
		t.Fatal(err)
	}
	programs := strings.Split(string(page), "```go\npackage main\n")[1:]
	for i, p := range programs {
		text, _, _ := strings.Cut(p, "```")
		programs[i] = "package main\n" + text
	}
	wants := []func(out string) string{
		func(out string) string { return cmp.Diff("Rain in Oslo. <nil>\n", out) },
		func(out string) string {
			if strings.HasPrefix(out, "umbrella loaded\n") && strings.Contains(out, "Say when to take an umbrella.") && strings.HasSuffix(out, " <nil>\n") {
				return ""
			}
			return out
		},
	}
	programs = append(programs, fragments(t, string(page)))
	wants = append(wants, func(out string) string { return cmp.Diff("Rain in Oslo. <nil>\ndone  Second.\n<nil>\n", out) })
	if len(programs) != len(wants) {
		t.Fatalf("the page has %d programs, want %d", len(programs), len(wants))
	}
	_, body, _ := strings.Cut(programs[0], "func main() {\n")
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
	write(t, filepath.Join(dir, "skills", "umbrella", "SKILL.md"), "---\nname: umbrella\ndescription: Say when to take an umbrella. Use when it rains.\n---\nTake one.\n")
	write(t, filepath.Join(dir, "turns.yaml"), "turns:\n  - calls: [{tool: weather, args: {city: Oslo}}, {tool: load_skill, args: {name: umbrella}}]\n  - say: '{{ result \"weather\" 1 }}'\n")
	for i, program := range programs {
		name := fmt.Sprintf("program%d", i+1)
		write(t, filepath.Join(dir, name+".d", "main.go"), program)
		build := exec.CommandContext(t.Context(), "go", "build", "-o", name, "./"+name+".d")
		build.Dir = dir
		build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "GOPROXY=off")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", name, err, out)
		}
		run := exec.CommandContext(t.Context(), filepath.Join(dir, name))
		run.Dir = dir
		run.Env = []string{"HOME=" + filepath.Join(dir, "home"), "METIER_MODEL=scripted:" + filepath.Join(dir, "turns.yaml"), "PATH=" + os.Getenv("PATH")}
		out, err := run.CombinedOutput()
		if err != nil {
			t.Fatalf("run %s: %v\n%s", name, err, out)
		}
		if diff := wants[i](string(out)); diff != "" {
			t.Errorf("output of %s:\n%s", name, diff)
		}
	}
}

// fragments returns a program that uses the page's scripted model, and continues a run as the page
// does.
func fragments(t *testing.T, page string) string {
	t.Helper()
	of := func(start string) string {
		_, text, ok := strings.Cut(page, "```go\n"+start)
		text, _, end := strings.Cut(text, "```")
		if !ok || !end {
			t.Fatalf("the page has no fragment %q", start)
		}
		return start + text
	}
	return `package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"metier"
	"metier/config"
	"metier/engine"
	"metier/model/scripted"
	"metier/policy"
)

type place struct {
	City string ` + "`json:\"city\"`" + `
}

func main() {
	ctx := context.Background()
	weather, err := metier.FuncTool("weather", "Forecast the weather of a city.", policy.Read, func(_ context.Context, p place) (string, error) { return "Rain in " + p.City + ".", nil })
	if err != nil {
		log.Fatal(err)
	}
	` + of("client, err := scripted") + `
	if err != nil {
		log.Fatal(err)
	}
	a, err := engine.NewAgent(ctx, engine.AgentOptions{Client: client, Tools: []metier.Tool{weather}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(a.Ask(ctx, "Will it rain in Oslo?"))
	if err := a.Close(ctx); err != nil {
		log.Fatal(err)
	}
	custom := engine.Custom{}
	custom.Model, err = scripted.New([]byte("turns: [{say: First.}, {say: Second.}]"))
	if err != nil {
		log.Fatal(err)
	}
	if a, err = engine.NewAgent(ctx, engine.AgentOptions{Client: custom.Model}); err != nil {
		log.Fatal(err)
	}
	outcome, err := a.Run(ctx, "Will it rain in Oslo?")
	if err != nil {
		log.Fatal(err)
	}
	if err := a.Close(ctx); err != nil {
		log.Fatal(err)
	}
	dir, err := os.Getwd()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(resume(ctx, dir, outcome, custom))
}

func resume(ctx context.Context, dir string, outcome engine.Outcome, custom engine.Custom) error {
	` + of("e := engine.New") + `
	return err
}
`
}
