package yaml

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"
)

// DecodeMaxBytes caps one file of our own.
const DecodeMaxBytes = 1 << 20

const decodeMaxNodes = 100_000

// Decode reads one file of our own into v, a pointer. Keys are matched by the `yaml` field tag, else by the lower-case field
// name; a key that v does not have is an error that names it, as are duplicate keys, aliases, tags and everything [Parse]
// refuses. Text over [DecodeMaxBytes] is refused. Text with no document leaves v as it is, so defaults can be set before.
// The error joins one [*Error] per fault, in file order; v may be filled partly.
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
		all = append(all, decodeError(le))
	}
	return errors.Join(all...)
}

// decodeError names the key or the value; the library's text names Go types, which mean nothing to the file's author.
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

// mismatch says which kind of value is needed. got is a tag and, for a scalar, its beginning in backquotes; want is a Go type.
func mismatch(got, want string) string {
	kind, value, _ := strings.Cut(got, " ")
	value = strings.Trim(value, "`")
	needed := "a map of keys and values"
	switch {
	case want == "[]string" && value != "" && !strings.HasSuffix(value, "..."):
		return fmt.Sprintf("a list is needed here, such as [%s]", value)
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
		return fmt.Sprintf("%s is needed here, not %q", needed, value)
	case kind == "seq":
		return needed + " is needed here, not a list"
	case kind == "map":
		return needed + " is needed here, not a map"
	}
	return needed + " is needed here"
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
