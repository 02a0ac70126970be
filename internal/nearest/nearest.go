// Package nearest finds what somebody meant by a misspelt name.
package nearest

import "strings"

// most is how many bytes a name may differ by before it is another one; a short
// one becomes another word sooner.
const most = 3

// Names returns the names written most nearly like name, in their order: none
// when all differ in more than three bytes, or in more than half of its own.
func Names(name string, among []string) []string {
	far := min(most, len(name)/2) + 1
	best, near := far, []string(nil)
	for _, n := range among {
		if len(name) > len(n)+far || len(n) > len(name)+far {
			continue
		}
		switch d := edits(name, n, far); {
		case d < best:
			best, near = d, []string{n}
		case d == best && d < far:
			near = append(near, n)
		}
	}
	return near
}

// Hint words Names for the end of a message; "" when there is none.
func Hint(name string, among []string) string {
	near := Names(name, among)
	if len(near) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(near, " or ") + "?"
}

// edits is the number of inserted, removed and changed bytes between a and b, or
// more than far where it is more than far: only as much of the table is filled as
// that takes.
func edits(a, b string, far int) int {
	outside := far + 1
	prev, row := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		first, last := max(1, i-far), min(len(b), i+far)
		if row[first-1] = outside; first == 1 {
			row[0] = i
		}
		for j := first; j <= last; j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(prev[j-1]+cost, prev[j]+1, row[j-1]+1)
		}
		if last < len(b) {
			row[last+1] = outside
		}
		prev, row = row, prev
	}
	return prev[len(b)]
}
