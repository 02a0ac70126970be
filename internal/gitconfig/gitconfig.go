// Package gitconfig reads git's configuration files, to find the paths that git obeys.
package gitconfig

import (
	"iter"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Variables yields the variables of a file in order. A name is SECTION.KEY or
// SECTION.SUBSECTION.KEY, with section and key in lower case. Git stops at the first syntax error.
// Variables continues with the next line, so that it yields all that git could read.
func Variables(text string) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		r := reader{rest: strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n")}
		section := ""
		for {
			r.skip(" \t\n\r")
			switch c := r.peek(); {
			case c == 0 && r.rest == "":
				return
			case c == '#' || c == ';':
				r.line()
			case c == '[':
				if s, ok := r.section(); ok {
					section = s
				} else {
					r.line()
				}
			default:
				key := strings.ToLower(r.while(isKey))
				r.skip(" \t")
				if key == "" || r.peek() != '=' { // an error, or true
					r.line()
					continue
				}
				r.rest = r.rest[1:]
				if !yield(section+"."+key, r.value()) {
					return
				}
			}
		}
	}
}

// The lines of a file as git writes them. A value ends with its line, and has no tab, which older
// versions of git read as a space.
var (
	empty    = regexp.MustCompile(`^[ \t]*([#;].*)?$`)
	heading  = regexp.MustCompile(`^\[([A-Za-z0-9-]+)( "([^"\\]*)")?\]$`)
	variable = regexp.MustCompile(`^[ \t]*([A-Za-z][A-Za-z0-9-]*)([ \t]*=[^\t]*)?$`)
)

// Names returns the names of the variables in a file, as Variables does. ok is false unless the file
// is as git itself writes files. So nothing in it can mean something else to another version of git.
func Names(text string) (names []string, ok bool) {
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.ContainsFunc(line, func(c rune) bool { return c < ' ' && c != '\t' || c == utf8.RuneError }) || strings.HasSuffix(line, `\`) {
			return nil, false
		}
		if empty.MatchString(line) {
			continue
		}
		if h := heading.FindStringSubmatch(line); h != nil {
			if section = strings.ToLower(h[1]); h[2] != "" {
				section += "." + h[3]
			}
			continue
		}
		v := variable.FindStringSubmatch(line)
		if v == nil || section == "" {
			return nil, false
		}
		names = append(names, section+"."+strings.ToLower(v[1]))
	}
	return names, true
}

type reader struct{ rest string }

// peek returns the next byte, or 0 at the end.
func (r *reader) peek() byte {
	if r.rest == "" {
		return 0
	}
	return r.rest[0]
}

func (r *reader) skip(set string) { r.rest = strings.TrimLeft(r.rest, set) }

// line skips the rest of the line.
func (r *reader) line() { _, r.rest, _ = strings.Cut(r.rest, "\n") }

func (r *reader) while(is func(byte) bool) string {
	n := 0
	for n < len(r.rest) && is(r.rest[n]) {
		n++
	}
	s := r.rest[:n]
	r.rest = r.rest[n:]
	return s
}

func isKey(c byte) bool {
	return c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// section reads [name], [name.sub], or [name "sub"].
func (r *reader) section() (string, bool) {
	r.rest = r.rest[1:]
	name := strings.ToLower(r.while(func(c byte) bool { return isKey(c) || c == '.' }))
	if r.peek() == ']' {
		r.rest = r.rest[1:]
		return name, true
	}
	r.skip(" \t\r")
	if r.peek() != '"' {
		return "", false
	}
	r.rest = r.rest[1:]
	var sub strings.Builder
	for r.rest != "" {
		c := r.rest[0]
		r.rest = r.rest[1:]
		switch c {
		case '\n':
			return "", false
		case '"':
			ok := r.peek() == ']'
			if ok {
				r.rest = r.rest[1:]
			}
			return name + "." + sub.String(), ok
		case '\\':
			if c = r.peek(); c == 0 || c == '\n' {
				return "", false
			}
			r.rest = r.rest[1:]
		}
		sub.WriteByte(c)
	}
	return "", false
}

// value reads a value to the end of its last line. Quotes may start and end anywhere in it.
func (r *reader) value() string {
	var b strings.Builder
	quoted, kept := false, 0 // what is kept without trailing space
	for r.rest != "" {
		c := r.rest[0]
		r.rest = r.rest[1:]
		space := false
		switch {
		case c == '\n':
			return b.String()[:kept]
		case c == '"':
			quoted, kept = !quoted, b.Len()
			continue
		case c == '\\' && r.rest != "":
			c = r.rest[0]
			r.rest = r.rest[1:]
			if c == '\n' {
				continue
			}
			if i := strings.IndexByte("ntb", c); i >= 0 {
				c = "\n\t\b"[i]
			}
		case !quoted && (c == '#' || c == ';'):
			r.line()
			return b.String()[:kept]
		case !quoted && (c == ' ' || c == '\t' || c == '\r'):
			if b.Len() == 0 {
				continue
			}
			space = true
		}
		if b.WriteByte(c); !space {
			kept = b.Len()
		}
	}
	return b.String()[:kept]
}
