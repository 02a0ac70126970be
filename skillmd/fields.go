package skillmd

import (
	"fmt"
	"strings"
)

// fill sets the typed fields from Fields and reports values of the wrong type.
func (f *Front) fill() []Diagnostic {
	var r reader
	for _, field := range f.Fields {
		f.take(&r, field)
	}
	return r.diags
}

func (f *Front) take(r *reader, field Field) {
	switch field.Key {
	case "name":
		f.Name = r.text(field)
		f.HasName = f.Name != ""
	case "description":
		f.Description = r.text(field)
		f.HasDescription = f.Description != ""
	case "license":
		f.License = r.text(field)
	case "compatibility":
		f.Compatibility = r.text(field)
	case "metadata":
		f.Metadata = r.mapping(field)
		for _, m := range f.Metadata {
			switch m.Key {
			case "dependencies":
				f.Dependencies = append(f.Dependencies, dependencies(m.Value, "")...)
			case "requires":
				f.Requires = append(f.Requires, r.requires("metadata.requires", m)...)
			}
		}
	case "dependencies":
		f.Dependencies = append(f.Dependencies, dependencies(field.Value, "")...)
	case "allowed-tools":
		f.AllowedToolsDeclared = true
		f.AllowedTools = r.list(field, " \t\r\n,")
	case "when_to_use", "when-to-use":
		f.WhenToUse = r.text(field)
	case "argument-hint":
		f.ArgumentHint = r.hint(field)
	case "arguments":
		f.Arguments = r.list(field, " \t\r\n,")
	case "hooks":
		f.Hooks = r.mapping(field)
	case "effort":
		f.Effort = r.text(field)
	case "shell":
		f.Shell = r.text(field)
	case "model":
		f.Model = r.text(field)
	case "context":
		f.Context = r.text(field)
	case "agent":
		f.Agent = r.text(field)
	case "disable-model-invocation":
		if b := r.flag(field); b != nil {
			f.DisableModelInvocation = *b
		}
	case "user-invocable":
		f.UserInvocable = r.flag(field)
	case "paths":
		f.Paths = r.list(field, ",\n")
	case "platforms":
		f.Platforms = r.list(field, " \t\r\n,")
	default:
		if r.quiet {
			return
		}
		if known := meantField(field.Key); known != "" {
			r.diags = append(r.diags, Diagnostic{Severity: Advice, Code: CodeMisspeltField, Line: field.Line, Column: field.Column,
				Detail: fmt.Sprintf("%q is not a known field and has no effect; did you mean %s?", field.Key, known)})
		}
	}
}

// reader converts values to typed ones and collects findings about the others.
type reader struct {
	diags []Diagnostic
	quiet bool // collect no findings
}

func (r *reader) refuse(f Field, want string) {
	if r.quiet {
		return
	}
	r.diags = append(r.diags, Diagnostic{Severity: Warning, Code: CodeFieldType, Line: f.Line, Column: f.Column,
		Detail: fmt.Sprintf("%s must be %s, not %s; the value is kept but has no effect", f.Key, want, f.Value.Kind)})
}

func (r *reader) text(f Field) string {
	switch f.Value.Kind {
	case Text, Bool:
		return strings.TrimSpace(f.Value.Text)
	case List, Map:
		r.refuse(f, "text")
	}
	return ""
}

func (r *reader) mapping(f Field) []Field {
	switch f.Value.Kind {
	case Map:
		return f.Value.Map
	case Null:
	default:
		r.refuse(f, "a map")
	}
	return nil
}

// flag reads a boolean. The texts "true" and "false" also count, because templates quote them.
func (r *reader) flag(f Field) *bool {
	if f.Value.Kind == Text || f.Value.Kind == Bool {
		switch strings.ToLower(strings.TrimSpace(f.Value.Text)) {
		case "true":
			return new(true)
		case "false":
			return new(false)
		}
	}
	if f.Value.Kind != Null {
		r.refuse(f, "true or false")
	}
	return nil
}

func (r *reader) list(f Field, separators string) []string {
	switch v := f.Value; v.Kind {
	case Text, Bool:
		return splitList(nil, v.Text, separators)
	case List:
		var out []string
		for _, item := range v.List {
			switch item.Kind {
			case Text, Bool:
				out = splitList(out, item.Text, separators)
			case List, Map:
				r.refuse(Field{Key: f.Key, Value: item, Line: f.Line, Column: f.Column}, "a list of texts")
			}
		}
		return out
	case Map:
		r.refuse(f, "text or a list of texts")
	}
	return nil
}

// hint reads argument-hint. YAML reads `argument-hint: [file]` as a list, but its author meant the brackets.
func (r *reader) hint(f Field) string {
	if f.Value.Kind != List {
		return r.text(f)
	}
	items := make([]string, 0, len(f.Value.List))
	for _, item := range f.Value.List {
		if item.Kind == List || item.Kind == Map {
			r.refuse(f, "text")
			return ""
		}
		items = append(items, item.Text)
	}
	return "[" + strings.Join(items, ", ") + "]"
}

// splitList splits s at separators outside (), [], and {}. Text after an unclosed bracket is not split.
func splitList(out []string, s, separators string) []string {
	depth, start := 0, 0
	add := func(end int) {
		if item := strings.TrimSpace(s[start:end]); item != "" {
			out = append(out, item)
		}
		start = end + 1
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c == '(' || c == '[' || c == '{':
			depth++
		case (c == ')' || c == ']' || c == '}') && depth > 0:
			depth--
		case depth == 0 && strings.IndexByte(separators, c) >= 0:
			add(i)
		}
	}
	add(len(s))
	return out
}

// dependencies flattens the forms in use: text, a list, and a map of lists or versions.
func dependencies(v Value, prefix string) []string {
	var out []string
	switch v.Kind {
	case Text, Bool:
		for _, item := range splitList(nil, v.Text, ",\n") {
			out = append(out, prefix+item)
		}
	case List:
		for _, item := range v.List {
			out = append(out, dependencies(item, prefix)...)
		}
	case Map:
		for _, f := range v.Map {
			if f.Value.Kind == Null {
				out = append(out, prefix+f.Key)
				continue
			}
			out = append(out, dependencies(f.Value, prefix+f.Key+": ")...)
		}
	}
	return out
}

// requires flattens the forms of metadata.requires: text, a list, and a map of skills to versions. In a map, the key skills can
// also contain one of these forms. Lists under other keys name programs and the like for other clients.
func (r *reader) requires(key string, f Field) []string {
	switch v := f.Value; v.Kind {
	case Text, Bool:
		return splitList(nil, v.Text, ",\n")
	case List:
		return r.list(Field{Key: key, Value: v, Line: f.Line, Column: f.Column}, ",\n")
	case Map:
		var out []string
		for _, m := range v.Map {
			switch k := m.Value.Kind; {
			case m.Key == "skills" && k != Null:
				out = append(out, r.requires(key+".skills", m)...)
			case k == List || k == Map:
				r.refuse(Field{Key: key + "." + m.Key, Value: m.Value, Line: m.Line, Column: m.Column}, "a version or a range of versions")
			default:
				out = append(out, strings.TrimSpace(m.Key+" "+m.Value.Text))
			}
		}
		return out
	}
	return nil
}

func (k Kind) String() string {
	switch k {
	case Null:
		return "nothing"
	case Bool:
		return "true or false"
	case List:
		return "a list"
	case Map:
		return "a map"
	}
	return "text"
}
