package skillmd

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
	CodeFieldType = "field-type" // warning: the field's typed view ignores a value of this kind; the value itself is kept
)
