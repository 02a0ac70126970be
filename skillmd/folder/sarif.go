package folder

import (
	"net/url"
	"path/filepath"
	"slices"

	"metier/skillmd"
)

// SARIF returns verdicts as a SARIF 2.1.0 document, which code hosts show beside
// the lines of a change. name and version are those of the program.
func SARIF(name, version string, list []Verdict) any {
	type object = map[string]any
	levels := map[skillmd.Severity]string{skillmd.Error: "error", skillmd.Warning: "warning", skillmd.Advice: "note"}
	var codes []string
	rules, results := []object{}, []sarifResult{}
	for _, v := range list {
		for _, d := range v.Diagnostics {
			if !slices.Contains(codes, d.Code) {
				codes, rules = append(codes, d.Code), append(rules, object{"id": d.Code})
			}
			var at sarifLocation
			at.PhysicalLocation.ArtifactLocation.URI = fileURI(v.File)
			if d.Line > 0 {
				at.PhysicalLocation.Region = &sarifRegion{d.Line, d.Column}
			}
			results = append(results, sarifResult{d.Code, levels[d.Severity], sarifText{d.Detail}, []sarifLocation{at}})
		}
	}
	driver := object{"name": name, "fullName": version, "rules": rules}
	return object{"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
		"runs": []any{object{"tool": object{"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}}}
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

// fileURI is a path as SARIF has it. Relative ones stay relative, so that they
// mean the same in another checkout.
func fileURI(path string) string {
	u := url.URL{Path: filepath.ToSlash(path)}
	if filepath.IsAbs(path) {
		u.Scheme = "file"
	}
	return u.String()
}
