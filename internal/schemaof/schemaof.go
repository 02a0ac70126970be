// Package schemaof derives the JSON Schema of tool arguments from a Go type.
package schemaof

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"
)

// Schema is the schema of a struct.
type Schema struct {
	JSON     json.RawMessage
	resolved *jsonschema.Resolved
}

// Struct returns the schema of a struct. Property names come from the json tags, descriptions from
// the jsonschema tags. Fields without omitempty are required.
func Struct[T any]() (*Schema, error) {
	if t := reflect.TypeFor[T](); t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("the arguments must be a struct, not a %s", t)
	}
	s, err := jsonschema.For[T](nil)
	if err != nil {
		return nil, err
	}
	out := &Schema{}
	if out.JSON, err = json.Marshal(s); err != nil {
		return nil, err
	}
	out.resolved, err = s.Resolve(nil)
	return out, err
}

// Check validates arguments.
func (s *Schema) Check(args json.RawMessage) error {
	var v map[string]any
	if err := json.Unmarshal(args, &v); err != nil {
		return fmt.Errorf("the arguments are not an object: %w", err)
	}
	return s.resolved.Validate(v)
}
