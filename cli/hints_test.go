package cli

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"metier"
)

// sentence is a text of the program; X stands for each inserted value.
type sentence struct{ at, text string }

// sentences are the texts in the Go files of the module, joined where the
// source joins them. Files of other modules and tests are left out.
func sentences(t *testing.T) (out []sentence) {
	t.Helper()
	root := ".."
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root:
			if name := d.Name(); strings.HasPrefix(name, ".") || name == "testdata" || name == "conformance" || name == "bench" || name == "tools" || name == "examples" || name == "repocheck" {
				return filepath.SkipDir
			}
			return nil
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ImportSpec, *ast.Field:
				_, is := n.(*ast.Field)
				return is && n.(*ast.Field).Tag == nil
			case *ast.BinaryExpr, *ast.BasicLit:
				if text, is := joined(n.(ast.Expr)); is {
					out = append(out, sentence{set.Position(n.Pos()).String(), text})
					return false
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// joined is a text literal, or several with X for what is between them.
func joined(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			text, err := strconv.Unquote(e.Value)
			return text, err == nil
		}
	case *ast.BinaryExpr:
		a, isA := joined(e.X)
		b, isB := joined(e.Y)
		if e.Op != token.ADD || !isA && !isB {
			return "", false
		}
		if !isA {
			a = "X"
		}
		if !isB {
			b = "X"
		}
		return a + b, true
	}
	return "", false
}

var (
	quotedLine = regexp.MustCompile("(?m)['`](metier [^'`\n]*)['`]|^  (metier [^\n]*)")
	plainLine  = regexp.MustCompile(`(?:^|[\s(;])metier ([a-z][a-z-]*)`)
	aFlag      = regexp.MustCompile(`(?:^|[\s('"\x60=])--([a-z][a-z0-9-]+)`)
)

// verbs follow the name of the program in sentences.
var verbs = map[string]bool{"does": true, "changes": true, "has": true, "returns": true, "that": true, "can": true, "finds": true, "brings": true, "wrote": true, "writes": true, "above": true, "moved": true, "did": true,
	"disagree": true, "estimates": true, "speaks": true, "session": true}

// otherFlags are flags of other programs that metier's texts name.
var otherFlags = map[string]bool{"remote-debugging-port": true, "month": true, "env": true, "cdp": true, "universal": true, "norc": true, "noprofile": true,
	"login": true, "security-opt": true, "offline": true}

func hasFlag(c *cobra.Command, name string) bool {
	return c.Flags().Lookup(name) != nil || c.InheritedFlags().Lookup(name) != nil || name == "help" || name == "version"
}

// Every command and flag named in a text exists, so users can type what a hint suggests.
func TestTexts_NameCommandsAndFlagsThatExist(t *testing.T) {
	t.Parallel()
	root := newApp(nil, IO{}).root()
	known := map[string]bool{"help": true}
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		for _, set := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
			set.VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
		}
		for _, s := range c.Commands() {
			visit(s)
		}
	}
	visit(root)
	lines, flags := 0, 0
	for _, s := range sentences(t) {
		for _, m := range quotedLine.FindAllStringSubmatch(s.text, -1) {
			line := m[1] + m[2]
			words := strings.Fields(line)[1:]
			c, rest, err := root.Find(words)
			lines++
			switch {
			case len(words) > 0 && (err != nil || c == root && words[0][0] >= 'a' && words[0][0] <= 'z'):
				t.Errorf("%s: %q: there is no command %q", s.at, line, words[0])
				continue
			case c.HasSubCommands() && !c.Runnable() && len(rest) > 0 && rest[0][0] >= 'a' && rest[0][0] <= 'z':
				t.Errorf("%s: %q: %s has no command %q", s.at, line, c.CommandPath(), rest[0])
			}
			for _, w := range words {
				if w == "--" || w == "|" {
					break
				}
				if name, is := strings.CutPrefix(w, "--"); is {
					if name, _, _ = strings.Cut(name, "="); !hasFlag(c, strings.TrimRight(name, ".,;:)]")) {
						t.Errorf("%s: %q: %s has no flag --%s", s.at, line, c.CommandPath(), name)
					}
				}
			}
		}
		for _, m := range plainLine.FindAllStringSubmatch(s.text, -1) {
			if c, _, err := root.Find(m[1:]); (err != nil || c == root) && !verbs[m[1]] {
				t.Errorf("%s: there is no command %q: %.120q", s.at, m[1], s.text)
			}
		}
		if !strings.Contains(s.text, " ") || strings.HasPrefix(s.at, "../internal/shell/subcommands.go") || namesOtherPrograms(s.at) {
			continue // arguments of other programs
		}
		for _, m := range aFlag.FindAllStringSubmatch(s.text, -1) {
			if flags++; !known[m[1]] && !otherFlags[m[1]] {
				t.Errorf("%s: there is no flag --%s: %.120q", s.at, m[1], s.text)
			}
		}
	}
	if lines < 50 || flags < 100 {
		t.Errorf("%d commands and %d flags were found in the texts: the search is broken", lines, flags)
	}
}

// namesOtherPrograms reports whether a file of the scanner lists the arguments of other programs.
func namesOtherPrograms(at string) bool {
	return slices.ContainsFunc([]string{"../scan/rules_", "../scan/programs.go", "../scan/abilities.go"}, func(p string) bool { return strings.HasPrefix(at, p) })
}

// Packages below the command line name fields of requests. Each has a flag.
func TestTexts_NameFieldsThatHaveFlags(t *testing.T) {
	t.Parallel()
	root := newApp(nil, IO{}).root()
	var commands []*cobra.Command
	for _, path := range []string{"run", "runs answer", "runs export", "mcp", "add", "sign", "publish"} {
		c, _, err := root.Find(strings.Fields(path))
		if err != nil {
			t.Fatal(err)
		}
		commands = append(commands, c)
	}
	for field, flag := range flagOf {
		if !slices.ContainsFunc(commands, func(c *cobra.Command) bool {
			return hasFlag(c, strings.TrimPrefix(flag, "--")) || slices.Contains(strings.Fields(c.Use), flag) // an argument
		}) {
			t.Errorf("%s: no command has the flag %s", field, flag)
		}
	}
	fields := 0
	for _, s := range sentences(t) {
		for _, field := range fieldName.FindAllString(s.text, -1) {
			fields++
			if flagOf[field] == "" && !strings.HasSuffix(field, ".Custom") && !strings.HasPrefix(s.at, "../cli/") {
				t.Errorf("%s: the field %s has no flag in flagOf", s.at, field)
			}
		}
	}
	if fields < 30 {
		t.Errorf("only %d fields are named", fields)
	}
}

// Texts of a library are shown on every surface, so they name no command-line flags.
func TestTexts_OfLibrariesNameNoFlags(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
		for _, s := range c.Commands() {
			visit(s)
		}
	}
	visit(newApp(nil, IO{}).root())
	texts := 0
	for _, s := range sentences(t) {
		if slices.ContainsFunc([]string{"../cli/", "../cmd/", "../internal/shell/", "../internal/diagcodes/", "../policy/commands.go"},
			func(dir string) bool { return strings.HasPrefix(s.at, dir) }) || namesOtherPrograms(s.at) {
			continue
		}
		texts++
		for _, m := range aFlag.FindAllStringSubmatch(s.text, -1) {
			if known[m[1]] && !otherFlags[m[1]] {
				t.Errorf("%s: %.100q names the flag --%s; name the field of the request", s.at, s.text, m[1])
			}
		}
	}
	if texts < 10_000 {
		t.Errorf("%d texts of libraries were found: the search is broken", texts)
	}
}

// An error that says what to do itself is not overruled; another gets the advice
// of docs/ERRORS.md.
func TestAnErrorWithoutAHintHasThatOfItsCode(t *testing.T) {
	t.Parallel()
	for hint, err := range map[string]error{
		"try another": &metier.Error{Kind: metier.Conflict, Code: "skill_changing", Hint: "try another", Err: errors.New("x")},
		"try again":   fmt.Errorf("wrapped: %w", &metier.Error{Kind: metier.Conflict, Code: "skill_changing", Err: errors.New("x")}),
		"":            &metier.Error{Kind: metier.Conflict, Code: "no_such_code", Err: errors.New("x")},
	} {
		if got := problemOf(err).hint; got != hint {
			t.Errorf("%v: hint %q, want %q", err, got, hint)
		}
	}
}
