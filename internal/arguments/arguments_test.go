package arguments_test

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"metier/internal/arguments"
)

// placeholders is the dialect as an expression: what is escaped, and what may be replaced.
var placeholders = regexp.MustCompile(`\\\$|\$ARGUMENTS\[[0-9]{1,4}\]|\$ARGUMENTS[A-Za-z0-9_]?|\$[0-9]+`)

// expanded is Expand by that expression.
func expanded(text string, args []string) (out string, asked bool) {
	at := func(digits string) string {
		if n, err := strconv.Atoi(digits); err == nil && n < len(args) {
			return args[n]
		}
		return ""
	}
	out = placeholders.ReplaceAllStringFunc(text, func(m string) string {
		rest, named := strings.CutPrefix(m, "$ARGUMENTS")
		switch {
		case m == `\$`:
			return "$"
		case named && rest == "":
			asked = true
			return strings.Join(args, " ")
		case named && rest[0] == '[':
			asked = true
			return at(strings.Trim(rest, "[]"))
		case !named && len(m) == 2:
			asked = true
			return at(m[1:])
		}
		return m
	})
	return out, asked
}

// FuzzExpand: the replacement of a placeholder is data and expanded only once, all other text
// stays, and a trailer is added only if no placeholder was used.
func FuzzExpand(f *testing.F) {
	for _, s := range []string{"", "$", "$ARGUMENTS", "a $1 b", `\$1 \\$0 $$2`, "$ARGUMENTS[1]$ARGUMENTS[x]$ARGUMENTS[12345]", "$ARGUMENTSX $10 $9x", "costs $5.00"} {
		f.Add(s, "a\nb c\n$0 $ARGUMENTS")
		f.Add(s, "")
	}
	f.Fuzz(func(t *testing.T, text, list string) {
		var args []string
		if list != "" {
			args = strings.Split(list, "\n")
		}
		if len(text)*max(len(list), 1) > 1<<20 {
			return
		}
		want, asked := expanded(text, args)
		if got, fits := arguments.Expand(text, args, false, math.MaxInt); got != want || !fits {
			t.Fatalf("%q with %q is %q, want %q", text, args, got, want)
		}
		if !asked && len(args) > 0 {
			want += "\n\nARGUMENTS: " + strings.Join(args, " ") + "\n"
		}
		if got, fits := arguments.Expand(text, args, true, math.MaxInt); got != want || !fits {
			t.Fatalf("%q with %q is %q, want %q", text, args, got, want)
		}
	})
}

// Text that consists of placeholders takes time in proportion to its size, and
// expansion ends where it no longer fits.
func TestBounded(t *testing.T) {
	t.Parallel()
	if got, fits := arguments.Expand(strings.Repeat("$ARGUMENTS[", 300_000), nil, false, math.MaxInt); len(got) != 300_000 || !fits {
		t.Errorf("%d bytes, %v", len(got), fits)
	}
	if got, fits := arguments.Expand(strings.Repeat("$0", 1000), []string{"0123456789"}, false, 100); len(got) > 120 || fits {
		t.Errorf("%d bytes, %v", len(got), fits)
	}
	if got, _ := arguments.Expand(`\$0$9`, strings.Split("abcdefghij", ""), false, 100); got != "$0j" {
		t.Errorf("at the very start: %q", got)
	}
}
