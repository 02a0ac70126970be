package shell_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/internal/shell"
)

// describe writes calls in one line each: the line, the words, and the calls whose output it reads.
func describe(src string) []string {
	calls, whole := shell.Calls(src)
	var out []string
	for _, c := range calls {
		text := fmt.Sprintf("%d %s", c.Line, strings.Join(c.Words, " "))
		if c.Name != "" {
			text = fmt.Sprintf("%d %s=%s", c.Line, c.Name, strings.Join(c.Words, " "))
		}
		for _, x := range []struct {
			mark string
			list []string
		}{{"<", c.Reads}, {">", c.Writes}} {
			for _, f := range x.list {
				text += " " + x.mark + f
			}
		}
		if len(c.Inputs) > 0 {
			text += fmt.Sprint(" from ", c.Inputs)
		}
		for _, m := range []struct {
			mark string
			is   bool
		}{{" &", c.Background}, {" quiet", c.Quiet}, {" if", c.Guarded}} {
			if m.is {
				text += m.mark
			}
		}
		if c.Text != "" {
			text += fmt.Sprintf(" text %q", c.Text)
		}
		out = append(out, text)
	}
	if !whole {
		out = append(out, "partly")
	}
	return out
}

func TestCalls(t *testing.T) {
	t.Parallel()
	for src, want := range map[string][]string{
		"":                                       nil,
		"a 'b c' | d -e":                         {"1 a b c", "1 d -e from [0]"},
		"a | b | c":                              {"1 a", "1 b from [0]", "1 c from [1]"},
		"a && b | c":                             {"1 a", "1 b", "1 c from [1]"},
		"{ a; b; } | c":                          {"1 a", "1 b", "1 c from [0 1]"},
		"x \"$(a \"$HOME/b\")\"":                 {"1 a ${HOME}/b", "1 x $(…) from [0]"},
		"X=$(a)\nb \"$X\"":                       {"1 a", "1 X=$(…) from [0]", "2 b ${X}"},
		"export X=`a`":                           {"1 a", "1 X=$(…) from [0]"},
		"a > b 2>/dev/null":                      {"1 a >b quiet"},
		"a < b":                                  {"1 a <b"},
		"a <(b)":                                 {"1 b", "1 a <(…) from [0]"},
		"sh <<E\nx\nE":                           {"1 sh text \"x\\n\""},
		"if [ \"$1\" = 3 ]; then\n  a &\nfi":     {"1 [ ${1} = 3 ]", "2 a & if"},
		"f() { a; }; f":                          {"1 a", "1 f"},
		"a '\nif then b\nc d":                    {"3 c d", "partly"},
		"for x in a \"$(b)\"; do c \"$x\"; done": {"1 b", "1 x=a $(…) from [0]", "1 c ${x}"},
		"a \\\n b":                               {"1 a b"},
		"a\r\nb\x00c\xff":                        {"1 a", "2 b c"},
	} {
		if diff := cmp.Diff(want, describe(src)); diff != "" {
			t.Errorf("%q: %s", src, diff)
		}
	}
}

func TestCommand_LeavesOutWhatOnlyStartsIt(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"sudo rm -r x": "rm -r x", "env A=1 B=2 sh": "sh", "timeout 5s curl x": "curl x", "nohup time a": "a", "sudo -E a": "a", "a": "a", "sudo": "sudo",
	} {
		if got := strings.Join(shell.Command(strings.Fields(in)), " "); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

// Broken text is read line by line, and nested text is refused before it is parsed.
func TestCalls_AreBounded(t *testing.T) {
	t.Parallel()
	for name, src := range map[string]string{
		"many commands": strings.Repeat("a\n", 100_000),
		"brackets":      strings.Repeat("$(", 100_000),
		"open quote":    strings.Repeat("a 'b\n", 100_000),
		"pipes":         strings.Repeat("{ a; ", 60) + strings.Repeat("a|", 3000) + "a",
	} {
		calls, whole := shell.Calls(src)
		if whole || len(calls) > shell.MaxCalls {
			t.Errorf("%s: %d calls, whole %t", name, len(calls), whole)
		}
	}
}

func FuzzCalls(f *testing.F) {
	f.Add("if a | b; then c <<E &>x\n$(d)\nE\nfi")
	f.Fuzz(func(t *testing.T, src string) {
		calls, _ := shell.Calls(src)
		for i, c := range calls {
			for _, from := range c.Inputs {
				if from < 0 || from >= i {
					t.Fatalf("call %d reads from %d", i, from)
				}
			}
			if c.Line < 1 || c.Line > strings.Count(src, "\n")+1 {
				t.Fatalf("call %d is in line %d", i, c.Line)
			}
		}
	})
}
