package agent_test

import (
	"fmt"
	"strings"
	"testing"

	"metier/agent"
)

// doubling is a schema that visits a value 2^n times.
func doubling(n int) string {
	var b strings.Builder
	b.WriteString(`{"$ref": "#/$defs/d0", "$defs": {`)
	for i := range n {
		fmt.Fprintf(&b, `"d%d": {"allOf": [{"$ref": "#/$defs/d%d"}, {"$ref": "#/$defs/d%d"}]}, `, i, i+1, i+1)
	}
	fmt.Fprintf(&b, `"d%d": {}}}`, n)
	return b.String()
}

func TestASchemaThatWouldNotEndIsRefused(t *testing.T) {
	t.Parallel()
	for name, schema := range map[string]string{
		"itself":         `{"$ref": "#"}`,
		"round":          `{"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"not": {"$ref": "#/$defs/b%20c"}}, "b c": {"if": {"$ref": "#/$defs/a"}}}}`,
		"by anchor":      `{"anyOf": [{"$ref": "#x"}], "$anchor": "x"}`,
		"by id":          `{"$id": "https://example.com/a", "oneOf": [{"$ref": "a"}]}`,
		"dynamic":        `{"$dynamicAnchor": "n", "allOf": [{"$dynamicRef": "#n"}]}`,
		"when dependent": `{"dependentSchemas": {"a": {"$ref": "#"}}}`,
		"doublings":      doubling(40),
		"folded ref":     `{"$REF": "#"}`,
		"folded twice":   `{"$ref": "#/$defs/a", "$Ref": "#", "$defs": {"a": {}}}`,
		"folded list":    `{"AnyOf": [{"$ref": "#"}]}`,
		"folded not":     `{"NOT": {"$ref": "#"}}`,
		"folded defs":    `{"$ref": "#/$defs/a", "$DEFS": {"a": {"$ref": "#/$defs/a"}}}`,
		"folded anchor":  `{"anyOf": [{"$ref": "#x"}], "$ANCHOR": "x"}`,
		"folded dynamic": `{"$dynamicAnchor": "n", "allOf": [{"$DYNAMICREF": "#n"}]}`,
		"folded depends": `{"DependentSchemas": {"a": {"$ref": "#"}}}`,
		"large pattern":  `{"type": "string", "pattern": "^` + strings.Repeat("(a?){1000}", 100) + `$"}`,
		"other case":     `{"Pattern": "` + strings.Repeat("(a?){1000}", 100) + `"}`,
		"large names":    `{"patternProperties": {"` + strings.Repeat("(a?){1000}", 100) + `": {}}}`,
		"unknown type":   `{"type": "objec"}`,
		"one of types":   `{"properties": {"a": {"anyOf": [{"type": ["null", "text"]}]}}}`,
		"many patterns":  `{"allOf": [` + strings.Repeat(`{"pattern": "^[a-z]{1,900}$"}, `, 20) + `{}]}`,
	} {
		if err := agent.CheckSchema([]byte(schema)); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	for name, schema := range map[string]string{
		"a tree":        `{"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#"}}}}`,
		"either":        `{"$defs": {"e": {"anyOf": [{"type": "string"}, {"type": "object", "additionalProperties": {"$ref": "#/$defs/e"}}]}}, "$ref": "#/$defs/e"}`,
		"some doubling": doubling(6),
		"by its own id": `{"$id": "https://example.com/a", "properties": {"a": {"$ref": "a"}, "b": {"$ref": "#/properties/c"}, "c": {}}}`,
		"true":          `true`,
		"types as data": `{"enum": [{"type": "x"}], "const": {"type": "x"}, "default": {"type": "x"}, "examples": [{"type": "x"}], "properties": {"type": {"type": "string"}}}`,
		"property If":   `{"properties": {"If": {"type": "string"}, "$REF": {"type": "string"}, "Pattern": {"$ref": "#"}}}`,
		"patterns":      `{"allOf": [` + strings.Repeat(`{"pattern": "^[a-z0-9-]{1,64}$"}, `, 20) + `{}], "patternProperties": {"^x-": {}}}`,
	} {
		if err := agent.CheckSchema([]byte(schema)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
