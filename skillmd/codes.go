package skillmd

import "fmt"

// Severity ranks a [Diagnostic].
type Severity string

const (
	Error   Severity = "error"   // the file or the field cannot be used
	Warning Severity = "warning" // usable, but something was cut, skipped, or ignored
	Advice  Severity = "advice"  // usable; a suggestion
)

// Diagnostic is one finding about a file. Its JSON names are stable.
type Diagnostic struct {
	Severity Severity `json:"severity"`
	Code     string   `json:"code"`   // a Code constant of this package, or a code of a later stage
	Detail   string   `json:"detail"` // for people: the problem and its fix
	Path     string   `json:"path,omitempty"`
	Line     int      `json:"line,omitempty"`   // 1-based, in the file
	Column   int      `json:"column,omitempty"` // 1-based, in characters
}

// At returns the path of a diagnostic, with line and column if they are set.
func (d Diagnostic) At() string {
	if d.Line == 0 {
		return d.Path
	}
	return fmt.Sprintf("%s:%d:%d", d.Path, d.Line, d.Column)
}

// Codes of the diagnostics that [Parse] and [ParseHead] return. They are stable: their names and meanings never change.
const (
	// About the whole file.
	CodeEmptyFile = "empty-file" // error: no bytes, or only white space
	CodeNotUTF8   = "not-utf8"   // error in the frontmatter or for UTF-16; warning in the body
	CodeNUL       = "nul-byte"   // error in the frontmatter; warning in the body

	// About the start and end of the frontmatter.
	CodeNoFrontmatter       = "no-frontmatter"          // warning: the first line is not ---; the whole file is body
	CodeUnclosedFrontmatter = "unclosed-frontmatter"    // error: no closing --- line; the whole file is body
	CodeFrontmatterTooLarge = "frontmatter-too-large"   // error: no closing --- line within MaxHead bytes
	CodeFrontmatterEmpty    = "frontmatter-empty"       // warning: nothing between the two lines
	CodeFrontmatterNotMap   = "frontmatter-not-mapping" // error: a list or text instead of key: value lines

	// About its YAML. All are errors: no field is read from such a block.
	CodeInvalidYAML      = "invalid-yaml"
	CodeControlCharacter = "control-character"
	CodeDuplicateKey     = "duplicate-key"
	CodeComplexKey       = "yaml-complex-key-refused"
	CodeAlias            = "yaml-alias-refused"
	CodeAnchor           = "yaml-anchor-refused"
	CodeTag              = "yaml-tag-refused"
	CodeDirective        = "yaml-directive-refused"
	CodeMergeKey         = "yaml-merge-key-refused"
	CodeSecondDocument   = "yaml-second-document-refused"
	CodeTooDeep          = "yaml-too-deep"
	CodeTooManyValues    = "yaml-too-many-values"

	// About one field.
	CodeFieldType     = "field-type"     // warning: the typed field ignores a value of this kind; the value itself is kept
	CodeMisspeltField = "misspelt-field" // advice: an unknown key similar to a known one; its value has no effect

	// Repairs. All are warnings: the file is invalid and was read as described. See [Diagnostic.Repair].
	CodeUnquotedColon       = "unquoted-colon"        // ": " inside an unquoted value; read as text
	CodeUnquotedIndicator   = "unquoted-indicator"    // an unquoted value starts with *, @, `, or a similar character; read as text
	CodeTextAfterFlow       = "text-after-flow"       // text after [a list] or {a map} on its line; all of it read as text
	CodeLooseJSON           = "loose-json"            // comments or extra commas in [a list] or {a map}; ignored
	CodeSurrogateEscape     = "surrogate-escape"      // a character escaped as two \u; read as one character
	CodeUnreadableField     = "unreadable-field"      // the value cannot be parsed; kept as text, or empty for allowed-tools
	CodeFencedFrontmatter   = "fenced-frontmatter"    // the opening --- is in a code fence; the fence's first line is skipped
	CodeFrontmatterNotFirst = "frontmatter-not-first" // blank lines, comments, or headings before the opening ---; skipped
	CodeClosingLineMissing  = "closing-line-missing"  // the frontmatter ends at the start of the text
)

// notYAML lists the codes of text that is not YAML of key: value lines.
var notYAML = map[string]bool{
	CodeInvalidYAML: true, CodeControlCharacter: true, CodeDuplicateKey: true, CodeComplexKey: true, CodeAlias: true, CodeAnchor: true, CodeTag: true,
	CodeDirective: true, CodeMergeKey: true, CodeSecondDocument: true, CodeTooDeep: true, CodeTooManyValues: true, CodeFrontmatterNotMap: true,
}

// NotYAML reports whether the finding means that the frontmatter is not valid YAML, so that no field is read from it.
func (d Diagnostic) NotYAML() bool { return d.Severity == Error && notYAML[d.Code] }

// repairs lists the codes of invalid text that was read anyway.
var repairs = map[string]bool{
	CodeUnquotedColon: true, CodeUnquotedIndicator: true, CodeTextAfterFlow: true, CodeLooseJSON: true, CodeSurrogateEscape: true,
	CodeUnreadableField: true, CodeFencedFrontmatter: true, CodeFrontmatterNotFirst: true, CodeClosingLineMissing: true,
}

// Repair reports whether the finding is a repair. Strict readers reject such frontmatter, and strict validation refuses it.
func (d Diagnostic) Repair() bool { return repairs[d.Code] }
