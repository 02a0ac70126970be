// Package regex measures the size of untrusted regular expressions. Matching time is proportional
// to the length of the text and to the number of states, and a short expression can have very many:
// (a?){1000} has 2,000.
package regex

import "regexp/syntax"

// States returns the approximate number of states of a compiled expression. It returns an error if
// the syntax is invalid.
func States(expr string) (int, error) {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return 0, err
	}
	return states(re), nil
}

// most is the maximum count, to avoid overflow.
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
