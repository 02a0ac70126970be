package cli

import (
	"fmt"
	"net/url"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"metier/skillmd"
)

// The formats of `validate`.
const (
	formatText  = "text"
	formatJSON  = "json"
	formatSARIF = "sarif"
)

// shower prints judgements.
type shower interface {
	one(j verdict)
	end() error
}

// formatOf picks the format; --json is --format json. From then on errors are
// JSON too, unless it is text.
func (a *app) formatOf(c *cobra.Command, format string) (shower, error) {
	if a.json && !c.Flags().Changed("format") {
		format = formatJSON
	}
	if a.json && format == formatText {
		return nil, wrong("usage", "leave out one of the two", "--json and --format text exclude each other")
	}
	switch format {
	case formatText:
		return textShower{a}, nil
	case formatJSON:
		a.json = true
		return &jsonShower{a: a, OK: true, Results: []verdict{}}, nil
	case formatSARIF:
		a.json = true
		return &sarifShower{a: a}, nil
	}
	return nil, wrong("usage", "formats: text, json, sarif", "there is no format %q", format)
}

// textShower prints as the reference validator does, and below it what that one
// does not say.
type textShower struct{ a *app }

func (s textShower) one(j verdict) {
	w := s.a.Out
	if j.OK {
		fmt.Fprintf(w, "Valid skill: %s\n", oneLine(j.Path))
	} else {
		w = s.a.Err
		fmt.Fprintf(w, "Validation failed for %s:\n", oneLine(j.Path))
	}
	for _, m := range j.Errors {
		fmt.Fprintf(w, "  - %s\n", oneLine(m))
	}
	for _, d := range j.Diagnostics {
		if d.Severity == skillmd.Error {
			continue
		}
		where := ""
		if d.Line > 0 {
			where = fmt.Sprintf("line %d: ", d.Line)
		}
		fmt.Fprintf(w, "  %s: %s%s\n", d.Severity, where, oneLine(d.Detail))
	}
}

func (textShower) end() error { return nil }

type jsonShower struct {
	a       *app
	OK      bool      `json:"ok"`
	Results []verdict `json:"results"`
}

func (s *jsonShower) one(j verdict) {
	s.OK = s.OK && j.OK
	s.Results = append(s.Results, j)
}

func (s *jsonShower) end() error { return s.a.document(s) }

// sarifShower prints SARIF 2.1.0, which code hosts show beside the lines of a
// change.
type sarifShower struct {
	a       *app
	rules   []string
	results []sarifResult
}

type sarifText struct {
	Text string `json:"text"`
}

type sarifRegion struct {
	StartLine   int `json:"startLine"`
	StartColumn int `json:"startColumn,omitempty"`
}

type sarifLocation struct {
	PhysicalLocation struct {
		ArtifactLocation struct {
			URI string `json:"uri"`
		} `json:"artifactLocation"`
		Region *sarifRegion `json:"region,omitempty"`
	} `json:"physicalLocation"`
}

type sarifResult struct {
	RuleID    string          `json:"ruleId"`
	Level     string          `json:"level"`
	Message   sarifText       `json:"message"`
	Locations []sarifLocation `json:"locations"`
}

func (s *sarifShower) one(j verdict) {
	levels := map[skillmd.Severity]string{skillmd.Error: "error", skillmd.Warning: "warning", skillmd.Advice: "note"}
	for _, d := range j.Diagnostics {
		if !slices.Contains(s.rules, d.Code) {
			s.rules = append(s.rules, d.Code)
		}
		var at sarifLocation
		at.PhysicalLocation.ArtifactLocation.URI = fileURI(j.file)
		if d.Line > 0 {
			at.PhysicalLocation.Region = &sarifRegion{d.Line, d.Column}
		}
		s.results = append(s.results, sarifResult{d.Code, levels[d.Severity], sarifText{d.Detail}, []sarifLocation{at}})
	}
}

// fileURI is a path as SARIF wants it: relative ones stay relative, so that
// they mean the same in another checkout.
func fileURI(path string) string {
	u := url.URL{Path: filepath.ToSlash(path)}
	if filepath.IsAbs(path) {
		u.Scheme = "file"
	}
	return u.String()
}

func (s *sarifShower) end() error {
	type rule struct {
		ID string `json:"id"`
	}
	rules := []rule{}
	for _, id := range s.rules {
		rules = append(rules, rule{id})
	}
	if s.results == nil {
		s.results = []sarifResult{}
	}
	return s.a.document(map[string]any{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json",
		"version": "2.1.0",
		"runs": []any{map[string]any{
			"tool": map[string]any{"driver": map[string]any{
				"name": "metier validate", "fullName": "metier " + buildVersion(), "rules": rules}},
			"columnKind": "unicodeCodePoints",
			"results":    s.results,
		}},
	})
}
