package scan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

func rank(s Severity) int { return slices.Index([]Severity{Low, Medium, High, Critical}, s) }

func sure(c Confidence) int { return slices.Index([]Confidence{Unsure, Likely, Certain}, c) }

// less returns the next lower confidence.
func less(c Confidence) Confidence {
	if c == Certain {
		return Likely
	}
	return Unsure
}

// verdict returns the verdict that findings lead to, and how certain it is.
func verdict(found []Finding, c Coverage) (Verdict, Confidence) {
	out, certain := Clean, Unsure
	for _, f := range found {
		if !f.Decides() {
			continue
		}
		v := Suspicious
		if rank(f.Severity) >= rank(High) && f.Confidence == Certain || f.Severity == Critical {
			v = Dangerous
		}
		switch {
		case v == Dangerous && out != Dangerous:
			out, certain = v, f.Confidence
		case v == out || out == Clean:
			out, certain = v, max2(certain, f.Confidence)
		}
	}
	if out == Clean {
		certain = c.confidence()
	}
	return out, certain
}

func max2(a, b Confidence) Confidence {
	if sure(a) > sure(b) {
		return a
	}
	return b
}

// sorted orders findings: those that decide first, then by severity, confidence, and place.
func sorted(found []Finding) {
	slices.SortStableFunc(found, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(decided(b), decided(a)),
			cmp.Compare(rank(b.Severity), rank(a.Severity)),
			cmp.Compare(sure(b.Confidence), sure(a.Confidence)),
			cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Rule, b.Rule))
	})
}

func decided(f Finding) int {
	if f.Decides() {
		return 1
	}
	return 0
}

// identity returns the ID of a finding. It does not depend on the line or on white space.
func identity(rule, file, about string, n int) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{rule, file, strings.Join(strings.Fields(about), " "), strings.Repeat("+", n)}, "\x00")))
	return hex.EncodeToString(sum[:8])
}

// report assembles the report from what was found.
func (s *scanner) report() Report {
	sorted(s.findings)
	if len(s.findings) > maxFindings {
		s.coverage.Findings += len(s.findings) - maxFindings
		s.findings = s.findings[:maxFindings]
	}
	r := Report{Name: s.front.Name, Blast: s.abilities(), Coverage: s.coverage, Findings: s.findings, Rules: Version()}
	if r.Findings == nil {
		r.Findings = []Finding{}
	}
	s.listHosts(&r)
	r.Verdict, r.Confidence = verdict(r.Findings, r.Coverage)
	return r
}
