package skillmd

import (
	"encoding/json"
	"errors"

	"metier/internal/yaml"
)

// Front is the frontmatter of one file: syntax only, no setting applied, so it may be cached by the file's digest. Nothing in
// it points into the file's bytes. The typed fields are views of Fields and carry no authority.
type Front struct {
	Present bool    // both --- lines are there, whatever is between them
	Fields  []Field // every key in source order, unknown ones too; empty when the YAML was refused

	Name           string // surrounding white space removed
	Description    string // surrounding white space removed
	HasName        bool   // the key is there and its text is not blank
	HasDescription bool
	License        string
	Compatibility  string
	Metadata       []Field // in source order, nested values kept

	// AllowedTools are the patterns of allowed-tools: a text is split on blanks and commas outside brackets, and so is each item
	// of a list. AllowedToolsDeclared says that the key is there, even with nothing or nonsense in it: a skill that declares an
	// unreadable list has declared an empty one, never all tools.
	AllowedTools         []string
	AllowedToolsDeclared bool

	// Fields that other clients know.
	WhenToUse              string // when_to_use or when-to-use
	ArgumentHint           string // a list, as [file] reads in YAML, is written back with its brackets
	Model                  string
	Context                string
	Agent                  string
	DisableModelInvocation bool
	UserInvocable          *bool    // nil: not said
	Paths                  []string // split on commas outside brackets
	Platforms              []string // split on blanks and commas
	Dependencies           []string // of dependencies and metadata.dependencies, split on commas; a map gives "key: text"
}

// JSON gives all fields as one JSON object in source order: scalars as strings of their source text, except that a plain true
// or false is a boolean and a plain null is null. It is {} when there are none.
func (f Front) JSON() json.RawMessage {
	return appendMap(nil, f.Fields)
}

// Lookup returns the value of a top-level key.
func (f Front) Lookup(key string) (Value, bool) {
	return lookup(f.Fields, key)
}

// parseFront reads the text between the two lines; its first line is line 2 of the file.
func parseFront(text []byte) (Front, []Diagnostic) {
	f := Front{Present: true}
	n, err := yaml.Parse(text, &yaml.Options{MaxBytes: MaxHead, FirstLine: 2})
	if err != nil {
		return f, []Diagnostic{yamlDiagnostic(err)}
	}
	switch {
	case n.Null():
		return f, []Diagnostic{{Severity: Warning, Code: CodeFrontmatterEmpty, Line: 1, Column: 1,
			Detail: "the frontmatter is empty; it needs name and description"}}
	case n.Kind != yaml.Map:
		return f, []Diagnostic{{Severity: Error, Code: CodeFrontmatterNotMap, Line: n.Line, Column: n.Column,
			Detail: "the frontmatter is a " + n.Kind.String() + "; it must be lines of key: value"}}
	}
	f.Fields = fieldsOf(n)
	return f, f.fill()
}

var yamlCodes = map[yaml.Code]string{
	yaml.NotUTF8:          CodeNotUTF8,
	yaml.NUL:              CodeNUL,
	yaml.ControlCharacter: CodeControlCharacter,
	yaml.DuplicateKey:     CodeDuplicateKey,
	yaml.ComplexKey:       CodeComplexKey,
	yaml.Alias:            CodeAlias,
	yaml.Anchor:           CodeAnchor,
	yaml.Tag:              CodeTag,
	yaml.Directive:        CodeDirective,
	yaml.MergeKey:         CodeMergeKey,
	yaml.SecondDocument:   CodeSecondDocument,
	yaml.TooDeep:          CodeTooDeep,
	yaml.TooManyNodes:     CodeTooManyValues,
	yaml.TooLarge:         CodeFrontmatterTooLarge,
}

func yamlDiagnostic(err error) Diagnostic {
	d := Diagnostic{Severity: Error, Code: CodeInvalidYAML, Detail: err.Error()}
	var e *yaml.Error
	if errors.As(err, &e) {
		d.Detail, d.Line, d.Column = e.Msg, e.Line, e.Column
		if code, ok := yamlCodes[e.Code]; ok {
			d.Code = code
		}
	}
	return d
}
