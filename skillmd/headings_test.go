package skillmd_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"metier/skillmd"
)

func TestHeadings(t *testing.T) {
	t.Parallel()
	for body, want := range map[string][]string{
		"":                                    nil,
		"text\n# One\n## Two ##\n### Three\n": {"One", "Two", "Three"},
		"#### Four\n#hash\n#\n# #\n":          nil,
		"```\n# code\n```\n# After":           {"After"},
		"~~~~sh\n# code\n```\n~~~~\n# After":  {"After"},
		"```\n# never closed":                 nil,
		"  # Indented\r\n":                    {"Indented"},
		"# " + strings.Repeat("ä", 200):       {strings.Repeat("ä", 120)},
	} {
		if got := skillmd.Headings([]byte(body)); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", body, got, want)
		}
	}
	var b strings.Builder
	for i := range 100 {
		fmt.Fprintf(&b, "# h%d\n", i)
	}
	if n := len(skillmd.Headings([]byte(b.String()))); n != 64 {
		t.Errorf("%d headings", n)
	}
}
