package shell

import "strings"

// awk reports whether an awk program starts nothing: it is literal and has no system(), no pipe,
// and no indirect call.
func awk(args []word) bool {
	for len(args) > 0 {
		w := args[0]
		args = args[1:]
		switch {
		case !w.known && (strings.HasPrefix(w.text, "-v") || strings.HasPrefix(w.text, "-F")) && len(w.text) > 2 && w.one:
		case !w.known:
			return false
		case w.text == "--":
		case w.text == "-v" || w.text == "-F":
			if len(args) == 0 || !args[0].one {
				return false
			}
			args = args[1:]
		case strings.HasPrefix(w.text, "-v"), strings.HasPrefix(w.text, "-F"):
		case strings.HasPrefix(w.text, "-"):
			return false
		default:
			text := strings.ReplaceAll(w.text, "||", "")
			return !strings.ContainsAny(text, "|@") && !strings.Contains(text, "system") && !strings.Contains(text, "\\\n")
		}
	}
	return false
}

// sedWords are the long options of sed that start nothing.
var sedWords = set("quiet silent regexp-extended null-data separate unbuffered in-place posix debug")

// sed reports whether a sed script starts nothing: it is literal and has no e command and no e
// flag.
func (s *starter) sed(args []word) bool {
	var scripts []string
	var operands []word
	ends := false
	for i := 0; i < len(args); i++ {
		w := args[i]
		switch {
		case ends, w.known && (w.text == "-" || !strings.HasPrefix(w.text, "-")), !w.known && s.bound(w):
			operands = append(operands, w)
		case !w.known:
			return false
		case w.text == "--":
			ends = true
		default:
			script, follows, ok := sedOption(w.text)
			if follows {
				if i++; i >= len(args) || !args[i].known {
					return false
				}
				script = args[i].text
			}
			if !ok {
				return false
			}
			if script != "" || follows {
				scripts = append(scripts, script)
			}
		}
	}
	if len(scripts) == 0 {
		if len(operands) == 0 || !operands[0].known {
			return false
		}
		scripts = []string{operands[0].text}
	}
	return sedScript(strings.Join(scripts, "\n"))
}

// sedOption parses an option of sed. It returns the option's script, or follows if the script is
// the next word. Short options can be combined up to one with a value: i takes a suffix, e a
// script.
func sedOption(text string) (script string, follows, ok bool) {
	if long, is := strings.CutPrefix(text, "--"); is {
		name, val, has := strings.Cut(long, "=")
		if name == "expression" {
			return val, !has, true
		}
		return "", false, sedWords[name] && (!has || name == "in-place")
	}
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == 'i':
			return "", false, true
		case c == 'e':
			return text[i+1:], i+1 == len(text), true
		case strings.IndexByte("nErsuz", c) < 0:
			return "", false, false
		}
	}
	return "", false, true
}

// sedScript parses a sed script: a sequence of addresses and commands.
func sedScript(s string) bool {
	for {
		s = strings.TrimLeft(s, " \t\n;{}!,0123456789$~+")
		if s == "" {
			return true
		}
		c := s[0]
		s = s[1:]
		ok := true
		switch c {
		case 'a', 'i', 'c', 'r', 'R', 'w', 'W': // text or a file, up to the end
			return !strings.Contains(s, "\n") || c == 'a' && strings.HasPrefix(s, "\\\n") && strings.Count(s, "\n") == 1
		case '#':
			_, s, _ = strings.Cut(s, "\n")
		case ':', 'b', 't', 'T':
			s = strings.TrimLeft(s, " \t") // a label ends at a space, too: ":a 1e rm"
			s = strings.TrimLeftFunc(s, func(r rune) bool { return !strings.ContainsRune(" \t;}\n", r) })
		case '/', '\\':
			if c == '\\' {
				if s == "" {
					return false
				}
				c, s = s[0], s[1:]
			}
			s, ok = delimited(s, c)
			s = strings.TrimLeft(s, "IM")
		case 's', 'y':
			if s == "" || s[0] == '\n' || s[0] == '\\' {
				return false
			}
			d := s[0]
			if s, ok = delimited(s[1:], d); ok {
				s, ok = delimited(s, d)
			}
			if c == 's' {
				s = strings.TrimLeft(s, "gpIiMm0123456789")
			}
			if s != "" && !strings.ContainsRune(" \t\n;}#", rune(s[0])) {
				return false
			}
		case 'd', 'D', 'g', 'G', 'h', 'H', 'l', 'n', 'N', 'p', 'P', 'q', 'Q', 'x', 'z', 'F', '=':
		default:
			return false
		}
		if !ok {
			return false
		}
	}
}

// delimited returns the text after the next delimiter.
func delimited(s string, d byte) (string, bool) {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case d: // inside brackets, some versions do not end the part here
			return s[i+1:], strings.LastIndexByte(s[:i], '[') <= strings.LastIndexByte(s[:i], ']')
		case '\n':
			return "", false
		}
	}
	return "", false
}
