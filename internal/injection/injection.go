// Package injection finds text that looks like prompt injection: instructions to ignore the model's
// instructions, to reveal its prompt, or to act behind the user's back, and chat template markers.
// It uses a short list of phrases and proves nothing: legitimate text about such attacks contains
// them too, and attacks can use other words.
package injection

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"metier/internal/nfkc"
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

// hides reports whether a text contains invisible characters, other forms of ASCII letters, or markup in
// words.
func hides(text string) bool {
	for i := 0; i < len(text); {
		if text[i] < utf8.RuneSelf {
			if c := text[i]; (c == '*' || c == '<' || c == '&') && markup(text, i) > 0 {
				return true
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		if !common(r) && (wide(r) || alike[r] != 0 || styled(r) != 0 || unicode.Is(unicode.Mn, r) || termtext.Hidden(r)) {
			return true
		}
		i += size
	}
	return false
}

// markup returns the length of the markup at an offset if it is in a word: asterisks, an empty tag, or the
// number of a character.
func markup(text string, i int) int {
	switch text[i] {
	case '*':
		if i == 0 || !letters[text[i-1]] {
			return 0
		}
		n := len(text[i:]) - len(strings.TrimLeft(text[i:], "*"))
		if i+n < len(text) && letters[text[i+n]] {
			return n
		}
	case '<':
		if n := strings.IndexByte(text[i:min(len(text), i+maxTag)], '>') + 1; n > 1 && i > 0 && (letters[text[i-1]] || text[i-1] == '>') && i+n < len(text) && (letters[text[i+n]] || text[i+n] == '<') {
			return n
		}
	case '&':
		if n, _ := numbered(text[i:]); n > 0 {
			return n
		}
	}
	return 0
}

const maxTag = 16 // bytes

// numbered returns the length of a character that is written as its number, as in &#116;, and an ASCII
// character with that number, or a space.
func numbered(text string) (n int, c byte) {
	digits, is := strings.CutPrefix(text[:min(len(text), maxTag)], "&#")
	if !is {
		return 0, 0
	}
	end := strings.IndexByte(digits, ';')
	if end < 1 {
		return 0, 0
	}
	base, number := 10, digits[:end]
	if number[0]|0x20 == 'x' {
		base, number = 16, number[1:]
	}
	v, err := strconv.ParseUint(number, base, 32)
	if err != nil {
		return 0, 0
	}
	if v >= utf8.RuneSelf || v < ' ' {
		v = ' '
	}
	return len("&#") + end + 1, byte(v)
}

// styled returns the ASCII letter of which a character is another form, such as a bold one, or 0.
func styled(r rune) byte {
	if r < 0x2460 || r >= 0x2500 && r < 0x1d400 || r > 0x1f189 {
		return 0
	}
	if plain := nfkc.String(string(r)); len(plain) == 1 && letters[plain[0]] {
		return plain[0]
	}
	return 0
}

// common is a fast check that exempts most characters from the slow one: accented letters, dashes,
// quotes, arrows, boxes, ideographs.
func common(r rune) bool {
	return r >= 0xae && r < 0x300 || r >= 0x2010 && r < 0x2028 || r >= 0x2100 && r < 0x2460 || r >= 0x2500 && r < 0x2fff || r >= 0x3400 && r < 0xa000
}

// alike maps letters of other scripts that look like Latin ones.
var alike = map[rune]byte{'а': 'a', 'е': 'e', 'о': 'o', 'р': 'p', 'с': 'c', 'у': 'y', 'х': 'x', 'і': 'i', 'ѕ': 's', 'ј': 'j', 'ԁ': 'd', 'һ': 'h', 'ԛ': 'q', 'ԝ': 'w', 'ո': 'n', 'ν': 'v', 'ο': 'o', 'ρ': 'p', 'α': 'a', 'ι': 'i',
	'А': 'A', 'Е': 'E', 'О': 'O', 'Р': 'P', 'С': 'C', 'Т': 'T', 'І': 'I', 'Ѕ': 'S', 'Н': 'H', 'М': 'M', 'Ο': 'O', 'Ρ': 'P', 'Ι': 'I', 'Ν': 'N', 'Υ': 'Y', 'Τ': 'T', 'Ε': 'E', 'Α': 'A'}

func wide(r rune) bool { return r >= 0xff01 && r <= 0xff5e }

// bare returns a text without invisible characters and markup in words, and with other forms of letters
// replaced, and the original offset of each byte.
func bare(text string) (string, []int) {
	out, places := make([]byte, 0, len(text)), make([]int, 0, len(text))
	skip := 0
	for i, r := range text {
		if i < skip {
			continue
		}
		if n := markup(text, i); r < utf8.RuneSelf && n > 0 {
			if _, c := numbered(text[i:]); c != 0 {
				out, places = append(out, c), append(places, i)
			}
			skip = i + n
			continue
		}
		switch {
		case styled(r) != 0:
			out, places = append(out, styled(r)), append(places, i)
		case unicode.Is(unicode.Mn, r):
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
