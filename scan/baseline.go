package scan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
)

// Baseline lists findings that somebody has reviewed and accepted.
type Baseline struct {
	Version  int        `json:"version"` // 1
	Rules    string     `json:"rules"`   // version of the rules that found them
	Accepted []Accepted `json:"accepted"`
}

// Accepted is one of them. Only Skill and ID are compared; the others are for readers.
type Accepted struct {
	Skill string `json:"skill"` // name of the skill's folder
	ID    string `json:"id"`    // of the finding
	Rule  string `json:"rule"`
	File  string `json:"file"`
}

// ParseBaseline reads a baseline.
func ParseBaseline(data []byte) (Baseline, error) {
	var b Baseline
	if err := json.Unmarshal(data, &b); err != nil {
		return Baseline{}, fmt.Errorf("not a baseline: %w", err)
	}
	if b.Version != 1 {
		return Baseline{}, fmt.Errorf("version %d of a baseline; only version 1 is supported", b.Version)
	}
	return b, nil
}

// Add accepts all findings of a skill that make it suspicious. The list stays sorted.
func (b *Baseline) Add(skill string, r Report) {
	b.Version, b.Rules = 1, Version()
	if b.Accepted == nil {
		b.Accepted = []Accepted{}
	}
	for _, f := range r.Findings {
		if f.Decides() {
			b.Accepted = append(b.Accepted, Accepted{skill, f.ID, f.Rule, f.File})
		}
	}
	slices.SortFunc(b.Accepted, func(x, y Accepted) int {
		return cmp.Or(cmp.Compare(x.Skill, y.Skill), cmp.Compare(x.File, y.File), cmp.Compare(x.Rule, y.Rule), cmp.Compare(x.ID, y.ID))
	})
	b.Accepted = slices.Compact(b.Accepted)
}

// Apply returns a report without the accepted findings. The verdict follows from the others.
func (b Baseline) Apply(skill string, r Report) Report {
	left := []Finding{}
	for _, f := range r.Findings {
		if slices.ContainsFunc(b.Accepted, func(a Accepted) bool { return a.Skill == skill && a.ID == f.ID }) {
			r.Accepted++
		} else {
			left = append(left, f)
		}
	}
	r.Findings = left
	r.Verdict, r.Confidence = verdict(left, r.Coverage)
	return r
}
