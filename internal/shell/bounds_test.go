package shell_test

import (
	"fmt"
	"strings"
	"testing"

	"metier/internal/shell"
)

// What the programs of a chain write is compared with the scripts of the text
// once: a text of 6 KB took seconds. The benchmark shows it.
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
