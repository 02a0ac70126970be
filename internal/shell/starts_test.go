package shell_test

import (
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"metier/internal/shell"
)

// starts reports whether a text may start a program, as a rule about it reads
// the text.
func starts(t *testing.T, src, program string) bool {
	t.Helper()
	got, err := shell.Facts(src)
	if err != nil {
		t.Fatalf("%q: %v", src, err)
	}
	return slices.ContainsFunc(got.Starts, func(c []string) bool { return c[0] == shell.Dynamic || path.Base(c[0]) == program })
}

// Each of these lines starts touch in bash, or could.
func TestStarts_FindsOrDoubts(t *testing.T) {
	t.Parallel()
	for _, src := range lines(t, "hidden.txt") {
		if !starts(t, src, "touch") {
			t.Errorf("%q may start touch", src)
		}
	}
}

// Ordinary lines that start no touch are not held to start one.
func TestStarts_UnderstandsOrdinaryLines(t *testing.T) {
	t.Parallel()
	refused, ordinary := 0, lines(t, "ordinary.txt")
	for _, src := range ordinary {
		if starts(t, src, "touch") {
			refused++
			t.Errorf("%q is held to start touch", src)
		}
	}
	t.Logf("%d of %d ordinary lines are not understood", refused, len(ordinary))
}

// A chain of programs that start each other is read to a limit: without one, the
// words of all commands grow with the square of its length.
func TestStarts_BoundsTheWordsOfChains(t *testing.T) {
	t.Parallel()
	got, err := shell.Facts(strings.Repeat("xargs ", shell.MaxBytes/len("xargs ")-1) + "touch")
	if err != nil {
		t.Fatal(err)
	}
	words := 0
	for _, c := range got.Starts {
		words += len(c)
	}
	if words > 1<<19 {
		t.Errorf("%d words", words)
	}
	if !slices.ContainsFunc(got.Starts, func(c []string) bool { return c[0] == shell.Dynamic }) {
		t.Error("the chain counts as known")
	}
}

// lines are the shell texts of a file: each is a line, or lines up to the end
// of a here-document that is called E.
func lines(t *testing.T, name string) []string {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	open := false
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSuffix(line, "\n"); open {
			out[len(out)-1] += "\n" + line
			open = line != "E"
			continue
		}
		out = append(out, line)
		open = strings.Contains(line, "<<E") || strings.Contains(line, "<<'E'")
	}
	return out
}
