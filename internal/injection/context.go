package injection

import (
	"slices"
	"strings"
)

// Limits of the text read around a phrase, in bytes.
const (
	sentenceMax = 400
	leadMax     = 1500
)

// cues are words that announce text that is mentioned, not addressed to the model.
var cues = words("example examples eg ex instance such phrase phrases pattern patterns attempt attempts attack attacks attacker attackers injection injections jailbreak jailbreaks adversarial malicious untrusted suspicious payload payloads " +
	"detect detects detecting detection flags flagged says said saying containing asks asking tries trying instructs instructing refuse refuses reject rejects resist resisting defend defends against if whether test tests testing probe probes sample samples " +
	"keyword keywords regex string strings override-attempts indicators indicator heuristic heuristics threat threats phishing red-team")

// negations are words that negate an instruction.
var negations = words("not never dont don cannot can't wont won't no avoid refuse refuses nobody nothing neither prohibited forbidden forbids prohibits disallow disallows")

func words(list string) map[string]bool {
	out := map[string]bool{}
	for w := range strings.FieldsSeq(list) {
		out[w] = true
	}
	return out
}

// Orders reports whether a text contains at least one actual instruction: a finding that is not
// negated, quoted, in code, or among examples.
func Orders(found []Finding) bool {
	return slices.ContainsFunc(found, func(f Finding) bool { return !f.Mentioned })
}

// Mentioned reports whether the words at an offset of a text are negated, quoted, or announced as an
// example. It does not consider code.
func Mentioned(text string, at int) bool { return mentioned(text, at, "", false) }

// Listed reports whether the line of an offset is an item of a list that an earlier line announces as
// examples.
func Listed(text string, at int) bool {
	start := max(0, at-leadMax)
	start += strings.LastIndexByte(text[start:at], '\n') + 1
	return listed(text, start, text[start:at])
}

// mentioned reports whether the phrase at text[from:] is negated, quoted, in code, or announced as
// an example.
func mentioned(text string, from int, kind string, fenced bool) bool {
	if fenced {
		return true
	}
	start := max(0, from-leadMax)
	start += strings.LastIndexByte(text[start:from], '\n') + 1
	line := text[max(start, from-sentenceMax):from]
	if kind == "template" && strings.Contains(text[max(0, from-sentenceMax):min(len(text), from+sentenceMax)], "{{") {
		return true // a template of a program
	}
	if inQuotes(line, text[from:min(len(text), from+sentenceMax)]) || strings.HasPrefix(strings.TrimLeft(line, " \t>"), "|") {
		return true
	}
	sentence := text[max(0, from-sentenceMax):from]
	for _, end := range []string{". ", ".\n", "! ", "!\n", "? ", "?\n", "\n\n", "-->", "<!--"} {
		if i := strings.LastIndex(sentence, end); i >= 0 && !abbreviated(sentence[:i]) {
			sentence = sentence[i+len(end):]
		}
	}
	clause := sentence
	if i := strings.LastIndexAny(sentence, ",;:"); i >= 0 && kind != "secrecy" {
		clause = sentence[i+1:]
	}
	return has(sentence, cues) || has(clause, negations) && !told(text[from:]) || listed(text, start, line)
}

// told reports whether a phrase counts only after a negation: "do not tell the user about this".
func told(phrase string) bool {
	i := strings.IndexFunc(phrase, func(r rune) bool { return r >= 0x80 || !letters[byte(r)] })
	return i > 0 && behindNo[strings.ToLower(phrase[:i])]
}

// abbreviated reports whether a text ends with e.g or i.e. A period after it does not end a
// sentence.
func abbreviated(text string) bool {
	return strings.HasSuffix(text, "e.g") || strings.HasSuffix(text, "i.e")
}

// WithoutAddresses returns a text without its web addresses, whose words announce nothing.
func WithoutAddresses(text string) string {
	const mark, before, after = "://", " \t\n(<\"'`", " \t\n)>\"'`"
	i := strings.Index(text, mark)
	if i < 0 {
		return text
	}
	var b strings.Builder
	for ; i >= 0; i = strings.Index(text, mark) {
		b.WriteString(text[:strings.LastIndexAny(text[:i], before)+1])
		text = text[i+len(mark):]
		to := strings.IndexAny(text, after)
		if to < 0 {
			to = len(text)
		}
		text = text[to:]
	}
	b.WriteString(text)
	return b.String()
}

// has reports whether a text contains one of the words, ignoring case.
func has(text string, set map[string]bool) bool {
	for w := range strings.FieldsFuncSeq(strings.ReplaceAll(strings.ToLower(WithoutAddresses(text)), "’", "'"), func(r rune) bool { return r != '\'' && r != '-' && (r < 'a' || r > 'z') }) {
		if set[strings.Trim(w, "'-")] || set[strings.ReplaceAll(w, "'", "")] || strings.HasSuffix(w, "n't") && set["not"] {
			return true
		}
	}
	return false
}

// inQuotes reports whether quotes or backticks are open before a phrase and closed after it. Quotes
// around a field's whole value do not count.
func inQuotes(before, after string) bool {
	if i := strings.Index(after, "\n\n"); i >= 0 {
		after = after[:i]
	}
	if key, value, ok := strings.Cut(strings.TrimSpace(before), ":"); ok && !strings.ContainsAny(key, " \t\"'`|") && strings.Trim(value, " \t\"'") == "" {
		return false
	}
	for _, q := range []string{`"`, "`"} {
		if strings.Count(before, q)%2 == 1 && strings.Contains(after, q) {
			return true
		}
	}
	for _, pair := range [][2]string{{"“", "”"}, {"«", "»"}, {"‘", "’"}, {"「", "」"}, {"„", "“"}} {
		if strings.LastIndex(before, pair[0]) > strings.LastIndex(before, pair[1]) && strings.Contains(after, pair[1]) {
			return true
		}
	}
	trimmed := " " + strings.TrimRight(before, "@abcdefghijklmnopqrstuvwxyz ")
	return (strings.HasSuffix(trimmed, " '") || strings.HasSuffix(trimmed, "('")) && strings.Contains(after, "'")
}

// listed reports whether a line is an item of a list that an earlier line announces as examples.
func listed(text string, start int, line string) bool {
	if !item(line) {
		return false
	}
	before := text[max(0, start-leadMax):start]
	for before != "" {
		i := strings.LastIndexByte(strings.TrimSuffix(before, "\n"), '\n') + 1
		lead := strings.TrimSpace(before[i:])
		before = before[:i]
		if lead != "" && !item(lead) {
			return (strings.HasSuffix(lead, ":") || strings.HasSuffix(lead, ":**") || strings.HasPrefix(lead, "#")) && has(lead, cues)
		}
	}
	return false
}

func item(line string) bool {
	line = strings.TrimLeft(line, " \t>")
	digits := strings.TrimLeft(line, "0123456789")
	return strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "* ") || strings.HasPrefix(line, "+ ") || strings.HasPrefix(line, "❌") ||
		len(digits) < len(line) && (strings.HasPrefix(digits, ". ") || strings.HasPrefix(digits, ") "))
}

// fences tracks which lines of a text are in fenced code blocks.
type fences struct {
	text string
	last map[string]int // offset of the last fence by its mark
	at   int
	mark string // of the open fence
}

func fencesOf(text string) *fences {
	f := &fences{text: text, last: map[string]int{}}
	for _, m := range fenceMarks {
		f.last[m] = strings.LastIndex(text, "\n"+m)
	}
	return f
}

var fenceMarks = []string{"```", "~~~"}

// open reports whether an offset is in a fenced block that is closed after it. Offsets must be
// passed in ascending order.
func (f *fences) open(at int) bool {
	for f.at < len(f.text) && f.at <= at {
		end := strings.IndexByte(f.text[f.at:], '\n')
		if end < 0 {
			end = len(f.text) - f.at - 1
		}
		if f.at+end >= at {
			break
		}
		line := strings.TrimLeft(f.text[f.at:f.at+end], " \t>")
		for _, m := range fenceMarks {
			if strings.HasPrefix(line, m) && (f.mark == "" || f.mark == m) {
				if f.mark == "" {
					f.mark = m
				} else {
					f.mark = ""
				}
			}
		}
		f.at += end + 1
	}
	return f.mark != "" && f.last[f.mark] >= at
}
