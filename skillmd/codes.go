package skillmd

import "fmt"

// Severity ranks a [Diagnostic].
type Severity string

const (
	Error   Severity = "error"   // the thing named cannot be used as it is
	Warning Severity = "warning" // usable, but something was cut, skipped or ignored
	Advice  Severity = "advice"  // usable; it could be better
)

// Diagnostic is one finding about a file. Its JSON names are a promise to scripts.
type Diagnostic struct {
	Severity Severity `json:"severity"`
	Code     string   `json:"code"`   // one of the Code constants here, or one of a later stage
	Detail   string   `json:"detail"` // a sentence for people: what is wrong and how to mend it
	Path     string   `json:"path,omitempty"`
	Line     int      `json:"line,omitempty"`   // 1-based, in the file
	Column   int      `json:"column,omitempty"` // 1-based, in characters
}

// At returns the path of a diagnostic, with line and column if there are any.
func (d Diagnostic) At() string {
	if d.Line == 0 {
		return d.Path
	}
	return fmt.Sprintf("%s:%d:%d", d.Path, d.Line, d.Column)
}

// Codes of the diagnostics that [Parse] and [ParseHead] give. They are stable: none is renamed or given another meaning.
const (
	// About the whole file.
	CodeEmptyFile = "empty-file" // error: no bytes, or only white space
	CodeNotUTF8   = "not-utf8"   // error in the frontmatter or for UTF-16; warning in the body
	CodeNUL       = "nul-byte"   // error in the frontmatter; warning in the body

	// About where the frontmatter starts and ends.
	CodeNoFrontmatter       = "no-frontmatter"          // warning: the first line is not ---; the whole file is body
	CodeUnclosedFrontmatter = "unclosed-frontmatter"    // error: no closing --- line; the whole file is body
	CodeFrontmatterTooLarge = "frontmatter-too-large"   // error: no closing --- line within MaxHead bytes
	CodeFrontmatterEmpty    = "frontmatter-empty"       // warning: nothing between the two lines
	CodeFrontmatterNotMap   = "frontmatter-not-mapping" // error: a list or a text, not key: value lines

	// About its YAML, all errors: no field is taken from such a block.
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
	CodeFieldType     = "field-type"     // warning: the field's typed view ignores a value of this kind; the value itself is kept
	CodeMisspeltField = "misspelt-field" // advice: an unknown key that is nearly a known one; its value has no effect

	// Repairs, all warnings: the file is not right, and this is how it was read. See [Diagnostic.Repair].
	CodeUnquotedColon       = "unquoted-colon"        // ": " inside an unquoted value; taken as text
	CodeUnquotedIndicator   = "unquoted-indicator"    // an unquoted value starts with *, @, ` or the like; taken as text
	CodeTextAfterFlow       = "text-after-flow"       // text after [a list] or {a map} on its line; all of it taken as text
	CodeLooseJSON           = "loose-json"            // comments or commas too many in [a list] or {a map}; left out
	CodeSurrogateEscape     = "surrogate-escape"      // a character escaped as two \u; taken as the one character
	CodeUnreadableField     = "unreadable-field"      // the value cannot be read; kept as text, and empty for allowed-tools
	CodeFencedFrontmatter   = "fenced-frontmatter"    // the opening --- stands in a code fence; the fence's first line was skipped
	CodeFrontmatterNotFirst = "frontmatter-not-first" // blank lines, comments or headings before the opening ---; skipped
	CodeClosingLineMissing  = "closing-line-missing"  // the frontmatter was taken to end where the text starts
)

// notYAML are the codes of text that is no YAML of key: value lines.
var notYAML = map[string]bool{
	CodeInvalidYAML: true, CodeControlCharacter: true, CodeDuplicateKey: true, CodeComplexKey: true, CodeAlias: true, CodeAnchor: true, CodeTag: true,
	CodeDirective: true, CodeMergeKey: true, CodeSecondDocument: true, CodeTooDeep: true, CodeTooManyValues: true, CodeFrontmatterNotMap: true,
}

// NotYAML reports that the finding is a frontmatter that is not the YAML it has to be, so that no field is taken from it.
func (d Diagnostic) NotYAML() bool { return d.Severity == Error && notYAML[d.Code] }

// repairs are the codes of what was read although it is not right.
var repairs = map[string]bool{
	CodeUnquotedColon: true, CodeUnquotedIndicator: true, CodeTextAfterFlow: true, CodeLooseJSON: true, CodeSurrogateEscape: true,
	CodeUnreadableField: true, CodeFencedFrontmatter: true, CodeFrontmatterNotFirst: true, CodeClosingLineMissing: true,
}

// Repair reports that the finding is a repair: no strict reader takes the frontmatter as it stands. Who judges strictly refuses it.
func (d Diagnostic) Repair() bool { return repairs[d.Code] }
