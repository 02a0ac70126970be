// Package regex measures regular expressions that somebody else wrote. Matching
// takes time in proportion to the text and to the states of the expression, and
// a short expression can have very many: (a?){1000} has 2,000.
package regex

import "regexp/syntax"

// States returns about how many states an expression has when it is compiled.
// The error is that of the syntax.
func States(expr string) (int, error) {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return 0, err
	}
	return states(re), nil
}

// most bounds the count, so that it does not overflow.
const most = 1 << 30

func states(re *syntax.Regexp) int {
	n := 1
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		n = min(most, n+states(sub))
	}
	if re.Op == syntax.OpRepeat {
		n = min(most, n*max(1, re.Min, re.Max))
	}
	return n
}
