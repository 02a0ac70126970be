// Package distinct removes duplicates from lists without sorting them.
package distinct

import "slices"

// Of returns the distinct strings of a list, in order of first occurrence.
func Of(in []string) []string {
	var out []string
	for _, s := range in {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
