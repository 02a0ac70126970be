package run

import (
	"embed"
	"slices"
	"strings"
)

//go:embed schemas/*.schema.json
var schemas embed.FS

// Schema returns the JSON Schema (draft 2020-12) of an artifact by its file name
// (skill-registry.json, tool-outputs/…) or bare name (skill-registry, tool-output). It returns nil
// if there is no such schema.
func Schema(name string) []byte {
	if strings.HasPrefix(name, outputsDir+"/") {
		name = "tool-output"
	}
	name = strings.TrimSuffix(name, ".json")
	if !slices.Contains(Schemas(), name) {
		return nil
	}
	b, err := schemas.ReadFile("schemas/" + name + ".schema.json")
	if err != nil {
		return nil
	}
	return b
}

// Schemas lists the bare names of all schemas, sorted.
func Schemas() []string {
	entries, err := schemas.ReadDir("schemas")
	if err != nil {
		panic(err) // embedded
	}
	out := make([]string, 0, len(entries))
	for _, e := range entries {
		out = append(out, strings.TrimSuffix(e.Name(), ".schema.json"))
	}
	return out
}
