package skillmd

import (
	"strings"
	"unicode/utf8"
)

// flow reads a list or a map in brackets, which takes up the rest of the line that was skipped last.
func (p *plainReader) flow(rest string) (Value, bool) {
	f := flowReader{reader: p, s: rest}
	v, ok := f.value(0)
	return v, ok && f.at == len(rest)
}

// flowReader reads what stands in brackets: texts in quotes, words, and more brackets.
type flowReader struct {
	reader *plainReader
	s      string
	at     int
}

// next skips blanks and gives the byte there; 0 is the end.
func (f *flowReader) next() byte {
	for f.at < len(f.s) && f.s[f.at] == ' ' {
		f.at++
	}
	if f.at == len(f.s) {
		return 0
	}
	return f.s[f.at]
}

// value reads one value. Commas stand between values only, never behind the last one.
func (f *flowReader) value(depth int) (v Value, ok bool) {
	if f.reader.items++; f.reader.items > plainItems || depth > plainDepth {
		return v, false
	}
	open := f.next()
	if open != '[' && open != '{' {
		return f.scalar()
	}
	closing := open + 2 // in ASCII
	v.Kind = List
	if open == '{' {
		v.Kind = Map
	}
	f.at++
	if f.next() == closing {
		f.at++
		if v.List = []Value{}; open == '{' {
			v.List, v.Map = nil, []Field{}
		}
		return v, true
	}
	for {
		if open == '{' {
			field, ok := f.key(v.Map)
			if !ok {
				return v, false
			}
			if field.Value, ok = f.value(depth + 1); !ok {
				return v, false
			}
			v.Map = append(v.Map, field)
		} else {
			item, ok := f.value(depth + 1)
			if !ok {
				return v, false
			}
			v.List = append(v.List, item)
		}
		c := f.next()
		f.at++
		if c == closing {
			return v, true
		}
		if c != ',' {
			return v, false
		}
	}
}

// key reads a key with its colon. Behind a key in quotes the value may follow at once; otherwise a blank stands between.
func (f *flowReader) key(before []Field) (field Field, ok bool) {
	quoted := f.next() == '"' || f.next() == '\''
	field.Line, field.Column = f.reader.line-1, f.reader.column+utf8.RuneCountInString(f.s[:f.at])
	start := f.at
	k, ok := f.scalar()
	if !ok || f.at-start > 100 || f.at == len(f.s) || f.s[f.at] != ':' { // YAML has a limit for keys, of 1,024
		return field, false
	}
	f.at++
	if _, twice := lookup(before, k.Text); twice || !quoted && f.at < len(f.s) && f.s[f.at] != ' ' {
		return field, false
	}
	field.Key = k.Text
	return field, true
}

// scalar reads a text in quotes or words: what starts with a letter or a digit and holds nothing that means anything in brackets.
func (f *flowReader) scalar() (Value, bool) {
	switch c := f.next(); {
	case c == '"' || c == '\'':
		text, n := plainQuoted(f.s[f.at:])
		f.at += n
		return Value{Text: text}, n > 0
	case c < '0' || c > '9' && c < 'A' || c > 'Z' && c < 'a' || c > 'z':
		return Value{}, false
	}
	rest := f.s[f.at:]
	n := strings.IndexAny(rest, ",[]{}:#?\"'&*!|>%@`\\")
	if n < 0 || rest[n] != ',' && rest[n] != ']' && rest[n] != '}' && rest[n] != ':' {
		return Value{}, false
	}
	f.at += n
	return plainScalar(strings.TrimRight(rest[:n], " "))
}
