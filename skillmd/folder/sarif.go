package folder

import (
	"slices"

	"metier/internal/sarif"
	"metier/skillmd"
)

// SARIF returns verdicts as a SARIF 2.1.0 document, which code hosts show beside
// the lines of a change. name and version are those of the program.
func SARIF(name, version string, list []Verdict) any {
	levels := map[skillmd.Severity]string{skillmd.Error: sarif.Error, skillmd.Warning: sarif.Warning, skillmd.Advice: sarif.Note}
	var rules []sarif.Rule
	var results []sarif.Result
	for _, v := range list {
		for _, d := range v.Diagnostics {
			if rule := (sarif.Rule{ID: d.Code}); !slices.Contains(rules, rule) {
				rules = append(rules, rule)
			}
			r := sarif.Result{Rule: d.Code, Level: levels[d.Severity], Text: d.Detail, Path: v.File}
			if d.Line > 0 {
				r.Line, r.Column = d.Line, d.Column
			}
			results = append(results, r)
		}
	}
	return sarif.Document(name, version, rules, results)
}
