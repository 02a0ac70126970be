package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/internal/testenv"
	"metier/model"
	"metier/model/modeltest"
)

// factory is a copy of the example, with the program under test beside it.
type factory struct {
	t   *testing.T
	dir string
	env []string
}

func newFactory(t *testing.T) *factory {
	t.Helper()
	if runtime.GOOS != "linux" {
		testenv.Skip(t, "programs have a sandbox on Linux only")
	}
	dir := t.TempDir()
	f := &factory{t: t, dir: filepath.Join(dir, "factory")}
	if err := copyTree(filepath.Join("..", "examples", "factory"), f.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(f.dir, "project", "made")); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	metier, home := filepath.Join(dir, "metier"), filepath.Join(dir, "home")
	if err := os.Symlink(exe, metier); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(home, 0o755); err != nil {
		t.Fatal(err)
	}
	f.env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "METIER=" + metier, "TMPDIR=" + dir, "TZ=UTC", "OLLAMA_HOST=127.0.0.1:1", "GORACE=atexit_sleep_ms=10"}
	return f
}

// change replaces a text of a file by another.
func (f *factory) change(name, old, with string) {
	f.t.Helper()
	p := filepath.Join(f.dir, name)
	b, err := os.ReadFile(p)
	if err != nil || !strings.Contains(string(b), old) {
		f.t.Fatalf("%s has no %q: %v", name, old, err)
	}
	if err := os.WriteFile(p, []byte(strings.ReplaceAll(string(b), old, with)), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

// The example has its six phases, with the required skills, and its build reads and writes files
// without a shell.
func TestTheFactoryHasItsSixPhases(t *testing.T) {
	t.Parallel()
	f := newFactory(t)
	c := exec.CommandContext(t.Context(), filepath.Join(filepath.Dir(f.dir), "metier"), "run", "-f", filepath.Join(f.dir, "run.yaml"), "--dry-run", "--json")
	c.Env = f.env
	b, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	var plan struct {
		Phases []struct {
			Phase  string
			Skills []struct{ Name string }
			Tools  []string
		}
	}
	if err := json.Unmarshal(b, &plan); err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, p := range plan.Phases {
		got += p.Phase + ":"
		for _, s := range p.Skills {
			got += " " + s.Name
		}
		got += "; " + strings.Join(p.Tools, " ") + "\n"
	}
	const want = `spec:; read_file write_file
ux_design:; read_file write_file
ui_design: pattern-ui; read_file write_file
build: pattern-dev pattern-implement cf; read_file write_file
critic: pattern-critic; read_file write_file
manual_test: pattern-test agent-browser cf; read_file write_file bash
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// compared is a row of the comparison.
type compared struct {
	score  string // passed of all
	tokens int
	build  string
}

var comparedRow = regexp.MustCompile(`(?m)^(with|without) skills +(\d+ of \d+|not run) +(\d+) +(.*)$`)

// compare runs the script and parses its output.
func (f *factory) compare(exit int, args ...string) (rows map[string]compared, out string) {
	f.t.Helper()
	c := exec.CommandContext(f.t.Context(), testenv.NeedTool(f.t, "sh", "dash"), append([]string{filepath.Join(f.dir, "compare.sh")}, args...)...)
	c.Dir, c.Env = f.t.TempDir(), f.env
	b, _ := c.CombinedOutput()
	if got := c.ProcessState.ExitCode(); got != exit {
		f.t.Fatalf("it ends with %d, want %d:\n%s", got, exit, b)
	}
	rows = map[string]compared{}
	for _, m := range comparedRow.FindAllStringSubmatch(string(b), -1) {
		tokens, _ := strconv.Atoi(m[3])
		rows[m[1]] = compared{m[2], tokens, m[4]}
	}
	return rows, string(b)
}

const noMeasurement = "This is not a measurement."

// The script builds twice, runs the project's own tests on both builds, prints both scores, and
// reports whether the model is scripted.
//
// req: A-174
func TestABuildWithSkillsIsComparedWithOneWithout(t *testing.T) {
	t.Parallel()
	f := newFactory(t)
	kept := filepath.Join(t.TempDir(), "kept")
	rows, out := f.compare(0, "--keep", kept)
	with, without := rows["with"], rows["without"]
	if with.score != "12 of 12" || without.score != "4 of 12" || with.build != "done" || without.build != "done" {
		t.Errorf("with %+v, without %+v:\n%s", with, without, out)
	}
	if with.tokens <= without.tokens || without.tokens == 0 {
		t.Errorf("%d and %d tokens", with.tokens, without.tokens)
	}
	want(t, out, "The model was scripted", noMeasurement)

	// Only the skills differ: both builds have the same six phases, and each
	// score is what the tests printed about its build.
	for name, n := range map[string]int{"with": 6, "without": 6} {
		runs, err := filepath.Glob(filepath.Join(kept, name, ".metier", "runs", "*"))
		if err != nil || len(runs) != n {
			t.Errorf("%s: %d runs", name, len(runs))
		}
		loaded := 0
		for _, r := range runs {
			b, err := os.ReadFile(filepath.Join(r, "skill-activations.json"))
			if err != nil {
				t.Fatal(err)
			}
			loaded += strings.Count(string(b), `"cli-preload"`)
		}
		if wanted := map[string]int{"with": 8, "without": 0}[name]; loaded != wanted {
			t.Errorf("%s: %d skills were loaded, want %d", name, loaded, wanted)
		}
		b, err := exec.CommandContext(t.Context(), "sh", filepath.Join(kept, name, "tests", "run.sh")).Output()
		if lines := strings.Split(strings.TrimSpace(string(b)), "\n"); lines[len(lines)-1] != "passed "+rows[name].score {
			t.Errorf("%s: %v\n%s", name, err, b)
		}
	}
}

// A skill with fewer instructions leads to a build with a lower score: scores measure what was
// built.
func TestTheComparisonFollowsWhatWasBuilt(t *testing.T) {
	t.Parallel()
	f := newFactory(t)
	f.change("skills/pattern-dev/SKILL.md", "write `&` as `&amp;`", "be careful with `&`")
	rows, out := f.compare(0)
	if rows["with"].score != "10 of 12" || rows["without"].score != "4 of 12" {
		t.Error(out)
	}
}

// A broken build is visible: in its score if the program does not run, and by its reason if a phase
// fails. Changing the tests does not help a build.
func TestABrokenBuildShowsInTheComparison(t *testing.T) {
	t.Parallel()
	t.Run("the program does not run", func(t *testing.T) {
		t.Parallel()
		f := newFactory(t)
		f.change("model.yaml", "exec awk -F';' '", "exec awk -F';' 'BEGIN {")
		rows, out := f.compare(0)
		if rows["with"].score != "0 of 12" || rows["without"].score != "0 of 12" {
			t.Error(out)
		}
	})
	t.Run("a phase fails", func(t *testing.T) {
		t.Parallel()
		f := newFactory(t)
		f.change("model.yaml", "  # build\n", "  - {when: '{{ contains \"Phase build.\" prompt }}', error: model_auth}\n")
		rows, out := f.compare(1)
		if w := rows["with"]; w.score != "0 of 12" || !strings.HasPrefix(w.build, "failed: run ") || !strings.Contains(w.build, "-build failed: scripted: ") || rows["without"].score != "0 of 12" {
			t.Error(out)
		}
	})
	t.Run("the tests are written anew", func(t *testing.T) {
		t.Parallel()
		f := newFactory(t)
		f.change("model.yaml", "path: made/page.sh\n          content: |\n", "path: tests/run.sh\n          content: |\n            echo passed 12 of 12\n")
		rows, out := f.compare(0)
		if rows["with"].score != "0 of 12" || rows["without"].score != "0 of 12" {
			t.Error(out)
		}
	})
}

// With a real model, the script measures: it uses no scripted text, and the provider's token
// counts.
func TestTheComparisonMeasuresAModel(t *testing.T) {
	t.Parallel()
	f := newFactory(t)
	s := modeltest.OpenAI(t)
	s.Answer(func(*modeltest.Request) modeltest.Turn {
		return modeltest.Turn{Text: "I do nothing.", Usage: model.Usage{Input: 90, Output: 10}}
	})
	f.env = append(f.env, "OPENAI_API_KEY="+modeltest.Key, "OPENAI_BASE_URL="+s.URL)
	rows, out := f.compare(0, "--model", "openai:tried")
	for _, name := range []string{"with", "without"} {
		if rows[name] != (compared{"0 of 12", 600, "done"}) {
			t.Errorf("%s: %+v\n%s", name, rows[name], out)
		}
	}
	if strings.Contains(out, noMeasurement) {
		t.Error(out)
	}
}

func TestTheComparisonSaysHowItIsUsed(t *testing.T) {
	t.Parallel()
	f := newFactory(t)
	for _, args := range [][]string{{"--modle", "x"}, {"--model"}, {"--keep", f.dir}} {
		_, out := f.compare(2, args...)
		if out == "" {
			t.Error(fmt.Sprint(args, " is refused without a word"))
		}
	}
}
