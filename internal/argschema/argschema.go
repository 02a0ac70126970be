// Package argschema generates the JSON Schema of a tool's arguments.
package argschema

import "encoding/json"

// Object returns the schema of an object without additional properties. props must consist of maps,
// slices, strings, and numbers.
func Object(props map[string]any, required ...string) json.RawMessage {
	b, err := json.Marshal(map[string]any{"type": "object", "properties": props, "required": append([]string{}, required...), "additionalProperties": false})
	if err != nil {
		panic(err) // such maps always marshal
	}
	return b
}

// Text returns the schema of a string.
func Text(about string) map[string]any { return map[string]any{"type": "string", "description": about} }

// Texts returns the schema of an array of strings.
func Texts(about string) map[string]any {
	return map[string]any{"type": "array", "items": map[string]any{"type": "string"}, "description": about}
}
