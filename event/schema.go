package event

import "embed"

//go:embed schemas/*.schema.json
var schemas embed.FS

// Schema returns the JSON Schema (draft 2020-12) of a type's data, for the types
// that others are promised: skill.discovered, skill.activated,
// skill.resource_read and skill.script_executed. It is nil for any other.
func Schema(name string) []byte {
	b, err := schemas.ReadFile("schemas/" + name + ".schema.json")
	if err != nil {
		return nil
	}
	return b
}
