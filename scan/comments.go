package scan

import "strings"

// remark is a comment in code.
type remark struct {
	text string
	at   int
}

// withoutComments returns code of the same length in which comments, and texts that Python does not
// use, are spaces. It also returns the comments.
func withoutComments(code, lang string) (string, []remark) {
	b := []byte(code)
	var out []remark
	blank := func(from, to int) {
		out = append(out, remark{code[from:to], from})
		for i := from; i < to; i++ {
			if b[i] != '\n' {
				b[i] = ' '
			}
		}
	}
	hash, slashes := lang == python || lang == powershell || lang == shellCode, lang == javascript
	fresh := true // nothing but white space since the line began
	for i := 0; i < len(code); {
		c := code[i]
		switch {
		case hash && c == '#', slashes && strings.HasPrefix(code[i:], "//") && (i == 0 || code[i-1] != ':'):
			end := endOf(code, i, "\n", 0)
			blank(i, end)
			i = end
			continue
		case slashes && strings.HasPrefix(code[i:], "/*"):
			end := endOf(code, i+2, "*/", 2)
			blank(i, end)
			i = end
			continue
		case lang == python && (strings.HasPrefix(code[i:], `"""`) || strings.HasPrefix(code[i:], `'''`)):
			end := endOf(code, i+3, code[i:i+3], 3)
			if fresh {
				blank(i, end)
			}
			i, fresh = end, false
			continue
		case c == '"' || c == '\'' || c == '`' && lang == javascript:
			i, fresh = closing(code, i), false
			continue
		case c == '\n':
			fresh = true
		case c != ' ' && c != '\t' && c != '\r':
			fresh = false
		}
		i++
	}
	return string(b), out
}

func endOf(code string, from int, mark string, size int) int {
	from = min(from, len(code))
	if n := strings.Index(code[from:], mark); n >= 0 {
		return from + n + size
	}
	return len(code)
}

// closing returns the offset after a quoted text. A text that does not end in its line ends there,
// except a template.
func closing(code string, i int) int {
	quote := code[i]
	for i++; i < len(code); i++ {
		switch {
		case code[i] == '\\':
			i++
		case code[i] == quote:
			return i + 1
		case code[i] == '\n' && quote != '`':
			return i
		}
	}
	return len(code)
}

// remarks finds comments of shell code that announce what nobody should see.
func (s *scanner) remarks(f *source, u unit) {
	var list []remark
	at := 0
	for line := range strings.SplitAfterSeq(u.text, "\n") {
		if i := strings.IndexByte(line, '#'); i >= 0 && (i == 0 || line[i-1] == ' ' || line[i-1] == '\t') {
			list = append(list, remark{line[i:], at + i})
		}
		at += len(line)
	}
	s.remarksIn(f, u, list)
}

// remarksIn finds comments that call the code after them a backdoor or the like.
func (s *scanner) remarksIn(f *source, u unit, list []remark) {
	for _, r := range list {
		text := strings.ToLower(r.text[:min(len(r.text), 1000)])
		if !u.mention && !has(text, deniers) && (has(text, confessions) || confesses(text)) {
			s.add(f, table.byID["declared-backdoor"], u.offset(r.at), &u)
		}
	}
}

// confessions are words for hidden functions, as authors write them.
var confessions = set("backdoor backdoored exfiltrate exfiltrates exfiltrating exfil keylogger stealer infostealer rootkit бэкдор hintertür")

// confesses reports whether a comment has one of the confessions with several words, or without spaces
// around it.
func confesses(text string) bool {
	for _, phrase := range []string{"back door", "后门", "後門", "puerta trasera", "porte dérobée", "reverse shell", "malicious payload", "steal credentials", "steal tokens", "steal user", "steal keys"} {
		if strings.Contains(text, phrase) {
			return true
		}
	}
	return false
}

// deniers are words of comments about finding or preventing such code.
var deniers = set("detect detects detected detection prevent prevents preventing check checks scan scans scanner avoid against no not never block blocks flag flags flagged protect protects risk risks rule rules pattern patterns test tests warn warning if possible could may might attacker attackers vulnerable")
