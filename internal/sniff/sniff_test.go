package sniff_test

import (
	"strings"
	"testing"

	"metier/internal/sniff"
)

// req: A-056
func TestText_LooksAtTheFirstBytesOnly(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", sniff.Bytes-1)
	for in, want := range map[string]bool{
		"":                    true,
		"text\n":              true,
		"nul\x00":             false,
		"\xff":                false,
		"half \xc3":           false, // the file ends here
		long + "é":            true,  // the limit cuts the character
		long + "\xff" + "end": false,
		long + "a\x00":        true, // after the limit
	} {
		if got := sniff.Text([]byte(in), false); got != want {
			t.Errorf("%.8q (%d bytes): %t, want %t", in, len(in), got, want)
		}
	}
}

// req: A-056
func TestText_AllowsACutCharacterWhereTheFileContinues(t *testing.T) {
	t.Parallel()
	if !sniff.Text([]byte("half \xc3"), true) {
		t.Error("half a character before more bytes counts as binary")
	}
}
