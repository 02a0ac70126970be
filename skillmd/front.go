package skillmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"metier/internal/yaml"
)

// Front is the frontmatter of one file. It is pure syntax without settings, so it can be cached by the file's digest. It shares
// no memory with the file's bytes. The typed fields are views of Fields and carry no authority.
type Front struct {
	Present bool    // the file has frontmatter, valid or not
	Fields  []Field // every key in source order, including unknown ones; empty if the YAML was refused

	Name           string // surrounding white space removed
	Description    string // surrounding white space removed
	HasName        bool   // the key exists and its text is not blank
	HasDescription bool
	License        string
	Compatibility  string
	Metadata       []Field // in source order, nested values kept

	// AllowedTools lists the patterns of allowed-tools. A text, and each item of a list, is split on white space and commas
	// outside brackets. AllowedToolsDeclared reports whether the key exists, even with an empty or unreadable value. An
	// unreadable list counts as an empty one, and never allows all tools.
	AllowedTools         []string
	AllowedToolsDeclared bool

	// Fields of other clients.
	WhenToUse              string   // when_to_use or when-to-use
	ArgumentHint           string   // a list such as [file] is converted back to text with brackets
	Arguments              []string // names, split on white space and commas
	Model                  string
	Effort                 string
	Context                string
	Agent                  string
	Shell                  string
	Hooks                  []Field // in source order, nested values kept
	DisableModelInvocation bool
	UserInvocable          *bool    // nil: not set
	Paths                  []string // split on commas outside brackets
	Platforms              []string // split on white space and commas
	Dependencies           []string // of dependencies and metadata.dependencies, split on commas; a map entry becomes "key: text"
	Requires               []string // skills of metadata.requires, split on commas; a map entry becomes "key text", as in "pdf >=1.2"
}

// JSON returns all fields as one JSON object in source order. Scalars are strings of their source text, except that a plain
// true or false is a boolean and a plain null is null. Without fields it returns {}.
func (f Front) JSON() json.RawMessage {
	return appendMap(nil, f.Fields)
}

// Lookup returns the value of a top-level key.
func (f Front) Lookup(key string) (Value, bool) {
	return lookup(f.Fields, key)
}

// maxTags bounds the tags of one skill.
const maxTags = 64

// Tags returns the tags and keywords of the frontmatter and of its metadata. A
// text is split on commas. It returns at most 64.
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

// parseFront parses the text between the two lines; line is the line number of its first line in the file. The YAML library is
// slow, so it only parses text that is not plain.
func parseFront(text []byte, line int) (Front, []Diagnostic) {
	if fields, ok := plain(text, line); ok {
		f := Front{Present: true, Fields: fields}
		return f, f.fill()
	}
	return parseYAML(text, line)
}

// parseYAML is parseFront with the YAML library. It repairs only text that the library refuses.
func parseYAML(text []byte, line int) (Front, []Diagnostic) {
	n, err := yaml.Parse(text, &yaml.Options{MaxBytes: MaxHead, FirstLine: line})
	if err == nil {
		return view(n, line)
	}
	n, notes, ok := repair(text, line, err)
	if !ok && notes != nil {
		return Front{Present: true}, notes
	}
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

// refusal converts the library's error. A merge conflict gets its own message, because the library reports the line after it.
func refusal(text []byte, line int, err error) Diagnostic {
	d := yamlDiagnostic(err)
	if d.Code != CodeInvalidYAML {
		return d
	}
	for l := range bytes.Lines(text) {
		if bytes.HasPrefix(l, []byte("<<<<<<< ")) {
			d.Detail, d.Line, d.Column = "an unresolved merge conflict starts here; keep one side and remove the conflict markers", line, 1
			break
		}
		if line == d.Line {
			d = tabRefused(d, strings.TrimRight(string(l), "\r\n"))
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
