package skillmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"metier/internal/yaml"
)

// Front is the frontmatter of one file: syntax only, no setting applied, so it may be cached by the file's digest. Nothing in
// it points into the file's bytes. The typed fields are views of Fields and carry no authority.
type Front struct {
	Present bool    // there is a frontmatter, whatever it holds
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
	WhenToUse              string   // when_to_use or when-to-use
	ArgumentHint           string   // a list, as [file] reads in YAML, is written back with its brackets
	Arguments              []string // names, split on blanks and commas
	Model                  string
	Effort                 string
	Context                string
	Agent                  string
	Shell                  string
	Hooks                  []Field // in source order, nested values kept
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

// maxTags bounds the tags of one skill.
const maxTags = 64

// Tags returns tags and keywords, of the frontmatter and of its metadata: a
// list, or a text split on commas. At most 64.
func (f Front) Tags() []string {
	var out []string
	for _, fields := range [][]Field{f.Fields, f.Metadata} {
		for _, fl := range fields {
			switch {
			case fl.Key != "tags" && fl.Key != "keywords":
			case len(fl.Value.List) > 0:
				for _, v := range fl.Value.List {
					out = append(out, v.Text)
				}
			default:
				out = append(out, strings.Split(fl.Value.Text, ",")...)
			}
		}
	}
	return out[:min(len(out), maxTags)]
}

// parseFront reads the text between the two lines; line is the file's line number of its first line. The YAML library is slow, so
// it is only asked about text that is not plain.
func parseFront(text []byte, line int) (Front, []Diagnostic) {
	if fields, ok := plain(text, line); ok {
		f := Front{Present: true, Fields: fields}
		return f, f.fill()
	}
	return parseYAML(text, line)
}

// parseYAML is parseFront with the YAML library. Only what the library refuses is repaired.
func parseYAML(text []byte, line int) (Front, []Diagnostic) {
	n, err := yaml.Parse(text, &yaml.Options{MaxBytes: MaxHead, FirstLine: line})
	if err == nil {
		return view(n, line)
	}
	n, notes, ok := repair(text, line, err)
	if !ok {
		return Front{Present: true}, []Diagnostic{refusal(text, line, err)}
	}
	f, diags := view(n, line)
	for _, d := range diags {
		said := func(o Diagnostic) bool { return o.Code == CodeUnreadableField && o.Line == d.Line }
		if d.Code != CodeFieldType || !slices.ContainsFunc(notes, said) {
			notes = append(notes, d)
		}
	}
	return f, notes
}

func view(n *yaml.Node, line int) (Front, []Diagnostic) {
	f := Front{Present: true}
	switch {
	case n.Null():
		return f, []Diagnostic{{Severity: Warning, Code: CodeFrontmatterEmpty, Line: line - 1, Column: 1,
			Detail: "the frontmatter is empty; it needs name and description"}}
	case n.Kind != yaml.Map:
		return f, []Diagnostic{{Severity: Error, Code: CodeFrontmatterNotMap, Line: n.Line, Column: n.Column,
			Detail: "the frontmatter is a " + n.Kind.String() + "; it must be lines of key: value"}}
	}
	f.Fields = fieldsOf(n)
	return f, f.fill()
}

// refusal words the library's error; a merge conflict has words of its own, because the library's name the line after it.
func refusal(text []byte, line int, err error) Diagnostic {
	d := yamlDiagnostic(err)
	if d.Code != CodeInvalidYAML {
		return d
	}
	for l := range bytes.Lines(text) {
		if bytes.HasPrefix(l, []byte("<<<<<<< ")) {
			d.Detail, d.Line, d.Column = "an unresolved merge conflict starts here; keep one side and remove the marks", line, 1
			break
		}
		line++
	}
	return d
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
