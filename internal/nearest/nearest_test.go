package nearest_test

import (
	"slices"
	"strings"
	"testing"

	"metier/internal/nearest"
)

func TestHint(t *testing.T) {
	t.Parallel()
	among := []string{"keen", "default", "read_max", "read_main", "ads", "a", "a-very-long-name-of-some-setting"}
	for name, want := range map[string]string{
		"":                                 "",
		"ken":                              "; did you mean keen?",
		"kene":                             "; did you mean keen?",
		"defalut":                          "; did you mean default?",
		"read_ma":                          "; did you mean read_max?",
		"read_maxn":                        "; did you mean read_max or read_main?",
		"read_mai_":                        "; did you mean read_main?",
		"read_mix":                         "; did you mean read_max?",
		"read_mn":                          "; did you mean read_max or read_main?",
		"xxxxxxxx":                         "",
		"pdf":                              "", // ads shares only one letter with it
		"k":                                "",
		"a-very-lng-name-of-some-settings": "; did you mean a-very-long-name-of-some-setting?",
		"very-long-name-of-some-setting-x": "",
		strings.Repeat("k", 1e6):           "",
	} {
		if got := nearest.Hint(name, among); got != want {
			t.Errorf("%.20q gives %q, want %q", name, got, want)
		}
	}
}

// Thousands of names of thousands of bytes cost time in proportion to their
// length.
func TestLongNamesAreCompared(t *testing.T) {
	t.Parallel()
	long, other := strings.Repeat("z", 1<<20), strings.Repeat("y", 1<<20)
	if got := nearest.Names("a"+long, []string{other, long, long + "abc", other + "a"}); !slices.Equal(got, []string{long}) {
		t.Errorf("%d names", len(got))
	}
}

func TestEdits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"abc", "ab", 1}, {"abc", "axc", 1}, {"kitten", "sitting", 3}, {"name", "nmae", 1}, {"abcdef", "badcfe", 3}, {"", "abc", 3}, {strings.Repeat("a", 32), strings.Repeat("a", 34), 2}} {
		if got := nearest.Edits(c.a, c.b, 3); got != c.want {
			t.Errorf("%s, %s: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
