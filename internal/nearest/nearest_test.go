package nearest_test

import (
	"strings"
	"testing"

	"metier/internal/nearest"
)

func TestHint(t *testing.T) {
	t.Parallel()
	among := []string{"keen", "default", "read_max", "read_main", "ads", "a", "a-very-long-name-of-some-setting"}
	for name, want := range map[string]string{
		"":                       "",
		"ken":                    "; did you mean keen?",
		"kene":                   "; did you mean keen?",
		"defalut":                "; did you mean default?",
		"read_ma":                "; did you mean read_max?",
		"read_maxn":              "; did you mean read_max or read_main?",
		"read_mai_":              "; did you mean read_main?",
		"read_mix":               "; did you mean read_max?",
		"read_mn":                "; did you mean read_max or read_main?",
		"xxxxxxxx":               "",
		"pdf":                    "", // ads has only one letter of it
		"k":                      "",
		strings.Repeat("k", 1e6): "",
	} {
		if got := nearest.Hint(name, among); got != want {
			t.Errorf("%.20q gives %q, want %q", name, got, want)
		}
	}
}
