package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"metier/internal/regex"
)

// maxSchemas bounds how many schemas one value is compared with at one place.
const maxSchemas = 10_000

// CheckSchema reports whether a JSON schema can be used for Spec.Output.
func CheckSchema(raw []byte) error {
	_, err := openSchema(raw)
	return err
}

// openSchema reads a schema that comparing a value with ends. The library
// follows references as they stand: one that leads back to itself without
// going deeper into the value would never end, and neither would forty
// doublings. References to other documents are not fetched.
func openSchema(raw []byte) (*jsonschema.Resolved, error) {
	var sch jsonschema.Schema
	if err := json.Unmarshal(raw, &sch); err != nil {
		return nil, err
	}
	read, err := json.Marshal(&sch) // as the library reads it, which takes keys in any case
	if err != nil {
		return nil, err
	}
	if err := bounded(read); err != nil {
		return nil, err
	}
	var root any
	if err := json.Unmarshal(read, &root); err != nil {
		return nil, err
	}
	if err := checkTypes(root); err != nil {
		return nil, err
	}
	return sch.Resolve(nil)
}

var schemaTypes = []string{"null", "boolean", "object", "array", "number", "string", "integer"}

// checkTypes fails for a type that JSON Schema does not have. The library accepts it, and no value
// matches it.
func checkTypes(schema any) error {
	m, ok := schema.(map[string]any)
	if !ok {
		return nil // true or false
	}
	types, _ := m["type"].([]any)
	if one, ok := m["type"].(string); ok {
		types = []any{one}
	}
	for _, t := range types {
		if name, ok := t.(string); !ok || !slices.Contains(schemaTypes, name) {
			return fmt.Errorf("there is no type %v; types: %s", t, strings.Join(schemaTypes, ", "))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		var inner []any
		switch v := m[k].(type) {
		case []any: // allOf, anyOf, oneOf, prefixItems, items
			inner = v
		case map[string]any:
			inner = []any{v}
			if slices.Contains([]string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}, k) {
				inner = slices.Collect(maps.Values(v))
			}
		}
		if slices.Contains([]string{"enum", "const", "default", "examples", "type", "required"}, k) {
			continue // values, not schemas
		}
		for _, s := range inner {
			if err := checkTypes(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// schemaGraph is which schemas are compared with the same value as another one.
// Where an identifier may mean several, all of them count.
type schemaGraph struct {
	root  map[string]any
	named map[string][]map[string]any // by anchor
	ids   []map[string]any            // schemas with an $id
	cost  map[uintptr]int             // schemas looked at; 0: being counted
}

func bounded(raw []byte) error {
	var root any
	if err := json.Unmarshal(raw, &root); err != nil {
		return err
	}
	g := &schemaGraph{named: map[string][]map[string]any{}, cost: map[uintptr]int{}}
	g.root, _ = root.(map[string]any)
	var all []map[string]any
	g.collect(root, &all)
	for _, m := range all {
		if _, err := g.count(m); err != nil {
			return err
		}
	}
	return regex.CheckSchema(root)
}

func (g *schemaGraph) collect(v any, all *[]map[string]any) {
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			g.collect(x, all)
		}
	case map[string]any:
		*all = append(*all, v)
		for _, k := range []string{"$anchor", "$dynamicAnchor"} {
			if name, ok := v[k].(string); ok {
				g.named[name] = append(g.named[name], v)
			}
		}
		if _, ok := v["$id"].(string); ok {
			g.ids = append(g.ids, v)
		}
		for _, x := range v {
			g.collect(x, all)
		}
	}
}

// count is how many schemas a value meets where it meets m.
func (g *schemaGraph) count(m map[string]any) (int, error) {
	key := reflect.ValueOf(m).Pointer()
	if n, seen := g.cost[key]; seen {
		if n == 0 {
			return 0, errors.New("a reference leads back to itself without going deeper into the value")
		}
		return n, nil
	}
	g.cost[key] = 0
	sum := 1
	for _, next := range g.beside(m) {
		n, err := g.count(next)
		if err != nil {
			return 0, err
		}
		if sum += n; sum > maxSchemas {
			return 0, fmt.Errorf("one value would be compared with more than %d schemas", maxSchemas)
		}
	}
	g.cost[key] = sum
	return sum, nil
}

// beside are the schemas that m compares the same value with.
func (g *schemaGraph) beside(m map[string]any) (out []map[string]any) {
	add := func(v any) {
		if s, ok := v.(map[string]any); ok {
			out = append(out, s)
		}
	}
	for _, k := range []string{"allOf", "anyOf", "oneOf"} {
		list, _ := m[k].([]any)
		for _, v := range list {
			add(v)
		}
	}
	for _, k := range []string{"not", "if", "then", "else"} {
		add(m[k])
	}
	for _, k := range []string{"dependentSchemas", "dependencies"} {
		by, _ := m[k].(map[string]any)
		for _, v := range by {
			add(v)
		}
	}
	for _, k := range []string{"$ref", "$dynamicRef"} {
		if ref, ok := m[k].(string); ok {
			out = append(out, g.targets(ref)...)
		}
	}
	return out
}

// targets are the schemas a reference may mean.
func (g *schemaGraph) targets(ref string) (out []map[string]any) {
	_, frag, _ := strings.Cut(ref, "#")
	if plain, err := url.PathUnescape(frag); err == nil {
		frag = plain
	}
	if frag != "" && frag[0] != '/' {
		return g.named[frag]
	}
	seen := map[uintptr]bool{}
	for _, from := range append([]map[string]any{g.root}, g.ids...) {
		m, ok := follow(from, frag).(map[string]any)
		if key := reflect.ValueOf(m).Pointer(); ok && !seen[key] {
			seen[key] = true
			out = append(out, m)
		}
	}
	return out
}

// follow follows a JSON pointer; nil where it leads nowhere.
func follow(v any, pointer string) any {
	if pointer == "" {
		return v
	}
	for _, step := range strings.Split(pointer[1:], "/") {
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		switch x := v.(type) {
		case map[string]any:
			v = x[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(x) {
				return nil
			}
			v = x[i]
		default:
			return nil
		}
	}
	return v
}
