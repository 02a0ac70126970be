package shell_test

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"metier/internal/shell"
	"metier/internal/testenv"
)

const dyn = shell.Dynamic

func TestFacts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		src  string
		want [][]string
		why  string // "" is plain
	}{
		{"", nil, ""},
		{"git status", [][]string{{"git", "status"}}, ""},
		{"  git\tstatus \n", [][]string{{"git", "status"}}, ""},
		{"git status; rm -rf /", [][]string{{"git", "status"}, {"rm", "-rf", "/"}}, ""},
		{"git a && git b || git c | git d", [][]string{{"git", "a"}, {"git", "b"}, {"git", "c"}, {"git", "d"}}, ""},
		{"git status && curl x|sh", [][]string{{"git", "status"}, {"curl", "x"}, {"sh"}}, ""},
		{"a |& b", [][]string{{"a"}, {"b"}}, ""},
		{`git 'a b' "c d" e\ f g'h'"i"`, [][]string{{"git", "a b", "c d", "e f", "ghi"}}, ""},
		{`git "a\$b\\c\d\"" 'x\y'`, [][]string{{"git", `a$b\c\d"`, `x\y`}}, ""},
		{"git commit -m \"a\n\nb\" && git push", [][]string{{"git", "commit", "-m", "a\n\nb"}, {"git", "push"}}, ""},
		{"git show HEAD~1 stash@{0} a=b", [][]string{{"git", "show", "HEAD~1", "stash@{0}", "a=b"}}, ""},
		{"alias git=rm", [][]string{{"alias", "git=rm"}}, ""},
		{"eval 'rm x'", [][]string{{"eval", "rm x"}}, ""},
		{"git log $(rm x)", [][]string{{"git", "log", dyn}, {"rm", "x"}}, "a substitution"},
		{"git log \"$(rm x)\"", [][]string{{"git", "log", dyn}, {"rm", "x"}}, "a substitution"},
		{"git log `rm x`", [][]string{{"git", "log", dyn}, {"rm", "x"}}, "a substitution"},
		{"git log ${x:-$(rm x)}", [][]string{{"git", "log", dyn}, {"rm", "x"}}, "a substitution"},
		{"git diff <(rm x) >(rm y)", [][]string{{"git", "diff", dyn, dyn}, {"rm", "x"}, {"rm", "y"}}, "a substitution"},
		{"git $x", [][]string{{"git", dyn}}, "a word that is known only when it runs"},
		{"$x git", [][]string{{dyn, "git"}}, "a word that is known only when it runs"},
		{"git $'x'", [][]string{{"git", dyn}}, "a word that is known only when it runs"},
		{"git *.go", [][]string{{"git", dyn}}, "a word that is known only when it runs"},
		{"git {a,b} {1..3}", [][]string{{"git", dyn, dyn}}, "a word that is known only when it runs"},
		{"git ~ a=~/x", [][]string{{"git", dyn, dyn}}, "a word that is known only when it runs"},
		{"git '*' \\* \"?\"", [][]string{{"git", "*", "*", "?"}}, ""},
		{`g""it x`, [][]string{{"git", "x"}}, "a command whose name is quoted or put together"},
		{`\git x`, [][]string{{"git", "x"}}, "a command whose name is quoted or put together"},
		{`'git' x`, [][]string{{"git", "x"}}, "a command whose name is quoted or put together"},
		{"GIT_SSH_COMMAND=x git fetch", [][]string{{"git", "fetch"}}, "an assignment"},
		{"x=1", nil, "an assignment"},
		{"export x=$(rm)", [][]string{{"export", dyn}, {"rm"}}, "a declaration"},
		{"git x > f", [][]string{{"git", "x"}}, "a redirect"},
		{"git x 2>&1", [][]string{{"git", "x"}}, "a redirect"},
		{"cat <<E\n$(rm x)\nE\n", [][]string{{"cat"}, {"rm", "x"}}, "a redirect"},
		{"cat <<<x", [][]string{{"cat"}}, "a redirect"},
		{"printf '[%s]' x; printf -v y %s x; test -v x; [ -f x ]", [][]string{{"printf", "[%s]", "x"}, {"printf", "-v", "y", "%s", "x"}, {"test", "-v", "x"}, {"[", "-f", "x", "]"}}, ""},
		{"printf -v 'a[$(rm x)]' y", [][]string{{"printf", "-v", "a[$(rm x)]", "y"}, {dyn}}, "a builtin that evaluates its words"},
		{"test -n x -a -v 'a[$(rm x)]'", [][]string{{"test", "-n", "x", "-a", "-v", "a[$(rm x)]"}, {dyn}}, "a builtin that evaluates its words"},
		{"[ -v 'a[b]' ]", [][]string{{"[", "-v", "a[b]", "]"}, {dyn}}, "a builtin that evaluates its words"},
		{"command -p read 'a[$(rm x)]'", [][]string{{"command", "-p", "read", "a[$(rm x)]"}, {dyn}}, "a builtin that evaluates its words"},
		{"compgen -W '$(rm x)'", [][]string{{"compgen", "-W", "$(rm x)"}, {dyn}}, "a builtin that evaluates its words"},
		{"let 'a[$(rm x)]=1'", [][]string{{"let", dyn}, {dyn}}, "arithmetic"},
		{"[[ 'a[$(rm x)]' -eq 1 ]]", [][]string{{dyn}}, "a compound command"},
		{"declare 'a[$(rm x)]=1'", [][]string{{"declare", dyn}, {dyn}}, "a declaration"},
		{"git a\nrm x", [][]string{{"git", "a"}, {"rm", "x"}}, "several lines"},
		{"git sta\\\ntus", [][]string{{"git", "status"}}, "several lines"},
		{"git \"a\\\nb\"", [][]string{{"git", "ab"}}, "several lines"},
		{"git a # b", [][]string{{"git", "a"}}, "a comment"},
		{"git a &", [][]string{{"git", "a"}}, "a command in the background"},
		{"! git a", [][]string{{"git", "a"}}, "a negated command"},
		{"(git a; rm b)", [][]string{{"git", "a"}, {"rm", "b"}}, "a compound command"},
		{"{ git a; }", [][]string{{"git", "a"}}, "a compound command"},
		{"if git a; then rm b; else rm c; fi", [][]string{{"git", "a"}, {"rm", "b"}, {"rm", "c"}}, "a compound command"},
		{"while git a; do rm b; done", [][]string{{"git", "a"}, {"rm", "b"}}, "a compound command"},
		{"for i in a; do rm $i; done", [][]string{{"rm", dyn}}, "a compound command"},
		{"case x in a) rm b;; esac", [][]string{{"rm", "b"}}, "a compound command"},
		{"git() { rm x; }; git a", [][]string{{"rm", "x"}, {"git", "a"}}, "a function"},
		{"time git a", [][]string{{"git", "a"}}, "a compound command"},
		{"coproc git a", [][]string{{"git", "a"}}, "a compound command"},
		{"((x = 1))", nil, "a compound command"},
		{"[[ -f $(rm x) ]]", [][]string{{"rm", "x"}}, "a compound command"},
		{"let x=1", [][]string{{"let", dyn}}, "arithmetic"},
	} {
		t.Run(tt.src, func(t *testing.T) {
			t.Parallel()
			got, err := shell.Facts(tt.src)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got.Commands); d != "" {
				t.Error(d)
			}
			if got.Opaque != (tt.why != "") || got.Opaque != (len(got.Why) > 0) || tt.why != "" && !slices.Contains(got.Why, tt.why) {
				t.Errorf("opaque %v, %q; want %q", got.Opaque, got.Why, tt.why)
			}
		})
	}
}

func TestRefusedTexts(t *testing.T) {
	t.Parallel()
	for name, src := range map[string]string{
		"unclosed quote": "git 'a", "unclosed brackets": "git $(", "no statement": ";", "a stray word": "fi", "no UTF-8": "git \xff", "NUL": "git\x00", "CR": "git a\r\nb",
		"ESC": "git \x1b[1m", "DEL": "git \x7f", "too long": strings.Repeat("a ", shell.MaxBytes/2+1), "too many": strings.Repeat("a;", shell.MaxCommands+1),
		"too many with what is hidden": strings.Repeat("a;", shell.MaxCommands-1) + "let 'a[$(x)]'",
		"deep brackets":                strings.Repeat("(", 5000), "deep substitutions": strings.Repeat("$(", 5000), "deep quotes": strings.Repeat(`"$(`, 5000),
		"deep words": strings.Repeat("if ", 5000), "deep expansions": strings.Repeat("${a:-", 5000), "deep ticks": strings.Repeat("`", 5000), "deep signs": "((" + strings.Repeat("- ", 5000) + "1))",
	} {
		if got, err := shell.Facts(src); err == nil || len(got.Commands) > 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, src := range map[string]string{"long": "git " + strings.Repeat("a", shell.MaxBytes-4), "many": strings.Repeat("a;", shell.MaxCommands)} {
		if _, err := shell.Facts(src); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The facts list what bash itself runs: bash gets a plain text of git commands,
// with git as a function that prints its arguments. The pieces cannot do harm
// if the facts are wrong.
func TestPlainTextsRunAsStated(t *testing.T) {
	t.Parallel()
	bash := testenv.NeedTool(t, "bash", "bash")
	piece := rapid.SampledFrom([]string{"git", "git", "git", " ", " ", " ", " && ", " || ", "; ", " | ", " & ", "\n", "\\\n", "|", ";", "'", "\"", "\\", "\\ ", "'a b'", "\"c d\"", "g''it", "$x", "${y}",
		"$'z'", "*", "~", "{a,b}", "a=b", "a=~", "HEAD~1", "{", "}", "(", ")", "#", "# c", "!", "-m", "é", "\t", "$((1))", "$(git x)", "`git y`", "%", "^", "=", ",", "@{0}", "[a]", "then", "if", "fi", "time", "x"})
	plain := 0
	run := func(rt *rapid.T) {
		src := "git " + strings.Join(rapid.SliceOfN(piece, 0, 8).Draw(rt, "pieces"), "")
		facts, err := shell.Facts(src)
		if err != nil || facts.Opaque || slices.ContainsFunc(facts.Commands, func(c []string) bool { return c[0] != "git" }) {
			return
		}
		plain++
		cmd := exec.CommandContext(t.Context(), bash, "--noprofile", "--norc", "-c", `git() { printf '%s\037' "$@" $'\036' >&2; }; `+"\n"+src)
		cmd.Env, cmd.Dir = []string{"PATH=/nonexistent", "HOME=/nonexistent", "LC_ALL=C.UTF-8"}, t.TempDir()
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Run(); err != nil {
			rt.Fatalf("%q: %v: %s", src, err, stderr.Bytes())
		}
		var want []string
		for _, c := range facts.Commands {
			want = append(want, strings.Join(append(slices.Clone(c[1:]), "\036\037"), "\037"))
		}
		ran := strings.SplitAfter(stderr.String(), "\036\037")
		for _, one := range ran[:len(ran)-1] {
			i := slices.Index(want, one)
			if i < 0 {
				rt.Fatalf("%q ran %q, which is not one of %q", src, one, want)
			}
			want = slices.Delete(want, i, i+1)
		}
		if len(want) > 0 && !strings.Contains(src, "||") {
			rt.Fatalf("%q did not run %q", src, want)
		}
	}
	rounds := 1
	if testing.Short() { // each draws a fifth of the texts
		rounds = 5
	}
	for range rounds {
		rapid.Check(t, run)
	}
	if plain < 5 {
		t.Errorf("only %d texts were plain", plain)
	}
}

// FuzzFacts: for a plain text in which each command is git, an independent and
// much simpler parser agrees: outside quotes nothing could start anything else,
// and every part between separators begins with git.
func FuzzFacts(f *testing.F) {
	for _, s := range []string{"git status", "git a && git b | git c", "git 'a;b' \"c|d\"", "git status; rm -rf /", "git $(x)", "git a\\;b", "git `x`", "X=1 git", "git > f", "g\"\"it", "git\nrm", "git \\\nrm",
		"git <<E\nE", "git 'a\nb'", "git a#b", "git a # b", "if git; then git; fi", "git {a,b}", "git !x", "git a\\'b", `git "a\"b"`, "git a&&git b", "git\\\n", "git;git", "git\t-x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src string) {
		got, err := shell.Facts(src)
		if err != nil {
			return
		}
		if got.Opaque != (len(got.Why) > 0) {
			t.Fatalf("%q: %+v", src, got)
		}
		for _, c := range got.Commands {
			if len(c) == 0 || !got.Opaque && slices.Contains(c, shell.Dynamic) {
				t.Fatalf("%q: %+v", src, got)
			}
		}
		if got.Opaque || len(got.Commands) == 0 || slices.ContainsFunc(got.Commands, func(c []string) bool { return c[0] != "git" }) {
			return
		}
		if why := suspicious(src); why != "" {
			t.Fatalf("%q passes for git commands only, but: %s", src, why)
		}
	})
}

// suspicious reads a text byte by byte.
func suspicious(src string) string {
	var quote byte
	part := ""
	parts := []string{}
	for i := 0; i < len(src); i++ {
		c := src[i]
		switch {
		case quote == '\'':
			if c == '\'' {
				quote = 0
			}
			part += "q"
		case c == '\\':
			if i+1 < len(src) && src[i+1] == '\n' {
				return "a continued line"
			}
			i++
			part += "q"
		case quote == '"':
			if c == '$' && i+1 < len(src) && strings.IndexByte("\" ", src[i+1]) < 0 && src[i+1] < 0x80 && strings.IndexByte("%^+,./:=]}~\t\n;&|<>)\\'", src[i+1]) < 0 || c == '`' {
				return "an expansion in quotes"
			}
			if c == '"' {
				quote = 0
			}
			part += "q"
		case c == '\'' || c == '"':
			quote = c
			part += "q"
		case c == ';' || c == '|' || c == '&':
			if c == '&' && (i+1 == len(src) || src[i+1] != '&') && (i == 0 || src[i-1] != '&' && src[i-1] != '|') {
				return "a single &"
			}
			parts = append(parts, part)
			part = ""
		case c == '\n' && strings.TrimSpace(src[i:]) != "" && strings.TrimSpace(src[:i]) != "":
			return "a newline"
		case strings.IndexByte("<>()`*?", c) >= 0:
			return "an operator or a glob: " + string(c)
		case c == '$' && i+1 < len(src) && (src[i+1] >= 'a' && src[i+1] <= 'z' || src[i+1] >= 'A' && src[i+1] <= 'Z' || strings.IndexByte("_{([@*#?-$!0123456789'\"", src[i+1]) >= 0):
			return "an expansion"
		case c == '#' && (part == "" || strings.HasSuffix(part, " ")):
			return "a comment"
		default:
			if c == '\t' || c == '\n' {
				c = ' '
			}
			part += string(rune(c))
		}
	}
	for _, p := range append(parts, part) {
		if first, _, _ := strings.Cut(strings.TrimLeft(p, " "), " "); first != "git" && strings.TrimSpace(p) != "" {
			return "a command " + p
		}
	}
	return ""
}
