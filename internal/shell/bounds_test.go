package shell_test

import (
	"fmt"
	"strings"
	"testing"

	"metier/internal/shell"
)

// The files that a chain's programs write are compared with the scripts of the
// text once. Before, a text of 6 KB took seconds. The benchmark shows it.
func BenchmarkFacts_ChainsThatWrite(b *testing.B) {
	var text strings.Builder
	text.WriteString("newtool " + strings.Repeat("cp ", 700) + ";")
	for i := range 500 {
		text.WriteString(fmt.Sprintf("./a%d;", i))
	}
	for b.Loop() {
		if _, err := shell.Facts(text.String()); err != nil {
			b.Fatal(err)
		}
	}
}
