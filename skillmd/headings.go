package skillmd

import (
	"bytes"
	"strings"
)

// The maximum number of headings of one body, and of characters of each.
const (
	maxHeadings = 64
	maxHeading  = 120
)

// Headings returns the text of a Markdown body's headings of levels 1 to 3, in order: lines that begin with #, outside
// fenced code. It returns at most 64 headings of at most 120 characters.
func Headings(body []byte) []string {
	var out []string
	var code fence
	for line := range bytes.Lines(body) {
		text := strings.TrimSpace(string(line))
		switch {
		case code.holds(text):
		case strings.HasPrefix(text, "#") && isHeading(text):
			rest := strings.TrimLeft(text, "#")
			if title := strings.TrimSpace(strings.TrimRight(rest, "# \t")); len(text)-len(rest) <= 3 && title != "" {
				out = append(out, clip(title, maxHeading))
			}
			if len(out) == maxHeadings {
				return out
			}
		}
	}
	return out
}
