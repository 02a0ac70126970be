// Package injection finds text that looks like prompt injection: instructions to ignore the model's
// instructions, to reveal its prompt, or to act behind the user's back, and chat template markers.
// It uses a short list of phrases and proves nothing: legitimate text about such attacks contains
// them too, and attacks can use other words.
package injection

import (
	"slices"
	"strings"
	"unicode/utf8"

	"metier/internal/termtext"
)

// Finding is a phrase and its offset.
type Finding struct {
	Kind   string // override, prompt, secrecy, persona, template
	Offset int    // in bytes
	// Mentioned reports whether the text only mentions the phrase: it is negated, quoted, in code,
	// or among examples.
	Mentioned bool
}

// Most is the maximum number of findings reported for a text.
const Most = 10

// MaxText is how many bytes of a text are searched: the maximum size of a file that is returned as
// a whole.
const MaxText = 16 << 20

// mostMentions is how many phrases of a text can be mentioned. Those after them count as instructions.
const mostMentions = 10_000

// phrase is a sequence of word sets. Fillers may precede each set except the first.
type phrase struct {
	kind string
	sets [][]string
}

const (
	maxFillers = 4  // in a row
	maxGap     = 12 // bytes between two words
)

// filler reports whether a word may appear between the words of a phrase.
func filler(w string) bool {
	switch w {
	case "all", "any", "the", "your", "my", "our", "of", "these", "those", "every", "other", "and", "or", "a", "an", "its", "their":
		return true
	}
	return false
}

// table holds the phrases by their first word. A set is written as words separated by spaces. Sets
// match whole words.
var table = compile(
	phrase{"override", sets("ignore disregard forget override", "previous prior above earlier preceding existing foregoing", "instructions instruction prompts prompt directions directives rules guidelines messages context constraints")},
	phrase{"override", sets("ignore disregard forget override bypass", "system safety developer", "instructions prompt prompts rules guidelines policies message messages")},
	phrase{"override", sets("ignore disregard forget", "everything", "above before previously said told")},
	phrase{"override", sets("ignore disregard forget override", "instructions rules guidelines", "above given before")},
	phrase{"override", sets("supersede supersedes override overrides", "previous prior system safety developer", "instructions prompt prompts rules guidelines messages")},
	phrase{"prompt", sets("reveal print output repeat leak show disclose display", "system hidden developer initial", "prompt prompts instructions message")},
	phrase{"secrecy", sets("without", "telling informing notifying alerting", "user human operator")},
	phrase{"secrecy", sets("without", "user human operator", "s", "knowledge knowing")},
	phrase{"secrecy", sets("hide conceal", "this that it", "from", "user human operator")},
	phrase{"secrecy", sets("tell inform alert notify", "user human operator", "about", "this")},
	phrase{"persona", sets("you", "are", "now", "dan jailbroken unrestricted unfiltered uncensored")},
	phrase{"persona", sets("no", "longer", "bound restricted limited constrained", "by", "guidelines rules restrictions policies")},
	phrase{"persona", sets("developer dan god jailbreak", "mode", "enabled activated on")},
)

// behindNo are first words that count only after a negation.
var behindNo = map[string]bool{"tell": true, "inform": true, "alert": true, "notify": true}

// no lists the words that negate an instruction to ignore something.
const no = "not never don dont cannot can wont won"

// marks are chat template markers, which do not belong in a skill's prose.
var marks = []string{"<|im_start|>", "<|im_end|>", "<|system|>", "<|endoftext|>", "<<sys>>", "[/inst]"}

func sets(words ...string) [][]string {
	var out [][]string
	for _, w := range words {
		out = append(out, strings.Fields(w))
	}
	return out
}

type compiled struct {
	first  map[string][]phrase
	begins [1 << 10]uint16 // first two letters of a first word → its lengths, as a bit set
}

func compile(all ...phrase) *compiled {
	c := &compiled{first: map[string][]phrase{}}
	for _, p := range all {
		for _, w := range p.sets[0] {
			c.first[w] = append(c.first[w], p)
			c.begins[pair(w[0], w[1])] |= 1 << len(w)
		}
	}
	return c
}

func pair(a, b byte) int { return int(a&31)<<5 | int(b&31) }

// Find returns up to Most findings in the first MaxText bytes, in order of offset. It ignores case,
// line breaks, markup, and invisible characters between and inside words, and treats Cyrillic and
// Greek letters that look like Latin ones as such.
func Find(text string) []Finding {
	if len(text) > MaxText {
		text = text[:MaxText]
	}
	at := func(i int) int { return i }
	if hides(text) {
		var places []int
		text, places = bare(text)
		at = func(i int) int { return places[i] }
	}
	var out []Finding
	code := fencesOf(text)
	seen := 0
	add := func(kind string, i int) {
		seen++
		f := Finding{kind, at(i), seen <= mostMentions && mentioned(text, i, kind, code.open(i))}
		switch {
		case len(out) < Most:
			out = append(out, f)
		case !f.Mentioned: // findings that are not just mentioned take precedence
			out[Most-1] = f
		}
	}
	for i := 0; i < len(text) && (len(out) < Most || !Orders(out)); {
		if !letters[text[i]] {
			if (text[i] == '<' || text[i] == '[') && mark(text[i:]) {
				add("template", i)
			}
			i++
			continue
		}
		end := i + 1
		for end < len(text) && letters[text[end]] {
			end++
		}
		if n := end - i; n > 1 && n < 16 && table.begins[pair(text[i], text[i+1])]&(1<<n) != 0 {
			if kind := begun(text, i, end); kind != "" {
				add(kind, i)
			}
		}
		i = end
	}
	return out
}

// begun returns the kind of the phrase whose first word is text[from:to], or "".
func begun(text string, from, to int) string {
	w := strings.ToLower(text[from:to])
	for _, p := range table.first[w] {
		if !follows(text[to:], p.sets[1:]) {
			continue
		}
		before := hasWord(no, previous(text[:from]))
		if p.kind == "override" && before || behindNo[w] && !before {
			continue
		}
		return p.kind
	}
	return ""
}

// previous returns the last word of a text. For don't and can't, that is don and can.
func previous(text string) string {
	w, before := lastWord(text)
	if strings.EqualFold(w, "t") {
		w, _ = lastWord(before)
	}
	return w
}

func lastWord(text string) (word, before string) {
	text = strings.TrimRightFunc(text, func(r rune) bool { return r >= utf8.RuneSelf || !letters[byte(r)] })
	from := len(text)
	for from > 0 && len(text)-from < 16 && letters[text[from-1]] {
		from--
	}
	return text[from:], text[:from]
}

// follows reports whether the rest of a phrase comes next.
func follows(text string, rest [][]string) bool {
	skipped := 0
	for len(rest) > 0 {
		gap := 0
		for gap < len(text) && !letters[text[gap]] {
			if gap == maxGap || strings.IndexByte(".;!?", text[gap]) >= 0 {
				return false
			}
			gap++
		}
		end := gap
		for end < len(text) && letters[text[end]] && end-gap <= 16 {
			end++
		}
		w := strings.ToLower(text[gap:end])
		text = text[end:]
		switch {
		case w == "":
			return false
		case slices.Contains(rest[0], w):
			rest, skipped = rest[1:], 0
		case filler(w) && skipped < maxFillers:
			skipped++
		default:
			return false
		}
	}
	return true
}

// hasWord reports whether w, in lower case, is one of the words of a line.
func hasWord(line, w string) bool {
	if w == "" {
		return false
	}
	for x := range strings.FieldsSeq(line) {
		if strings.EqualFold(x, w) {
			return true
		}
	}
	return false
}

func mark(text string) bool {
	return slices.ContainsFunc(marks, func(m string) bool { return len(text) >= len(m) && strings.EqualFold(text[:len(m)], m) })
}

// letters are the ASCII letters.
var letters = func() (is [256]bool) {
	for c := byte('a'); c <= 'z'; c++ {
		is[c], is[c-'a'+'A'] = true, true
	}
	return is
}()

// hides reports whether a text contains invisible characters or wide forms of ASCII.
func hides(text string) bool {
	for i := 0; i < len(text); {
		if text[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		if !common(r) && (wide(r) || alike[r] != 0 || termtext.Hidden(r)) {
			return true
		}
		i += size
	}
	return false
}

// common is a fast check that exempts most characters from the slow one: accented letters, dashes,
// quotes, arrows, boxes, ideographs.
func common(r rune) bool {
	return r >= 0xae && r < 0x300 || r >= 0x2010 && r < 0x2028 || r >= 0x2100 && r < 0x2fff || r >= 0x3400 && r < 0xa000
}

// alike maps letters of other scripts that look like Latin ones.
var alike = map[rune]byte{'а': 'a', 'е': 'e', 'о': 'o', 'р': 'p', 'с': 'c', 'у': 'y', 'х': 'x', 'і': 'i', 'ѕ': 's', 'ј': 'j', 'ԁ': 'd', 'һ': 'h', 'ԛ': 'q', 'ԝ': 'w', 'ո': 'n', 'ν': 'v', 'ο': 'o', 'ρ': 'p', 'α': 'a', 'ι': 'i',
	'А': 'A', 'Е': 'E', 'О': 'O', 'Р': 'P', 'С': 'C', 'Т': 'T', 'І': 'I', 'Ѕ': 'S', 'Н': 'H', 'М': 'M', 'Ο': 'O', 'Ρ': 'P', 'Ι': 'I', 'Ν': 'N', 'Υ': 'Y', 'Τ': 'T', 'Ε': 'E', 'Α': 'A'}

func wide(r rune) bool { return r >= 0xff01 && r <= 0xff5e }

// bare returns a text without invisible characters and with wide letters folded, and the original
// offset of each byte.
func bare(text string) (string, []int) {
	out, places := make([]byte, 0, len(text)), make([]int, 0, len(text))
	for i, r := range text {
		switch {
		case wide(r):
			out, places = append(out, byte(r-0xfee0)), append(places, i)
		case alike[r] != 0:
			out, places = append(out, alike[r]), append(places, i)
		case r >= utf8.RuneSelf && termtext.Hidden(r):
		case r < utf8.RuneSelf:
			out, places = append(out, byte(r)), append(places, i)
		default:
			out, places = append(out, ' '), append(places, i)
		}
	}
	return string(out), places
}
