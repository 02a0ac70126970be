package tokens_test

import (
	"testing"

	"metier/internal/tokens"
)

func TestEstimate(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"": 0, "word": 1, "wording": 2, "two words": 2, "12 345 6789": 4, "a, b; c.": 6, "\n\n": 2, "<b>x</b>\n": 8, "é": 1, "漢字": 4, "🙂": 3, "naïve": 3,
	} {
		if got := tokens.Estimate(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// The cost of lines is the sum of their costs: a catalog is budgeted entry by
// entry.
func FuzzLinesAddUp(f *testing.F) {
	f.Add("- a: b…", "<skill>")
	f.Fuzz(func(t *testing.T, a, b string) {
		if both, sum := tokens.Estimate(a+"\n"+b), tokens.Estimate(a+"\n")+tokens.Estimate(b); both != sum {
			t.Errorf("%q and %q: %d together, %d alone", a, b, both, sum)
		}
	})
}
