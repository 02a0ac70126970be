package skillmd

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// misplaced reports whether a line below the key of an entry is probably a field that was indented by mistake. As text of the
// entry, the field would be lost. A name is never more than one line. In other values, a known field counts if the block does not
// have it elsewhere, and after a tab, any key in lower case, because prose in YAML is not indented with tabs.
func (r *repairer) misplaced(e entry) bool {
	for i := e.from + 1; i < e.last; i++ {
		line := r.lines[i]
		text := strings.TrimLeft(line, " \t")
		key, _ := keyOf([]byte(text))
		elsewhere := slices.ContainsFunc(r.all, func(o entry) bool { return o.key == key })
		switch {
		case key == "":
		case e.key == "name", slices.Contains(allFields, key) && !elsewhere, tabbed(line) && key == strings.ToLower(key):
			r.indented = []Diagnostic{{Severity: Error, Code: CodeInvalidYAML, Line: r.firstLine + i, Column: len(line) - len(text) + 1,
				Detail: fmt.Sprintf("%s is indented, so it is part of the value of %s and not a field; remove the indentation, or quote the value of %s", key, e.key, e.key)}}
			return true
		}
	}
	return false
}

// tabbed reports whether a line is indented with a tab.
func tabbed(line string) bool {
	return strings.Contains(line[:len(line)-len(strings.TrimLeft(line, " \t"))], "\t")
}

// tabRefused returns the finding for a line that YAML refuses because of the tab before it.
func tabRefused(d Diagnostic, line string) Diagnostic {
	if !tabbed(line) || d.Column > utf8.RuneCountInString(line)-utf8.RuneCountInString(strings.TrimLeft(line, " \t"))+1 {
		return d
	}
	d.Detail = "the line is indented with a tab, which YAML does not allow; indent it with spaces"
	if key, _ := keyOf([]byte(strings.TrimLeft(line, " \t"))); slices.Contains(allFields, key) {
		d.Detail += fmt.Sprintf("; if %s is a field, remove the tab", key)
	}
	return d
}
