package reference

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"metier/internal/yaml"
)

// Limits of ours; skills-ref has none, or dies at them.
const (
	maxFile  = 16 << 20 // bytes of a SKILL.md
	maxYAML  = 1 << 20  // bytes of its frontmatter
	maxDepth = 90       // about where Python's recursion ends
	maxNodes = 100_000
)

// fields is the frontmatter in source order.
type fields []yaml.Entry

func (f fields) get(key string) *yaml.Node {
	for _, e := range f {
		if e.Key.Text == key {
			return e.Value
		}
	}
	return nil
}

// read gives a file as Python's read_text does: UTF-8, every line end a newline.
func read(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a regular file; the reference validator fails or hangs on it", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return "", err
	case len(b) > maxFile:
		return "", fmt.Errorf("%s is longer than %d bytes", path, maxFile)
	case !utf8.Valid(b):
		return "", fmt.Errorf("%s is not UTF-8; the reference validator ends with an exception (UnicodeDecodeError) on it", path)
	}
	return strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(b)), nil
}

// parse gives the frontmatter of a file, or the message of skills-ref why there is none, or an error where it crashes.
func parse(content string) (f fields, message string, err error) {
	if !strings.HasPrefix(content, "---") {
		return nil, "SKILL.md must start with YAML frontmatter (---)", nil
	}
	parts := strings.SplitN(content, "---", 3)
	if len(parts) < 3 {
		return nil, "SKILL.md frontmatter not properly closed with ---", nil
	}
	text := parts[1]
	if i := strings.IndexFunc(text, unprintable); i >= 0 {
		r, _ := utf8.DecodeRuneInString(text[i:])
		return nil, "", fmt.Errorf("SKILL.md frontmatter holds the control character U+%04X on line %d; the reference validator ends with an exception (AttributeError) on it",
			r, 1+strings.Count(text[:i], "\n"))
	}
	n, yerr := yaml.Parse([]byte(text), &yaml.Options{MaxBytes: maxYAML, MaxDepth: maxDepth, MaxNodes: maxNodes})
	if yerr == nil {
		yerr = strict(n)
	}
	if e, ok := errors.AsType[*yaml.Error](yerr); ok {
		return nil, fmt.Sprintf("Invalid YAML in frontmatter: line %d, column %d: %s", e.Line, e.Column, e.Msg), nil
	}
	if n.Kind != yaml.Map {
		return nil, "SKILL.md frontmatter must be a YAML mapping", nil
	}
	return n.Entries, "", nil
}

// unprintable reports the characters that the reader of strictyaml refuses.
func unprintable(r rune) bool {
	switch {
	case r == '\t', r == '\n', r == '\r', r == 0x85:
		return false
	case r < 0x20, r >= 0x7f && r < 0xa0:
		return true
	}
	return r == 0xfffe || r == 0xffff
}

// strict refuses what strictyaml refuses beyond what the YAML package does: lists and maps in brackets, and maps in one map
// that are indented differently.
func strict(n *yaml.Node) error {
	refuse := func(at *yaml.Node, msg string) error {
		return &yaml.Error{Line: at.Line, Column: at.Column, Code: yaml.Syntax, Msg: msg}
	}
	if n.Style == yaml.Flow {
		return refuse(n, "a list or map in brackets is not accepted here; put it in quotes or on lines of its own")
	}
	for _, item := range n.Items {
		if err := strict(item); err != nil {
			return err
		}
	}
	column := 0
	for _, e := range n.Entries {
		if err := strict(e.Value); err != nil {
			return err
		}
		if e.Value.Kind != yaml.Map {
			continue
		}
		if column != 0 && e.Value.Column != column {
			return refuse(e.Value, fmt.Sprintf("this map is indented differently from the one before (column %d)", column))
		}
		column = e.Value.Column
	}
	return nil
}

// blank reports what Python sees as no string, or one without text.
func blank(n *yaml.Node) bool { return n.Kind != yaml.Scalar || strip(n.Text) == "" }

// strip is Python's: white space, and the four separators U+001C to U+001F.
func strip(s string) string {
	return strings.TrimFunc(s, func(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f })
}
