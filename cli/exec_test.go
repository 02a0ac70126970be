package cli

import (
	"bytes"
	"strings"
	"testing"
)

// Standard output and standard error are handled separately: output to a terminal is escaped,
// regardless of where the other stream goes.
func TestAProgramDrivesNoTerminal(t *testing.T) {
	t.Parallel()
	const text = "a\x1b]0;title\x07\x1b[2Jb\n"
	for _, terminal := range []bool{false, true} {
		var out, errs bytes.Buffer
		a := newApp(nil, IO{In: strings.NewReader(""), Out: &out, Err: &errs, Terminal: terminal})
		a.passOn("", "stdout", []byte(text))
		a.passOn("", "stderr", []byte(text))
		if out.String() != text {
			t.Errorf("a file does not hold the bytes of standard output: %q", out.String())
		}
		if got := errs.String(); terminal == strings.ContainsAny(got, "\x1b\x07") || !terminal && got != text || !strings.HasSuffix(got, "b\n") {
			t.Errorf("standard error, a terminal: %v: %q", terminal, got)
		}
	}
}
