// Package argschema writes the JSON Schema of a tool's arguments.
package argschema

import "encoding/json"

// Object returns the schema of an object that has no other properties. props must
// consist of maps, lists, texts, and numbers.
func Object(props map[string]any, required ...string) json.RawMessage {
	b, err := json.Marshal(map[string]any{"type": "object", "properties": props, "required": append([]string{}, required...), "additionalProperties": false})
	if err != nil {
		panic(err) // such maps always marshal
	}
	return b
}

// Text returns the schema of a text.
func Text(about string) map[string]any { return map[string]any{"type": "string", "description": about} }

// Texts returns the schema of a list of texts.
func Texts(about string) map[string]any {
	return map[string]any{"type": "array", "items": map[string]any{"type": "string"}, "description": about}
}
