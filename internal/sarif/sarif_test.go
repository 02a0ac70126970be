package sarif_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/internal/sarif"
)

func TestDocument(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		result sarif.Result
		want   string
	}{
		"a place": {sarif.Result{Rule: "r", Level: sarif.Error, Text: "t", Path: "a b/SKILL.md", Line: 2, Column: 3, ID: "x"},
			`{"level":"error","locations":[{"physicalLocation":{"artifactLocation":{"uri":"a%20b/SKILL.md"},"region":{"startColumn":3,"startLine":2}}}],"message":{"text":"t"},"partialFingerprints":{"findingID/v1":"x"},"ruleId":"r"}`},
		"a file": {sarif.Result{Rule: "r", Level: sarif.Note, Text: "t", Path: "/a"},
			`{"level":"note","locations":[{"physicalLocation":{"artifactLocation":{"uri":"file:///a"}}}],"message":{"text":"t"},"ruleId":"r"}`},
	} {
		b, err := json.Marshal(sarif.Document("p", "p 1", []sarif.Rule{{ID: "r", Title: "T"}}, []sarif.Result{tt.result}))
		if err != nil {
			t.Fatal(err)
		}
		var got, want any
		_ = json.Unmarshal(b, &got)
		_ = json.Unmarshal([]byte(`{"$schema":"https://json.schemastore.org/sarif-2.1.0.json","version":"2.1.0","runs":[{"columnKind":"unicodeCodePoints","tool":{"driver":{"name":"p","fullName":"p 1","rules":[{"id":"r","shortDescription":{"text":"T"}}]}},"results":[`+tt.want+`]}]}`), &want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
