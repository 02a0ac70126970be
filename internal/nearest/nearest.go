// Package nearest suggests names for a misspelled one.
package nearest

import (
	"slices"
	"strings"
)

// most is the maximum number of differing bytes for a similar name. For short names it is less.
const most = 3

// Names returns the names most similar to name, in their order. It returns none if all differ in
// more than three bytes, or in more than half of name's bytes.
func Names(name string, among []string) []string {
	far := min(most, len(name)/2) + 1
	best, near := far, []string(nil)
	for _, n := range among {
		switch d := Edits(name, n, far); {
		case d < best:
			best, near = d, []string{n}
		case d == best && d < far:
			near = append(near, n)
		}
	}
	return near
}

// Hint formats Names for the end of a message. It returns "" if there are none.
func Hint(name string, among []string) string {
	near := Names(name, among)
	if len(near) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(near, " or ") + "?"
}

// Edits returns the number of bytes inserted, removed, changed, or swapped with their neighbor
// between a and b. If it exceeds far, the result is some number above far, which saves time.
func Edits(a, b string, far int) int {
	outside := far + 1
	if len(a) > len(b)+far || len(b) > len(a)+far {
		return outside
	}
	n := len(b) + 1
	rows := make([]int, 0, 128) // avoids an allocation for most words
	rows = append(rows, make([]int, 3*n)...)
	before, prev, row := rows[:n], rows[n:2*n], rows[2*n:]
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
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		if last < len(b) {
			row[last+1] = outside
		}
		if slices.Min(row[first-1:last+1]) > far {
			return outside
		}
		before, prev, row = prev, row, before
	}
	return prev[len(b)]
}
