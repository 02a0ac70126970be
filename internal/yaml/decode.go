package yaml

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v4"

	"metier/internal/nearest"
)

// DecodeMaxBytes is the maximum size of a file for Decode.
const DecodeMaxBytes = 1 << 20

const decodeMaxNodes = 100_000

// Decode decodes one of metier's own files into v, a pointer. Keys match the `yaml` field tag, or
// else the lower-case field name. Unknown keys are errors, and so are duplicate keys, aliases,
// tags, and everything that [Parse] rejects. Text over [DecodeMaxBytes] is rejected. Text without a
// document leaves v unchanged, so defaults can be set before. The error joins one [*Error] per
// fault, in file order. v may be partially filled.
func Decode(src []byte, v any) error {
	opts := (&Options{MaxBytes: DecodeMaxBytes, MaxNodes: decodeMaxNodes}).withDefaults()
	n, err := Parse(src, &opts)
	if err != nil {
		return err
	}
	if n.Null() {
		return nil
	}
	err = yaml.Load(bytes.TrimPrefix(src, bom), v, yaml.WithKnownFields(), yaml.WithUniqueKeys())
	var several *yaml.LoadErrors
	if !errors.As(err, &several) {
		if err == nil {
			return nil
		}
		return fromLibrary(err, opts)
	}
	all := make([]error, 0, len(several.Errors))
	for _, le := range several.Errors {
		e := decodeError(le)
		if e.Code == UnknownKey {
			key, owner, _ := strings.Cut(strings.TrimPrefix(le.Message, "field "), " not found in type ")
			e.Msg += nearest.Hint(key, keysOf(reflect.TypeOf(v), owner, map[reflect.Type]bool{}))
		}
		all = append(all, e)
	}
	return errors.Join(all...)
}

// keysOf returns the keys of the struct with this name that is t or in t.
func keysOf(t reflect.Type, name string, seen map[reflect.Type]bool) (keys []string) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || seen[t] {
		return nil
	}
	seen[t] = true
	for i := range t.NumField() {
		key, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
		if t.String() == name && key != "" && key != "-" {
			keys = append(keys, key)
		}
		keys = append(keys, keysOf(t.Field(i).Type, name, seen)...)
	}
	return keys
}

// decodeError names the key or the value. The library's message names Go types, which mean nothing
// to the file's author.
func decodeError(le *yaml.LoadError) *Error {
	e := &Error{Line: max(le.Mark.Line, 1), Column: max(le.Mark.Column, 1), Code: WrongType, Msg: clip(le.Message)}
	if rest, ok := strings.CutPrefix(le.Message, "field "); ok {
		if key, _, ok := strings.Cut(rest, " not found in type "); ok {
			e.Code, e.Msg = UnknownKey, fmt.Sprintf("unknown key %q", clip(key))
		}
	}
	if rest, ok := strings.CutPrefix(le.Message, "cannot construct !!"); ok {
		if got, want, ok := cutLast(rest, " into "); ok {
			e.Msg = clip(mismatch(got, want))
		}
	}
	return e
}

// mismatch says which kind of value was expected. got is a tag and, for a scalar, the start of its
// value in backquotes. want is a Go type.
func mismatch(got, want string) string {
	kind, value, _ := strings.Cut(got, " ")
	value = strings.Trim(value, "`")
	needed := "keys and values"
	switch {
	case want == "[]string" && value != "" && !strings.HasSuffix(value, "..."):
		return fmt.Sprintf("expected a list, such as [%s]", value)
	case strings.HasPrefix(want, "[]"):
		needed = "a list"
	case want == "bool":
		needed = "true or false"
	case want == "string":
		needed = "text"
	case want == "time.Duration":
		needed = "a time such as 10m"
	case strings.HasPrefix(want, "int"), strings.HasPrefix(want, "uint"), strings.HasPrefix(want, "float"):
		needed = "a number"
	}
	switch {
	case value != "":
		return fmt.Sprintf("expected %s, got %q", needed, value)
	case kind == "seq":
		return "expected " + needed + ", got a list"
	case kind == "map":
		return "expected " + needed + ", got a map"
	}
	return "expected " + needed
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
