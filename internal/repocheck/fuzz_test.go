package repocheck_test

import (
	"go/ast"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"metier/internal/repocheck"
	"metier/internal/testenv"
)

// tools/fuzz runs exactly the targets that the source declares.
func TestEveryFuzzTargetIsFuzzed(t *testing.T) {
	t.Parallel()
	bash := testenv.NeedTool(t, "bash", "bash")
	cmd := exec.CommandContext(t.Context(), bash, "tools/fuzz", "--list")
	cmd.Dir = testenv.Module(t)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got := strings.Split(strings.TrimSpace(string(out)), "\n")
	slices.Sort(got)
	var want []string
	tree, err := repocheck.Load(os.DirFS(testenv.Module(t)))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range tree.Go(repocheck.IsTest) {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Fuzz") && len(fn.Type.Params.List) == 1 {
				dir := "./" + path.Dir(f.Path)
				if path.Dir(f.Path) == "." {
					dir = "."
				}
				want = append(want, dir+" "+fn.Name.Name)
			}
		}
	}
	slices.Sort(want)
	if len(want) < 15 || !slices.Equal(got, want) {
		t.Errorf("declared:\n%s\n\nfuzzed:\n%s", strings.Join(want, "\n"), strings.Join(got, "\n"))
	}
}

// A failure is ignored only if it is the toolchain's own deadline and no input was saved. Then the
// target runs again.
func TestFuzzingFailsForEachInputThatIsSaved(t *testing.T) {
	t.Parallel()
	bash := testenv.NeedTool(t, "bash", "bash")
	const (
		fine     = "echo 'fuzz: elapsed: 1s, execs: 77 (77/sec), new interesting: 0 (total: 1)'\n"
		deadline = fine + "printf -- '--- FAIL: FuzzA (1.00s)\\n    context deadline exceeded\\nFAIL\\n'; exit 1\n"
		save     = "mkdir -p testdata/fuzz/FuzzA; echo x > testdata/fuzz/FuzzA/1\n"
		written  = "printf -- '--- FAIL: FuzzA (1.00s)\\n    Failing input written to testdata\\nFAIL\\n'; exit 1\n"
		first    = "if [ ! -e ran ]; then touch ran\n"
	)
	for name, tt := range map[string]struct {
		program, want string
		fails         bool
	}{
		"fine":                        {fine, "ok    . FuzzA: 77 execs in 4s\n", false},
		"the deadline once":           {first + deadline + "fi\n" + fine, "again . FuzzA: the toolchain took its own deadline for a failure, and no input was saved\nok    . FuzzA: 77 execs in 4s, at try 2\n", false},
		"the deadline always":         {deadline, "FAIL  . FuzzA: 3 runs ended so\n", true},
		"the deadline, with an input": {first + save + deadline + "fi\n" + fine, "FAIL  . FuzzA\n", true},
		"an input":                    {first + save + written + "fi\n" + fine, "FAIL  . FuzzA\n", true},
		"another failure":             {first + "echo no such package; exit 1\nfi\n" + fine, "FAIL  . FuzzA\n", true},
		"nothing was run":             {"exit 0\n", "FAIL  . FuzzA: it was not run\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			script, err := os.ReadFile(filepath.Join(testenv.Module(t), "tools", "fuzz"))
			if err != nil {
				t.Fatal(err)
			}
			for name, text := range map[string]string{"tools/fuzz": string(script), "bin/go": "#!/bin/sh\n" + tt.program, "go.mod": "module m\n",
				"a_test.go": "package m\n\nfunc FuzzA(f *testing.F) {\n}\n", "sub/go.mod": "module n\n", "sub/b_test.go": "package n\n\nfunc FuzzB(f *testing.F) {\n}\n"} {
				file := filepath.Join(dir, filepath.FromSlash(name))
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				testenv.WriteProgram(t, file, []byte(text))
			}
			cmd := exec.CommandContext(t.Context(), bash, "tools/fuzz", "16s")
			cmd.Dir = dir
			cmd.Env = append(slices.Clone(os.Environ()), "PATH="+filepath.Join(dir, "bin")+string(filepath.ListSeparator)+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			if (err != nil) != tt.fails || !strings.Contains(string(out), tt.want) {
				t.Errorf("%v, output:\n%swant:\n%s", err, out, tt.want)
			}
		})
	}
}
