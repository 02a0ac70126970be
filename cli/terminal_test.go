package cli_test

import (
	"fmt"
	"strings"
	"testing"
)

// Program output to a terminal is escaped, for either stream. A pipe receives the raw bytes.
func TestOutputThatGoesToATerminalIsText(t *testing.T) {
	t.Parallel()
	const titled, shown = "\x1b]0;title\x07", `\x1b]0;title\x07`
	for line, want := range map[string]string{
		"metier sandbox run -- printf '%s' >/dev/null":                            "",
		"metier sandbox run -- printf '%s'":                                       shown,
		"metier sandbox run -- sh -c 'printf \"$0\" >&2' '%s' >/dev/null":         shown,
		"metier sandbox run -- sh -c 'printf \"$0\"; printf \"$0\" >&2' '%s' 2>x": shown,
	} {
		p := newPlace(t)
		x := p.sit(fmt.Sprintf(line, `\033]0;title\007`) + "; echo the end")
		if got := x.reads("the end\r\n"); strings.TrimSuffix(got, "the end\n") != want || strings.Contains(got, titled) {
			t.Errorf("%s: %q", line, got)
		}
		x.left()
	}
}
