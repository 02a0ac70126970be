package policy

import (
	"strings"
	"testing"
)

// The globs of a skill cover a call only if they are compared with it in bounded time.
func TestCovers_LimitsItsComparisons(t *testing.T) {
	t.Parallel()
	pattern := func(tail string) Pattern { return ParsePattern("Bash(echo *" + strings.Repeat("a", 480) + tail + ")") }
	r := Request{Tool: toolBash, Commands: [][]string{{"echo", strings.Repeat("a", 30_000) + "b"}}}
	if !covers([]Pattern{pattern("b")}, r) {
		t.Error("one pattern does not cover a long word")
	}
	if covers([]Pattern{pattern("1b"), pattern("b")}, r) {
		t.Error("more comparisons than the limit were made")
	}
	if !covers([]Pattern{pattern("1b"), pattern("b"), ParsePattern("Bash")}, r) {
		t.Error("a pattern for every use does not cover a long word")
	}
}

// A path, or a script's entry, is as long as a command.
func TestComparisons_CountsPathsAndEntries(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 1000)
	list := []Pattern{ParsePattern("*(x*)"), ParsePattern("*(x)")}
	for _, r := range []Request{{Paths: []PathUse{{Path: long}}}, {Entry: long}} {
		if got := comparisons(list, r); got != 2000 {
			t.Errorf("%d comparisons of %v", got, r)
		}
	}
}
