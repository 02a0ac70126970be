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

// Bash ends each of these here-documents, and the comment, before the parser does.
func TestStarts_DoubtsTextsThatBashEndsEarlier(t *testing.T) {
	t.Parallel()
	for _, src := range []string{
		"x=$(cat <<'EOT'\na\nEOT)\ntouch x\n: $(cat <<'EOT'\nEOT\n)",
		": ;x=(?(\ntouch x\n))",
		": ;x=([0]=#(\ntouch x\n)",
		"(echo ''#;touch x\n)",
		"echo $(echo \"a\"#;touch x\n)",
		"case x in x) echo ''#;touch x\nesac",
		"cat <<'E'# | bash\ntouch x\nE",
		": $(x=(a +(b)\ntouch x\n))",
		": $(x=(\\;\ntouch x\n))",
		": <(x=(\\|\ntouch x\n))",
		"cat <<\"\\$EOT\"\n$EOT\ntouch x\n\\$EOT\n",
		"cat <<\"\\\"EOT\"\n\"EOT\ntouch x\n\\\"EOT\n",
		"cat <<EOT\nEOT\\\n\ntouch x\nEOT\n",
		"cat <<EOT\n\\\nEOT\ntouch x\nEOT\n",
		"cat <<EOT\nE\\\nOT\ntouch x\nEOT\n",
		"cat <<EOT\na\n\\\nE\\\nOT\ntouch x\nEOT\n",
		"cat <<-EOT\n\t\\\n\tEOT\ntouch x\nEOT\n",
		"echo a # c \\\ntouch x",
		"echo a;# c \\\ntouch x",
		"echo \"$\\\n(touch x)\"",
		"cat <<EOT\n$\\\n(touch x)\nEOT\n",
		"t='a[$(touch x)]'; (\\\n(t))",
		"bash -c 'echo a # c \\\ntouch x'",
	} {
		if !starts(t, src, "touch") {
			t.Errorf("%q may start touch", src)
		}
	}
}

// Ordinary here-documents and comments are understood.
func TestStarts_UnderstandsOrdinaryDocuments(t *testing.T) {
	t.Parallel()
	for _, src := range []string{
		"cat >f <<EOF\nhello $USER\nEOF\n",
		"cat >f <<'END_OF_FILE'\n# a \\ b\n  indented EOF\nEND_OF_FILE\necho done",
		"cat >f <<\\EOF\na\nEOF\n",
		"cat >f <<-EOF\n\ta\n\tEOF\n",
		"cat >f <<EOF\nFROM x\nRUN a \\\n    b\nEOF\n",
		"x=$(cat <<EOF\na\nEOF\n)",
		"# a comment\necho a # another\nsort -o f \\\n  f",
	} {
		if starts(t, src, "touch") {
			t.Errorf("%q is held to start touch", src)
		}
	}
}

// Ordinary lines that do not start touch are not reported as starting it.
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

// A chain of programs that start each other is read up to a limit. Without one,
// the words of all commands grow with the square of its length.
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

// lines returns the shell texts of a file: each is a line, or lines up to the
// end of a here-document with the delimiter E.
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
