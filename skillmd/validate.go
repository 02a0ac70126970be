package skillmd

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"metier/internal/nfkc"
	"metier/internal/yaml"
)

// The limits of the specification, in characters.
const (
	MaxName          = 64
	MaxDescription   = 1024
	MaxCompatibility = 500
)

// The recommended maximum length of instructions in the specification. A token is estimated as four bytes.
const (
	adviceLines  = 500
	adviceTokens = 5000
	tokenBytes   = 4
)

// Codes of the diagnostics that only [Validate] returns, besides CodeMisspeltField. A value of the wrong type is CodeFieldType, an error here.
const (
	CodeMissingName       = "missing-name"            // error: missing or empty
	CodeMissingDesc       = "missing-description"     // error: likewise
	CodeDescTooLong       = "description-too-long"    // error
	CodeCompatTooLong     = "compatibility-too-long"  // error
	CodeCompatEmpty       = "compatibility-empty"     // error
	CodeUnexpectedField   = "unexpected-field"        // error: a field the specification does not define
	CodeInvalidName       = "invalid-name"            // error
	CodeNameMismatch      = "name-directory-mismatch" // error
	CodeNamePortable      = "name-not-portable"       // warning: allowed by the specification, refused by the reference validator
	CodeToolsSeparator    = "allowed-tools-separator" // warning: commas between tools
	CodeBrokenLink        = "broken-link"             // warning: the target of a relative link does not exist
	CodeLinkLeaves        = "link-leaves-skill"       // warning: a link out of the folder
	CodeMissingResource   = "missing-resource"        // advice: a path in backticks that does not exist
	CodeDescriptionWhen   = "description-when"        // advice: does not say when to use the skill
	CodeDescriptionShort  = "description-short"       // advice
	CodeLongInstructions  = "long-instructions"       // advice: 500 lines or more
	CodeManyTokens        = "many-tokens"             // advice: more than 5,000 tokens, at four bytes each
	CodeLinksUnseen       = "links-not-looked-at"     // advice: the rest of long instructions is not checked for links
	CodeMoreOfTheSameKind = "more"                    // advice: further findings of the same kind were omitted
)

// Folder describes the folder of a file for [Validate].
type Folder struct {
	Name string                 // its name, which must match the skill's; "" skips this check
	Has  func(path string) bool // whether a file or folder exists, by a path with slashes; nil skips the check of links
}

// Validate checks a SKILL.md strictly against the Agent Skills specification ("Frontmatter", "Progressive disclosure", "File
// references"). A file that loads only after repair is invalid. The skill is valid if no diagnostic is an error. Details of
// errors are the messages of the reference validator if it has one. Details quote text of the file, which is untrusted.
func Validate(src []byte, in Folder) []Diagnostic {
	v := validator{in: in}
	s := split(src, true)
	if fields, ok := v.front(src, s); ok {
		v.fields(fields)
	}
	if len(v.diags) > 0 && v.diags[0].Code == CodeNotUTF8 {
		return v.diags
	}
	v.body(src[s.body:], s.bodyLine)
	return v.diags
}

// validator collects the findings on one file.
type validator struct {
	in    Folder
	diags []Diagnostic
}

func (v *validator) add(severity Severity, code string, line, column int, format string, args ...any) {
	v.diags = append(v.diags, Diagnostic{Severity: severity, Code: code, Line: line, Column: column, Detail: fmt.Sprintf(format, args...)})
}

func (v *validator) fault(code string, f Field, format string, args ...any) {
	v.add(Error, code, f.Line, f.Column, format, args...)
}

// front returns the fields, or reports why they cannot be read.
func (v *validator) front(src []byte, s span) ([]Field, bool) {
	if p := s.problem; p != nil {
		detail := p.Detail
		switch p.Code {
		case CodeNoFrontmatter, CodeEmptyFile:
			detail = "SKILL.md must start with YAML frontmatter (---)"
		case CodeUnclosedFrontmatter:
			detail = "SKILL.md frontmatter not properly closed with ---"
		}
		v.add(Error, p.Code, p.Line, p.Column, "%s", detail)
		return nil, false
	}
	if len(s.notes) > 0 { // a lenient reader skips text before the frontmatter
		v.add(Error, s.notes[0].Code, s.notes[0].Line, s.notes[0].Column, "SKILL.md must start with YAML frontmatter (---)")
		return nil, false
	}
	n, err := yaml.Parse(src[s.start:s.end], &yaml.Options{MaxBytes: MaxHead, FirstLine: 2})
	if e, ok := errors.AsType[*yaml.Error](err); ok {
		code, known := yamlCodes[e.Code]
		if !known {
			code = CodeInvalidYAML
		}
		line, column, why := e.Line, e.Column, e.Msg
		if _, read := parseYAML(src[s.start:s.end], 2); len(read) == 1 && read[0].Code == CodeInvalidYAML { // a reader knows better what to change
			line, column, why = read[0].Line, read[0].Column, read[0].Detail
		}
		v.add(Error, code, line, column, "Invalid YAML in frontmatter: line %d, column %d: %s", line, column, why)
		return nil, false
	}
	if n.Kind != yaml.Map {
		code := CodeFrontmatterNotMap
		if n.Null() {
			code = CodeFrontmatterEmpty
		}
		v.add(Error, code, n.Line, n.Column, "SKILL.md frontmatter must be a YAML mapping")
		return nil, false
	}
	return fieldsOf(n), true
}

// specified lists the fields that the specification defines, sorted.
var specified = []string{"allowed-tools", "compatibility", "description", "license", "metadata", "name"}

func (v *validator) fields(fields []Field) {
	v.unexpected(fields)
	at := map[string]Field{}
	for _, f := range fields {
		at[f.Key] = f
	}
	if f, ok := at["name"]; ok {
		v.name(f)
	} else {
		v.add(Error, CodeMissingName, 1, 1, "Missing required field in frontmatter: name")
	}
	if f, ok := at["description"]; ok {
		v.description(f, at)
	} else {
		v.add(Error, CodeMissingDesc, 1, 1, "Missing required field in frontmatter: description")
	}
	if f, ok := at["compatibility"]; ok && v.isText(f) {
		if strings.TrimSpace(textOf(f.Value)) == "" {
			v.fault(CodeCompatEmpty, f, "Field 'compatibility' must be a non-empty string")
		}
		v.tooLong(CodeCompatTooLong, f, "Compatibility", f.Value.Text, MaxCompatibility)
	}
	if f, ok := at["license"]; ok {
		v.isText(f)
	}
	if f, ok := at["allowed-tools"]; ok && v.isText(f) && len(splitList(nil, f.Value.Text, ",")) > 1 {
		v.add(Warning, CodeToolsSeparator, f.Line, f.Column, "allowed-tools has commas between tools; separate them with spaces")
	}
	if f, ok := at["metadata"]; ok {
		v.metadata(f)
	}
}

// unexpected reports undefined fields, all in one message like the reference validator, and suggests defined ones.
func (v *validator) unexpected(fields []Field) {
	var names []string
	var first Field
	var meant []Diagnostic
	for _, f := range fields {
		if slices.Contains(specified, f.Key) {
			continue
		}
		if names = append(names, f.Key); len(names) == 1 {
			first = f
		}
		known := meantField(f.Key)
		if slices.Contains(specified, known) && !slices.ContainsFunc(fields, func(other Field) bool { return other.Key == known }) {
			meant = append(meant, Diagnostic{Severity: Advice, Code: CodeMisspeltField, Line: f.Line, Column: f.Column,
				Detail: fmt.Sprintf("field %q: did you mean %s?", f.Key, known)})
		}
	}
	if len(names) > 0 {
		slices.Sort(names)
		v.fault(CodeUnexpectedField, first, "Unexpected fields in frontmatter: %s. Only ['%s'] are allowed.",
			strings.Join(names, ", "), strings.Join(specified, "', '"))
	}
	v.diags = append(v.diags, meant...)
}

// isText reports whether a value is a scalar. Null counts as empty text.
func (v *validator) isText(f Field) bool {
	if f.Value.Kind == List || f.Value.Kind == Map {
		v.fault(CodeFieldType, f, "Field '%s' must be a string", f.Key)
		return false
	}
	return true
}

// textOf returns the text of a scalar, and "" for null.
func textOf(v Value) string {
	if v.Kind == Text || v.Kind == Bool {
		return v.Text
	}
	return ""
}

func (v *validator) tooLong(code string, f Field, what, text string, most int) {
	if n := utf8.RuneCountInString(text); n > most {
		v.fault(code, f, "%s exceeds %d character limit (%d chars)", what, most, n)
	}
}

func (v *validator) name(f Field) {
	name := nfkc.String(strings.TrimSpace(textOf(f.Value)))
	if name == "" {
		v.fault(CodeMissingName, f, "Field 'name' must be a non-empty string")
		return
	}
	v.tooLong(CodeInvalidName, f, "Skill name '"+name+"'", name, MaxName)
	if name != strings.ToLower(name) {
		v.fault(CodeInvalidName, f, "Skill name '%s' must be lowercase", name)
	}
	if strings.HasPrefix(name, "-") || strings.HasSuffix(name, "-") {
		v.fault(CodeInvalidName, f, "Skill name cannot start or end with a hyphen")
	}
	if strings.Contains(name, "--") {
		v.fault(CodeInvalidName, f, "Skill name cannot contain consecutive hyphens")
	}
	switch bad, marks := characters(name); {
	case bad:
		v.fault(CodeInvalidName, f, "Skill name '%s' contains invalid characters. Only letters, digits, and hyphens are allowed.", name)
	case marks:
		v.add(Warning, CodeNamePortable, f.Line, f.Column, "Skill name '%s' has combining marks, which the reference validator rejects", name)
	}
	if v.in.Name != "" && nfkc.String(v.in.Name) != name {
		v.fault(CodeNameMismatch, f, "Directory name '%s' must match skill name '%s'", v.in.Name, name)
	}
}

// characters reports whether a name has characters other than letters, digits, and hyphens. A mark that follows a letter is
// part of it, because words in Devanagari or Tamil need marks.
func characters(name string) (bad, marks bool) {
	letter := false
	for _, r := range name {
		switch {
		case unicode.IsLetter(r):
			letter = true
		case unicode.IsMark(r) && letter:
			marks = true
		case unicode.IsNumber(r) || r == '-':
			letter = false
		default:
			bad, letter = true, false
		}
	}
	return bad, marks
}

// uses lists words by which a description says when to use its skill.
var uses = []string{"when", "use for", "use to", "if the user"}

func (v *validator) description(f Field, at map[string]Field) {
	text := textOf(f.Value)
	if strings.TrimSpace(text) == "" {
		v.fault(CodeMissingDesc, f, "Field 'description' must be a non-empty string")
		return
	}
	v.tooLong(CodeDescTooLong, f, "Description", text, MaxDescription)
	if len(strings.TrimSpace(text)) < 20 {
		v.add(Advice, CodeDescriptionShort, f.Line, f.Column, "the description is too short for a model to tell when to use the skill; describe what the skill does and when to use it")
	}
	for _, key := range []string{"when_to_use", "when-to-use", "triggers"} {
		if _, ok := at[key]; ok {
			return
		}
	}
	low := strings.ToLower(text)
	if !slices.ContainsFunc(uses, func(w string) bool { return strings.Contains(low, w) }) {
		v.add(Advice, CodeDescriptionWhen, f.Line, f.Column, `the description does not say when to use the skill; add a sentence such as "Use when …"`)
	}
}

func (v *validator) metadata(f Field) {
	const want = "Field 'metadata' must be a mapping of strings to strings"
	switch f.Value.Kind {
	case Null:
	case Map:
		for _, m := range f.Value.Map {
			if m.Value.Kind == List || m.Value.Kind == Map {
				v.fault(CodeFieldType, m, "%s; '%s' holds %s", want, m.Key, m.Value.Kind)
			}
		}
	default:
		v.fault(CodeFieldType, f, "%s", want)
	}
}
