// Package sarif writes results in SARIF 2.1.0, which code hosts show beside the lines of a change.
package sarif

import (
	"net/url"
	"path/filepath"
)

// The levels of results.
const (
	Error   = "error"
	Warning = "warning"
	Note    = "note"
)

// Rule is a rule that results name.
type Rule struct {
	ID    string
	Title string // "" is left out, as are the others
	Why   string
	Fix   string
}

// Result is a finding in a file.
type Result struct {
	Rule         string
	Level        string
	Text         string
	Path         string // relative to the folder of the command, or absolute
	Line, Column int    // from 1; 0: unknown. Columns count characters.
	ID           string // stays the same if the line moves; "" is left out
}

type object = map[string]any

// Document returns a document of one program's results. name and version are those of the program.
func Document(name, version string, rules []Rule, results []Result) any {
	described, listed := []object{}, []result{}
	for _, r := range rules {
		o := object{"id": r.ID}
		for key, text := range map[string]string{"shortDescription": r.Title, "fullDescription": r.Why, "help": r.Fix} {
			if text != "" {
				o[key] = message{text}
			}
		}
		described = append(described, o)
	}
	for _, r := range results {
		var at location
		at.PhysicalLocation.ArtifactLocation.URI = fileURI(r.Path)
		if r.Line > 0 {
			at.PhysicalLocation.Region = &region{r.Line, r.Column}
		}
		x := result{RuleID: r.Rule, Level: r.Level, Message: message{r.Text}, Locations: []location{at}}
		if r.ID != "" {
			x.Fingerprints = map[string]string{"findingID/v1": r.ID}
		}
		listed = append(listed, x)
	}
	driver := object{"name": name, "fullName": version, "rules": described}
	return object{"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
		"runs": []any{object{"tool": object{"driver": driver}, "columnKind": "unicodeCodePoints", "results": listed}}}
}

type message struct {
	Text string `json:"text"`
}

type region struct {
	StartLine   int `json:"startLine"`
	StartColumn int `json:"startColumn,omitempty"`
}

type location struct {
	PhysicalLocation struct {
		ArtifactLocation struct {
			URI string `json:"uri"`
		} `json:"artifactLocation"`
		Region *region `json:"region,omitempty"`
	} `json:"physicalLocation"`
}

type result struct {
	RuleID       string            `json:"ruleId"`
	Level        string            `json:"level"`
	Message      message           `json:"message"`
	Locations    []location        `json:"locations"`
	Fingerprints map[string]string `json:"partialFingerprints,omitempty"`
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
