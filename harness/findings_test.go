package harness

import (
	"slices"

	"metier"
	"metier/skillmd"
)

// Findings returns the diagnostics of a severity.
func (h *Harness) Findings(s skillmd.Severity) []metier.Diagnostic {
	return slices.DeleteFunc(slices.Clone(h.Diagnostics), func(d metier.Diagnostic) bool { return d.Severity != s })
}
