// Package distinct removes duplicates from lists without sorting them.
package distinct

// Of returns the distinct strings of a list, in order of first occurrence.
func Of(in []string) []string {
	var out []string
	seen := make(map[string]bool, len(in))
	for _, s := range in {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}
