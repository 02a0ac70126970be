package slug_test

import (
	"strings"
	"testing"

	"metier/internal/slug"
)

func TestUnique(t *testing.T) {
	t.Parallel()
	taken := map[string]bool{}
	for _, c := range [][2]string{
		{"greet", "greet"}, {"Greet", "Greet-2"}, {"../../etc/passwd", "etc-passwd"}, {"a b\nc", "a-b-c"}, {"été", "été"},
		{"..", "skill"}, {"", "skill-2"}, {strings.Repeat("é", 80), strings.Repeat("é", 50)},
	} {
		if got := slug.Unique(c[0], taken); got != c[1] {
			t.Errorf("%q: %q, want %q", c[0], got, c[1])
		}
	}
}
