package record

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// form is one text that must not be stored. It is also found if some or all of its characters are
// escaped.
type form struct {
	name, text string
	fold       bool // in either case: hexadecimal digits
	wrap       bool // may be broken into lines, as encoded text is
}

// escapes are the bytes that start an escape.
var escapes = [256]bool{'%': true, '\\': true, '&': true, '=': true, '+': true, '\'': true}

// matcher finds forms at one position of a text. Escapes can be read in more than one way, so it
// tracks all offsets at which each byte of a form may begin.
type matcher struct {
	at    [utf8.UTFMax + 1][]int
	units []unit
	forms []int
}

// unit is one way to read the next characters: n bytes of the content represent m bytes of a form.
type unit struct{ n, m int }

// match returns the length of the longest spelling of f at the start of b, or 0. It also reports
// whether b ends within a possible one.
func (m *matcher) match(b []byte, f form) (longest int, begun bool) {
	for i := range m.at {
		m.at[i] = m.at[i][:0]
	}
	m.at[0] = append(m.at[0], 0)
	for j := range len(f.text) {
		live := false
		here := m.at[j%len(m.at)]
		for _, from := range here {
			if f.wrap && j > 0 {
				from += lineBreak(b[from:])
			}
			begun = begun || partial(b[from:], f.text[j])
			m.units = read(m.units[:0], b[from:], f.text[j:], f.fold)
			for _, u := range m.units {
				next := &m.at[(j+u.m)%len(m.at)]
				if !slices.Contains(*next, from+u.n) {
					*next = append(*next, from+u.n)
				}
			}
		}
		m.at[j%len(m.at)] = here[:0]
		for _, set := range m.at {
			live = live || len(set) > 0
		}
		if !live {
			return 0, begun
		}
	}
	for _, end := range m.at[len(f.text)%len(m.at)] {
		longest = max(longest, end)
	}
	return longest, begun
}

// lineBreak returns the length of a line break at the start of b, also as it is written in JSON, or 0.
func lineBreak(b []byte) int {
	for _, s := range []string{"\n", "\r\n", `\n`, `\r\n`} {
		if bytes.HasPrefix(b, []byte(s)) {
			return len(s)
		}
	}
	if string(b) == "\r" { // the rest may follow
		return 1
	}
	return 0
}

// partial reports whether b is empty or the beginning of an escape.
func partial(b []byte, want byte) bool {
	if len(b) == 0 {
		return true
	}
	rest := b[1:]
	switch b[0] {
	case '\'':
		return want == '\'' && (strings.HasPrefix(`'\''`, string(b)) || strings.HasPrefix(`'"'"'`, string(b)))
	case '=':
		return len(rest) < 2 && only(rest, "")
	case '%':
		return len(rest) < 11 && only(rest, "u%")
	case '&':
		return len(rest) < 15 && only(rest, "#ghijklmnopqrstuvwxyzTNL")
	case '\\':
		if len(b) < 64 {
			list, _ := backslashed(nil, b, "&")
			if slices.ContainsFunc(list, func(amp unit) bool { return partial(entityAfter(b, amp), want) }) {
				return true
			}
		}
		rest = bytes.TrimLeft(rest, `\`)
		return len(rest) < 24 && only(rest, `uxU{\`)
	}
	return false
}

// only reports whether all bytes of b are hexadecimal digits or in more.
func only(b []byte, more string) bool {
	return len(bytes.Trim(b, "0123456789abcdefABCDEF"+more)) == 0
}

// read lists the ways in which b can begin with the first byte or character of text: unescaped,
// percent-encoded (also repeatedly), with backslashes as in JSON, JavaScript, C, and shells (any
// number of them, for nested texts), as an HTML entity, in quoted-printable, and as a quote within
// shell quotes.
func read(out []unit, b []byte, text string, fold bool) []unit {
	if len(b) == 0 {
		return out
	}
	want := text[0]
	if b[0] == want || fold && b[0]|0x20 == want {
		out = append(out, unit{1, 1})
	}
	switch b[0] {
	case '+':
		if want == ' ' {
			out = append(out, unit{1, 1})
		}
	case '=':
		out = coded(out, b, 1, 2, 16, text)
	case '\'':
		for _, quote := range []string{`'\''`, `'"'"'`} {
			if want == '\'' && bytes.HasPrefix(b, []byte(quote)) {
				out = append(out, unit{len(quote), 1})
			}
		}
	case '%':
		for k := 1; k < 8; k += 2 { // %41, %2541, %252541
			out = coded(out, b, k, 2, 16, text)
			if !bytes.HasPrefix(b[k:], []byte("25")) {
				break
			}
		}
		if len(b) > 1 && b[1] == 'u' {
			out = character(out, b, 2, 4, text)
		}
	case '&':
		out = entity(out, b, text)
	case '\\':
		var c byte
		if out, c = backslashed(out, b, text); strings.IndexByte("&uxU0123", c) >= 0 {
			out = nested(out, b, text)
		}
	}
	return out
}

// nested adds an entity whose ampersand is escaped, as in JSON for web pages.
func nested(out []unit, b []byte, text string) []unit {
	list, _ := backslashed(nil, b, "&")
	for _, amp := range list {
		for _, u := range entity(nil, entityAfter(b, amp), text) {
			out = append(out, unit{amp.n + u.n - 1, u.m})
		}
	}
	return out
}

// entityAfter returns what may be an entity whose ampersand was escaped.
func entityAfter(b []byte, amp unit) []byte {
	return append([]byte{'&'}, b[amp.n:min(len(b), amp.n+15)]...)
}

// coded adds a byte written in digits.
func coded(out []unit, b []byte, from, digits, base int, text string) []unit {
	if n, ok := number(b, from, digits, base); ok && n == rune(text[0]) {
		return append(out, unit{from + digits, 1})
	}
	return out
}

// number parses digits in a base up to 16.
func number(b []byte, from, digits, base int) (rune, bool) {
	if len(b) < from+digits {
		return 0, false
	}
	n := 0
	for _, c := range b[from : from+digits] {
		d := base
		switch {
		case c >= '0' && c <= '9':
			d = int(c - '0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			d = int(c|0x20-'a') + 10
		}
		if d >= base || n > utf8.MaxRune {
			return 0, false
		}
		n = n*base + d
	}
	return rune(n), true
}

// character adds a character written in digits. Characters beyond U+FFFF are surrogate pairs.
func character(out []unit, b []byte, from, digits int, text string) []unit {
	n, ok := number(b, from, digits, 16)
	if !ok {
		return out
	}
	r, size := utf8.DecodeRuneInString(text)
	end := from + digits
	if utf16.IsSurrogate(n) {
		next := end + from // the second half is written as the first
		low, ok := number(b, next, digits, 16)
		if !ok || string(b[end:next]) != string(b[:from]) {
			return out
		}
		n, end = utf16.DecodeRune(n, low), next+digits
	}
	if n == r && (r != utf8.RuneError || size > 1) {
		out = append(out, unit{end, size})
	}
	return out
}

// backslashed adds what follows backslashes, and returns its first byte.
func backslashed(out []unit, b []byte, text string) ([]unit, byte) {
	k := 0
	for k < len(b) && b[k] == '\\' && k < 64 {
		k++
	}
	for n := 2; n <= k && text[0] == '\\'; n *= 2 {
		out = append(out, unit{n, 1})
	}
	if k == len(b) {
		return out, 0
	}
	c := b[k]
	plain := (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z')
	if i := strings.IndexByte("ntrbfvae", c); plain && c == text[0] || i >= 0 && "\n\t\r\b\f\v\a\x1b"[i] == text[0] {
		out = append(out, unit{k + 1, 1})
	}
	switch {
	case c == 'x':
		out = coded(out, b, k+1, 2, 16, text)
	case c == 'u' && k+1 < len(b) && b[k+1] == '{':
		if end := bytes.IndexByte(b[k:min(len(b), k+12)], '}'); end > 2 {
			if n, ok := number(b, k+2, end-2, 16); ok {
				out = numbered(out, k+end+1, n, text)
			}
		}
	case c == 'u':
		out = character(out, b, k+1, 4, text)
	case c == 'U':
		out = character(out, b, k+1, 8, text)
	case c >= '0' && c <= '3':
		out = coded(out, b, k, 3, 8, text)
	}
	return out, c
}

func numbered(out []unit, length int, n rune, text string) []unit {
	if r, size := utf8.DecodeRuneInString(text); n == r && r != utf8.RuneError {
		out = append(out, unit{length, size})
	}
	return out
}

// entities are the named HTML entities that encoders write.
var entities = map[string]rune{"amp": '&', "lt": '<', "gt": '>', "quot": '"', "apos": '\'', "nbsp": 0xa0, "sol": '/', "equals": '=', "plus": '+', "percnt": '%', "num": '#', "dollar": '$', "excl": '!', "commat": '@', "colon": ':', "semi": ';', "Tab": '\t', "NewLine": '\n'}

func entity(out []unit, b []byte, text string) []unit {
	end := bytes.IndexByte(b[:min(len(b), 16)], ';')
	if end < 2 {
		return out
	}
	name := string(b[1:end])
	n, named := entities[name]
	if digits, is := strings.CutPrefix(name, "#"); is {
		base := 10
		if len(digits) > 0 && digits[0]|0x20 == 'x' {
			digits, base = digits[1:], 16
		}
		v, err := strconv.ParseUint(digits, base, 21)
		n, named = rune(v), err == nil
	}
	if !named {
		return out
	}
	return numbered(out, end+1, n, text)
}
