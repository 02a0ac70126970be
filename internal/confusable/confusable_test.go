package confusable

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"metier/internal/nfkc"
)

func TestSkeleton(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"paypal", "p\u0430yp\u0430l", true},                      // Cyrillic a
		{"scope", "\u0455\u0441\u043e\u0440\u0435", true},         // all Cyrillic
		{"scope", "\u0405\u0421\u041e\u0420\u0415", true},         // capitals
		{"docs", "d\u03bfcs", true},                               // Greek omicron
		{"a-b", "a\u2010b", true},                                 // another hyphen
		{"pdf", "\uff50\uff44\uff46", true},                       // full width
		{"pdf", "p\u200bdf", true},                                // an invisible character
		{"form", "forrn", true},                                   // only ASCII
		{"tool-1", "tool-l", true},                                //
		{"v0", "vo", true},                                        //
		{"pdf", "pdfs", false},                                    //
		{"caf\u00e9", "cafe", false},                              // an accent is visible
		{"\u65e5\u672c\u8a9e", "\u65e5\u672c\u8a9f", false},       // other scripts are left unchanged
		{"\u043f\u0440\u0438\u0432\u0435\u0442", "npubet", false}, //
	} {
		if got := Skeleton(tt.a) == Skeleton(tt.b); got != tt.want {
			t.Errorf("%+q and %+q look alike: %v, want %v (%+q, %+q)", tt.a, tt.b, got, tt.want, Skeleton(tt.a), Skeleton(tt.b))
		}
	}
}

func TestMixed(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"paypal":             "",
		"p\u0430ypal":        `its name "p\u0430ypal" has letters of Cyrillic and Latin`,
		"d\u03bfc\u0455":     `its name "d\u03bfc\u0455" has letters of Cyrillic and Greek and Latin`,
		"\u0441\u043e\u0440": "", // one script
		"caf\u00e9-2":        "",
		"pdf-\u65e5\u672c":   "", // common in Japanese names
	} {
		if d := cmp.Diff(want, Mixed(name)); d != "" {
			t.Errorf("%+q (-want +got)\n%s", name, d)
		}
	}
}

// Every row maps characters that can reach the table to text that maps to itself.
func TestTable_RowsAreReachableAndFinal(t *testing.T) {
	t.Parallel()
	plain := regexp.MustCompile(`^[a-z0-9-]+$`)
	seen := map[rune]bool{}
	for _, l := range lookalikes {
		if !plain.MatchString(l.to) || ascii.Replace(l.to) != l.to {
			t.Errorf("%q is not a skeleton", l.to)
		}
		for _, r := range l.from {
			if r < utf8.RuneSelf || seen[r] || nfkc.String(string(r)) != string(r) || strings.ContainsRune(l.to, r) {
				t.Errorf("%U cannot be looked up, or twice", r)
			}
			seen[r] = true
		}
	}
}
