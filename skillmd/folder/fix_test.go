package folder

import (
	"fmt"
	"strings"
	"testing"
)

// apply applies a diff to a text, as patch does, and fails if a line does not match the diff.
func apply(t *testing.T, text, diff string) string {
	t.Helper()
	lines := strings.SplitAfter(text, "\n")
	out, at := "", 0
	_, hunks, _ := strings.Cut(diff, "@@ ")
	for hunk := range strings.SplitSeq("\n@@ "+hunks, "\n@@ ") {
		if hunk == "" {
			continue
		}
		head, body, _ := strings.Cut(hunk, "\n")
		var from, n, to, m int
		if _, err := fmt.Sscanf(head, "-%d,%d +%d,%d @@", &from, &n, &to, &m); err != nil {
			t.Fatalf("%q: %v", head, err)
		}
		if n > 0 {
			from--
		}
		if out += strings.Join(lines[at:from], ""); from < at || m > 0 && strings.Count(out, "\n") != to-1 {
			t.Fatalf("%q does not fit at line %d", head, at)
		}
		at = from
		all := strings.SplitAfter(body+"\n", "\n")
		for i, l := range all[:len(all)-1] {
			if l[0] == '\\' || l == "\n" {
				continue
			}
			if i+1 < len(all) && strings.HasPrefix(all[i+1], `\`) {
				l = strings.TrimSuffix(l, "\n")
			}
			if l[0] != '+' {
				if lines[at] != l[1:] {
					t.Fatalf("line %d is %q, the diff says %q", at+1, lines[at], l)
				}
				at, n = at+1, n-1
			}
			if l[0] != '-' {
				out, m = out+l[1:], m-1
			}
		}
		if n != 0 || m != 0 {
			t.Fatalf("%q counts %d and %d lines too many", head, n, m)
		}
	}
	return out + strings.Join(lines[at:], "")
}

// FuzzDiff: a diff turns the old text into the new one.
func FuzzDiff(f *testing.F) {
	f.Add("a\nb\nc\n", "a\nx\nc\n")
	f.Add("", "a")
	f.Add("1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n", "0\n1\n2\n3\n4\n5\n6\n7\n9\n10")
	f.Add("a\nb\na\nb\n", "b\na\nb\na\n")
	f.Fuzz(func(t *testing.T, a, b string) {
		if strings.ContainsAny(a+b, "\r\\@") || a == b {
			return // the applier is simple
		}
		diff := unified("a", []byte(a), []byte(b))
		if got := apply(t, a, diff); got != b {
			t.Fatalf("%q with\n%s\nis %q, not %q", a, diff, got, b)
		}
	})
}
