package regex_test

import (
	"regexp/syntax"
	"strings"
	"testing"

	"metier/internal/regex"
)

// The count is near that of the compiled expression: between half of it and
// three times as many.
func TestStates_AreThoseOfTheProgram(t *testing.T) {
	t.Parallel()
	for _, expr := range []string{"", "abc", "a|b|cd", "[a-z]+@[a-z]+", "(a?){1000}", "(?i)x{3,}", "^[a-z0-9-]{1,64}$", "(a{10}){90}", strings.Repeat("(a?){1000}", 20), `\pL{0,500}b*?`} {
		got, err := regex.States(expr)
		if err != nil {
			t.Errorf("%.20q: %v", expr, err)
			continue
		}
		re, err := syntax.Parse(expr, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		prog, err := syntax.Compile(re.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		if insts := len(prog.Inst); got < insts/2-2 || got > 3*insts {
			t.Errorf("%.20q: %d states, and the program has %d instructions", expr, got, insts)
		}
	}
	if _, err := regex.States("a("); err == nil {
		t.Error("a( is taken")
	}
}
