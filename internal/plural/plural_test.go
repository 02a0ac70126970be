package plural_test

import (
	"strings"
	"testing"

	"metier/internal/plural"
)

func TestEither(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"": "", "a": "a", "a b": "a or b", "a b c": "a, b, or c"} {
		if got := plural.Either(strings.Fields(in)); got != want {
			t.Errorf("Either(%q) = %q, want %q", in, got, want)
		}
	}
}
