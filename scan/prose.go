package scan

import (
	"iter"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"metier/internal/injection"
)

// token is a word of a sentence.
type token struct {
	text   string // in lower case, without punctuation around it
	offset int    // in the unit
	first  bool   // a sentence begins with it, or only words such as "then" are before it
}

// sentence is a sentence of a unit.
type sentence struct {
	unit   *unit
	tokens []token
}

// split splits a text into sentences.
func split(u *unit) (out []sentence) {
	cur := sentence{unit: u}
	conditional := false
	end := func() {
		if len(cur.tokens) > 0 {
			out = append(out, cur)
		}
		cur, conditional = sentence{unit: u}, false
	}
	opens := true
	text := u.text
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		if separates(r) {
			if r == '\n' && (strings.HasPrefix(text[i:], "\n\n") || listItem(text[i+1:])) || r == '!' || r == '?' || r == '。' {
				end()
				opens = true
			}
			if r == '>' || r == '(' || r == ',' && conditional {
				opens = true // text in markup, or what to do under a condition
			}
			i += size
			continue
		}
		from := i
		for i < len(text) && !separates(r) {
			i += size
			r, size = utf8.DecodeRuneInString(text[i:])
		}
		raw := text[from:i]
		word := strings.ToLower(strings.Trim(raw, ".:'’-_#"))
		if len(word) > 300 {
			word = word[:300]
		}
		if word != "" {
			cur.tokens = append(cur.tokens, token{word, from, opens})
			conditional = conditional || opens && conditions[word]
			opens = opens && openers[word] || clauses[word] || strings.HasSuffix(raw, ":")
		}
		if strings.HasSuffix(raw, ".") && !abbreviations[word] || len(cur.tokens) >= 200 {
			end()
			opens = true
		}
	}
	end()
	return out
}

func separates(r rune) bool {
	return unicode.IsSpace(r) || strings.ContainsRune("(),;!?\"`*[]<>|“”«»—→。", r)
}

func listItem(line string) bool {
	line = strings.TrimLeft(line[:min(len(line), 40)], " \t>")
	digits := strings.TrimLeft(line, "0123456789")
	return strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "* ") || strings.HasPrefix(line, "|") || len(digits) < len(line) && strings.HasPrefix(digits, ". ")
}

// openers can stand before the verb of an instruction.
var openers = set("then next finally always silently quietly secretly first also please and immediately important critical note step now you must should need to will agent assistant automatically once done afterwards system 1 2 3 4 5 6 7 8 9")

// clauses begin a new instruction inside a sentence.
var clauses = set("then and must should always please")

// conditions begin a sentence whose instruction comes after a comma.
var conditions = set("before after when whenever if for on each every once at during while to as")

var abbreviations = set("e.g i.e etc vs")

// hit is the last sentence with a concept.
type hit struct {
	sentence int
	at       token
	unit     *unit
	ok       bool
}

// sentences applies the rules for prose to the blocks of a file.
func (s *scanner) sentences(f *source, units []unit) {
	var last [conceptCount]hit
	n := 0
	for i := range units {
		u := &units[i]
		if u.place == inFence {
			n++
			continue
		}
		for _, line := range split(u) {
			n++
			seen := uint64(0)
			for _, t := range line.tokens {
				for _, c := range conceptsOf(t.text) {
					if seen&(1<<c) == 0 || t.first && !last[c].at.first {
						last[c] = hit{n, t, u, true}
						seen |= 1 << c
					}
				}
			}
			if seen != 0 {
				s.said(f, &last, n, seen)
			}
		}
	}
}

// said applies the rules whose last concept is in a sentence.
func (s *scanner) said(f *source, last *[conceptCount]hit, n int, seen uint64) {
	for _, r := range table.prose {
		if r.prose.mask&seen == 0 || r.prose.without&seen != 0 {
			continue
		}
		complete := true
		for i, c := range r.prose.says {
			complete = complete && last[c].ok && n-last[c].sentence <= r.prose.within && (i == 0 || !r.prose.tight || last[c].sentence == n)
		}
		anchor := last[r.prose.says[0]]
		if next := last[r.prose.says[1]]; r.prose.next && (next.sentence != anchor.sentence || next.at.offset != anchor.at.offset+len(anchor.at.text)+1) {
			complete = false
		}
		if !complete || r.prose.order && !anchor.at.first || r.prose.hidden && anchor.unit.place != inComment {
			continue
		}
		at := anchor.unit.offset(anchor.at.offset)
		if anchor.unit.mention || s.counts["mention\x00"+f.path] < maxMentions && injection.Mentioned(f.text, at) {
			s.counts["mention\x00"+f.path]++
			continue
		}
		s.add(f, r, at, anchor.unit)
	}
}

// maxMentions is how many matches in a file can be mentions. Those after them are not.
const maxMentions = 1000

// orders applies the filter that keeps such texts from a model when a skill is loaded.
func (s *scanner) orders(f *source) {
	for _, x := range injection.Find(f.text) {
		r, ok := table.byID["injection-"+x.Kind]
		if !ok || x.Mentioned || f.lang != markdown && x.Kind != "override" && x.Kind != "secrecy" {
			continue
		}
		u := unit{file: f, place: inProse, mention: f.attacks}
		if f.lang != markdown {
			u.place = inData
		}
		s.add(f, r, x.Offset, &u)
	}
}

// has reports whether a text in lower case has one of the words.
func has(text string, words map[string]bool) bool {
	for w := range wordsOf(text) {
		if words[w] {
			return true
		}
	}
	return false
}

// wordsOf returns the words of a text, except those in addresses.
func wordsOf(text string) iter.Seq[string] {
	return strings.FieldsFuncSeq(injection.WithoutAddresses(text), func(r rune) bool { return !unicode.IsLetter(r) && r != '\'' && r != '-' })
}

// refused reports whether the text before a command asks not to use it.
func refused(before string) bool {
	before = injection.WithoutAddresses(before)
	if i := strings.LastIndexAny(before, ".!?\n"); i >= 0 && i < len(before)-1 {
		before = before[i:]
	}
	return avoids(before)
}

// avoids reports whether a text in lower case asks not to do something.
func avoids(text string) bool {
	text = kept.ReplaceAllString(text, " ")
	return has(text, avoidWords) || badLabel.MatchString(text) || strings.ContainsAny(text, "❌🚫")
}

// aboutAttacks reports whether a text in lower case announces text about attacks.
func aboutAttacks(text string) bool {
	seen := map[string]bool{}
	for w := range wordsOf(text) {
		if attackWords[w] {
			return true
		}
		if topicWords[w] {
			seen[strings.TrimSuffix(w, "s")] = true
		}
	}
	return len(seen) > 1
}

// kept matches text that refuses nothing: a condition, a purpose, and a negation that asks for something,
// such as never skip this step.
var kept = regexp.MustCompile(`\b(if|when|whenever|unless|in case)\b[^,.:;\n]*|\bto (avoid|prevent|block|detect|deny|reject)\b[^,.:;\n]*|` +
	`\b(never|not|don't|dont)\s+(ever\s+)?(skip|forget|omit|miss|hesitate|stop|ask|wait|leave|worry|change|edit|modify|tell|mention|bad|only|just|yet|installed|found|available|present|needed|required|enough)\b`)

var badLabel = regexp.MustCompile(`\b(bad|wrong)(\s*:|\s+(example|examples|practice|code|command|commands|way|idea|pattern|patterns)\b)`)

// ordered reports whether the text before a command asks to run it.
func ordered(before string) bool {
	before = strings.TrimSpace(injection.WithoutAddresses(before))
	if i := strings.LastIndexAny(before[:max(0, len(before)-1)], ".!?\n"); i >= 0 {
		before = strings.TrimSpace(before[i+1:])
	}
	return strings.HasSuffix(before, ":") && startsOrder.MatchString(before) && !refused(before)
}

var startsOrder = regexp.MustCompile(`^(now |first,? |then,? |next,? |always |please |you must |before you begin,? )*(run|execute|start|paste|install)\b`)

// labelled reports whether code begins with a comment that announces it as bad.
func labelled(code string) bool {
	for range 3 {
		var line string
		line, code, _ = strings.Cut(code, "\n")
		line = strings.ToLower(strings.TrimSpace(line))
		if strings.HasPrefix(line, "#") || strings.HasPrefix(line, "//") {
			return avoids(line) || aboutAttacks(line)
		}
	}
	return false
}

func set(words string) map[string]bool {
	out := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		out[w] = true
	}
	return out
}
