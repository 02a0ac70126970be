package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"metier/internal/regex"
	"metier/internal/termtext"
)

// maxSchemas is how many schemas one of a tool may come to with every reference
// followed: what a validator may have to look at for one value.
const maxSchemas = 10_000

// types are the types of JSON Schema.
var types = []any{"object", "array", "string", "number", "integer", "boolean", "null"}

// The keywords that contain schemas: one, several in order, or several by name.
var (
	oneBelow  = []string{"items", "additionalItems", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties", "contentSchema"}
	someBelow = []string{"items", "allOf", "anyOf", "oneOf", "prefixItems"}
	namedThem = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
	otherKeys = []string{"type", "$ref", "$id", "$dynamicRef", "$schema"}
)

// validator makes a validator of a schema that a server sent. The library follows
// references without looking back, and a stack that overflows ends the program:
// so a schema that leads back to itself is not followed a second time (the
// server knows itself what it takes), and one that comes to too much is refused.
func validator(raw []byte) (*jsonschema.Resolved, error) {
	var root map[string]any
	if err := json.Unmarshal(raw, &root); err != nil {
		return nil, err
	}
	if err := regex.CheckSchema(root); err != nil {
		return nil, err
	}
	w := walk{root: root, left: maxSchemas, above: map[uintptr]bool{}}
	if err := w.at(root); err != nil {
		return nil, err
	}
	if v, _ := root["$schema"].(string); v != "" && !strings.Contains(v, "/draft-07/") && !strings.Contains(v, "/2020-12/") {
		delete(root, "$schema") // the library knows these two only, and refuses every value for others
	}
	b, err := json.Marshal(root)
	if err != nil {
		return nil, err
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, err
	}
	return s.Resolve(nil) // no loader: a schema that points elsewhere is refused
}

// walk traverses a schema like a validator, and cuts references that lead back.
type walk struct {
	root  map[string]any
	left  int
	above map[uintptr]bool // the schemas that the one we are at lies in or was referred to from
}

func place(m map[string]any) uintptr { return reflect.ValueOf(m).Pointer() }

func (w *walk) at(schema any) error {
	m, is := schema.(map[string]any)
	if !is {
		return nil
	}
	if w.left--; w.left < 0 {
		return fmt.Errorf("it has more than %d schemas", maxSchemas)
	}
	if err := plain(m, len(w.above) > 0); err != nil {
		return err
	}
	w.above[place(m)] = true
	defer delete(w.above, place(m))
	if ref, is := m["$ref"].(string); is {
		to, err := w.find(ref)
		if err != nil {
			return err
		}
		if t, is := to.(map[string]any); is && w.above[place(t)] {
			delete(m, "$ref")
		} else if err := w.at(to); err != nil {
			return err
		}
	}
	for _, v := range below(m) {
		if err := w.at(v); err != nil {
			return err
		}
	}
	return nil
}

// below returns the schemas directly in a schema.
func below(m map[string]any) (out []any) {
	for _, key := range oneBelow {
		out = append(out, m[key])
	}
	for _, key := range someBelow {
		list, _ := m[key].([]any)
		out = append(out, list...)
	}
	for _, key := range namedThem {
		named, _ := m[key].(map[string]any)
		for _, v := range named {
			out = append(out, v)
		}
	}
	return out
}

// plain refuses what the library reads in another way than it is looked at
// here, and types that there are none of.
func plain(m map[string]any, inner bool) error {
	for key := range m {
		for _, known := range slices.Concat(oneBelow, someBelow, namedThem, otherKeys) {
			if key != known && strings.EqualFold(key, known) {
				return fmt.Errorf("it has the key %s instead of %s", termtext.Quote(key), known)
			}
		}
	}
	if m["$dynamicRef"] != nil {
		return errors.New("it has a $dynamicRef")
	}
	if m["$id"] != nil && inner {
		return errors.New("it has an $id inside")
	}
	kinds, many := m["type"].([]any)
	if one, there := m["type"]; there && !many {
		kinds = []any{one}
	}
	for _, k := range kinds {
		if !slices.Contains(types, k) {
			return fmt.Errorf("it has the type %v", termtext.Quote(clipped(fmt.Sprint(k), 40)))
		}
	}
	return nil
}

// find returns the target of a reference, a JSON Pointer into the schema.
func (w *walk) find(ref string) (any, error) {
	bad := fmt.Errorf("its reference %s leads nowhere in it", termtext.Quote(clipped(ref, 100)))
	text, is := strings.CutPrefix(ref, "#")
	text, err := url.PathUnescape(text)
	if !is || err != nil || text != "" && text[0] != '/' {
		return nil, bad
	}
	var at any = w.root
	for _, part := range strings.Split(text, "/")[1:] {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		switch v := at.(type) {
		case map[string]any:
			at = v[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(v) {
				return nil, bad
			}
			at = v[i]
		default:
			return nil, bad
		}
	}
	if at == nil {
		return nil, bad
	}
	return at, nil
}
