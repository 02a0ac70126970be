// Package distinct removes repetitions from lists without sorting them.
package distinct

import "slices"

// Of returns the first of each text of a list.
func Of(in []string) []string {
	var out []string
	for _, s := range in {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
