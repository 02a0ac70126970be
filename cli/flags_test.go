package cli_test

import (
	"bytes"
	"iter"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"metier/cli"
)

// req: A-173
func TestCommandLines(t *testing.T) {
	t.Parallel()
	ws := filepath.Join(t.TempDir(), "ws")
	if err := copyTree(filepath.Join("testdata", "ws"), ws); err != nil {
		t.Fatal(err)
	}
	for line, c := range map[string]struct {
		exit int
		says string // in the output
	}{
		"list --skills-root skills":                           {0, "greet"},
		"list --skills-root=skills":                           {0, "greet"},
		"list --json --skills-root skills":                    {0, `"name": "greet"`},
		"--json list --skills-root skills":                    {0, `"name": "greet"`},
		"list --skills-root skills --all=false":               {0, "greet"},
		"list --skills-root nowhere --skills-root skills":     {4, "skills_root_missing"}, // repeatable: each counts
		"list --state loaded --state refused --skills-root .": {0, "greet"},
		"list --all=maybe":                                    {2, `--all "maybe" is not true or false`},
		"list --skills-root":                                  {2, "needs an argument"},
		"list --nope":                                         {2, "nope"},
		"list -- --all":                                       {2, "unexpected argument"},
		"list greet":                                          {2, "metier show NAME"},
		"list --set max_dirs":                                 {2, "max_dirs"},
		"list --set max_dirs=many":                            {2, "many"},
		"list --set max_dirs=0":                               {2, "max_dirs"},
		"list --set nobody=1":                                 {2, "nobody"},
		"list --set max_dirs=5 --skills-root skills":          {0, "greet"},
		"show":                            {2, "needs the name, ID, or path of one skill"},
		"show greet more":                 {2, "needs the name, ID, or path of one skill"},
		"show greet --skills-root skills": {0, "greet"},
		"runs stats --limit x":            {2, `--limit "x" is not a whole number`},
		"run --max-tokens 1.5":            {2, `--max-tokens "1.5" is not a whole number`},
		"exec a b --timeout x":            {2, `--timeout "x" is not a duration such as 90s or 10m`},
		"sandbox run --level L9 -- ls":    {2, `--level "L9" is not a level`},
		"run --harness nope --prompt x --model scripted:x": {4, "existing folder with --harness"},
		"help nope":                     {2, `unknown command "nope" for "metier"`},
		"help lst":                      {2, "did you mean list?"},
		"help runs shw":                 {2, "did you mean show?"},
		"help list more":                {2, "unexpected argument"},
		"help runs show":                {0, "metier runs show RUN"},
		"completion nope":               {2, `unknown command "nope" for "metier completion"`},
		"completion":                    {0, "powershell"},
		"runs nope":                     {2, "nope"},
		"nope":                          {2, "nope"},
		"run --prompt":                  {2, "needs an argument"},
		"run --prompt x --max-turns -1": {2, "max-turns"},
		"list --help":                   {0, "Usage"},
	} {
		var out, errs bytes.Buffer
		code := cli.Main(t.Context(), strings.Fields(line), []string{"HOME=" + ws, "OLLAMA_HOST=127.0.0.1:1"}, cli.IO{In: strings.NewReader(""), Out: &out, Err: &errs, Dir: ws})
		if said := out.String() + errs.String(); code != c.exit || !strings.Contains(said, c.says) {
			t.Errorf("metier %s: exit %d, want %d with %q:\n%s", line, code, c.exit, c.says, said)
		}
		if code == 2 && !strings.Contains(errs.String(), "hint") && !strings.Contains(errs.String(), "sage") {
			t.Errorf("metier %s: no way out in %q", line, errs.String())
		}
	}
}

// Words without a space, such as an example of a value, may be longer than a line.
func TestHelp_FitsIn80Columns(t *testing.T) {
	t.Parallel()
	seen := 0
	for args := range commandsOf(t) {
		seen++
		out := help(t, args)
		_, examples, _ := strings.Cut(out, "\nExamples:\n")
		examples, _, _ = strings.Cut(examples, "\n\n") // are copied, so they are not broken
		for l := range strings.Lines(strings.Replace(out, examples, "", 1)) {
			if utf8.RuneCountInString(l) > 81 && len(strings.Fields(l)) > 2 {
				t.Errorf("metier %s --help: %d columns: %s", args, utf8.RuneCountInString(l)-1, l)
			}
		}
	}
	if seen < 40 {
		t.Errorf("%d commands were read", seen)
	}
}

// Help names the value of each flag by what it is, not by its type in Go.
func TestHelp_NamesTheValuesOfFlags(t *testing.T) {
	t.Parallel()
	kind := regexp.MustCompile(`(?m)^ +(?:-\w, )?--[a-z-]+ (?:string|stringArray|int|int64|uint|uint64|strings)\s`)
	for args := range commandsOf(t) {
		for _, l := range kind.FindAllString(help(t, args), -1) {
			t.Errorf("metier %s --help: %s", args, l)
		}
	}
	var out bytes.Buffer
	cli.Main(t.Context(), []string{"__complete", "run", "--skills"}, nil, cli.IO{In: strings.NewReader(""), Out: &out, Err: &out, Dir: t.TempDir()})
	if text := out.String(); !strings.Contains(text, "--skills-root\tskills folder, ") {
		t.Errorf("completion: %s", text)
	}
}

// commandsOf yields all commands, as their words, except those of the framework.
func commandsOf(t *testing.T) iter.Seq[string] {
	listed := regexp.MustCompile(`(?m)^  ([a-z-]+) {2,}[A-Z]`)
	return func(yield func(string) bool) {
		todo := []string{""}
		for len(todo) > 0 {
			args := todo[0]
			todo = todo[1:]
			if !yield(args) {
				return
			}
			list, _, _ := strings.Cut(help(t, args), "\nFlags:\n")
			for _, m := range listed.FindAllStringSubmatch(list, -1) {
				if m[1] != "completion" && m[1] != "help" {
					todo = append(todo, strings.TrimSpace(args+" "+m[1]))
				}
			}
		}
	}
}

func help(t *testing.T, args string) string {
	var out bytes.Buffer
	cli.Main(t.Context(), append(strings.Fields(args), "--help"), nil, cli.IO{In: strings.NewReader(""), Out: &out, Err: &out, Dir: t.TempDir()})
	return out.String()
}
