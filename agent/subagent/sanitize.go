package subagent

import (
	"bytes"
	"encoding/json"
	"hash/maphash"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// What a report may repeat of a child's private texts: no passage of passageMin
// characters, and no word that looks like a key or a mark of somebody's. A
// child's model can still say the same in other words, or spell it otherwise, so
// this stops copying and no leak that is meant: a report stays anybody's text.
const (
	passageMin = 48      // characters, blanks counted once and case left out
	window     = 32      // every passageMin characters hold one window that begins at a multiple of stride
	stride     = 16      // passageMin - window
	wordMin    = 12      // characters of a word that can be a key
	privateMax = 8 << 20 // characters that are compared; with more, nothing passes
	mostSpots  = 64      // places of one window that are looked at: a text of one repeated line has no more to tell
)

const (
	withheldPassage = "[withheld: copied from what stays with the helper]"
	withheldAll     = "[withheld: the helper read more than a report can be compared with]"
)

// wordForm are the words that may be keys: long, without blanks and dots. wordPart
// are the parts of one on both sides of a sign: NAME=VALUE is copied in part.
var (
	wordForm = regexp.MustCompile(`[\p{L}\p{N}_+=-]{12,}`)
	wordPart = regexp.MustCompile(`[\p{L}\p{N}_-]{12,}`)
)

// marked reports whether a word looks like a key, an id or a mark: letters with
// digits, or capitals in pieces. Plain words and dates are not.
func marked(w string) bool {
	letters, digits, lower, joined := 0, 0, 0, false
	for _, r := range w {
		switch {
		case unicode.IsDigit(r):
			digits++
		case unicode.IsLetter(r):
			letters++
			if unicode.IsLower(r) {
				lower++
			}
		default:
			joined = true
		}
	}
	return letters > 1 && digits > 0 || letters > 0 && lower == 0 && joined
}

// sieve takes out of texts what they copy from the private texts of one child.
type sieve struct {
	none     bool // nothing is private
	blind    bool // there is more, or other, than can be compared: nothing passes
	seed     maphash.Seed
	texts    [][]rune
	spots    map[uint64][]spot
	words    map[uint64][][]rune // by their first wordMin characters
	withheld int                 // passages taken out
}

// spot is where a window of a private text begins.
type spot struct{ text, at int32 }

// newSieve compares with private texts. Words of the task may be said again.
func newSieve(private []string, blind bool, task string) *sieve {
	s := &sieve{none: len(private) == 0 && !blind, blind: blind, seed: maphash.MakeSeed()}
	total := 0
	for _, p := range private {
		total += len(p)
	}
	s.blind = s.blind || total > privateMax
	if s.none || s.blind {
		return s
	}
	s.spots, s.words = map[uint64][]spot{}, map[uint64][][]rune{}
	asked, seen := strings.ToLower(task), map[string]bool{}
	for i, p := range private {
		text := squeeze(p).runes
		s.texts = append(s.texts, text)
		for at := 0; at+window <= len(text); at += stride {
			if k := s.hash(text[at : at+window]); len(s.spots[k]) < mostSpots {
				s.spots[k] = append(s.spots[k], spot{int32(i), int32(at)})
			}
		}
		for _, form := range []*regexp.Regexp{wordForm, wordPart} {
			for _, w := range form.FindAllString(visible(p), -1) {
				low := strings.ToLower(w)
				if seen[low] || !marked(w) || strings.Contains(asked, low) {
					continue
				}
				seen[low] = true
				r := squeeze(w).runes
				k := s.hash(r[:wordMin])
				s.words[k] = append(s.words[k], r)
			}
		}
	}
	return s
}

func (s *sieve) hash(r []rune) uint64 { return maphash.String(s.seed, string(r)) }

// clean returns the text without what it copies, and without characters that
// cannot be seen.
func (s *sieve) clean(text string) string {
	text = visible(strings.ToValidUTF8(text, "\uFFFD"))
	switch {
	case text == "" || s.none:
		return text
	case s.blind:
		s.withheld++
		return withheldAll
	}
	return s.cut(s.cut(text, s.passage), s.word)
}

// visible leaves out characters that have no form of their own and would split
// a word unseen.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cf, unicode.Co) || unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' {
			return -1
		}
		return r
	}, s)
}

// cut replaces what find finds, from left to right.
func (s *sieve) cut(text string, find func(in []rune, at int) (from, to int)) string {
	in := squeeze(text)
	var out strings.Builder
	done := 0 // first byte of text that is not written
	for at := 0; at < len(in.runes); {
		from, to := find(in.runes, at)
		if to <= from {
			at++
			continue
		}
		begin := max(in.at[from], done)
		out.WriteString(text[done:begin] + withheldPassage)
		_, size := utf8.DecodeRuneInString(text[in.at[to-1]:])
		done = in.at[to-1] + size
		s.withheld++
		at = to
	}
	out.WriteString(text[done:])
	return out.String()
}

// passage finds the longest common piece around the window at a place.
func (s *sieve) passage(in []rune, at int) (from, to int) {
	if at+window > len(in) {
		return 0, 0
	}
	for _, sp := range s.spots[s.hash(in[at:at+window])] {
		if f, t := grow(in, at, s.texts[sp.text], int(sp.at)); t-f > to-from {
			from, to = f, t
		}
	}
	if to-from < passageMin {
		return 0, 0
	}
	return from, to
}

// grow returns the bounds of the longest common piece around a window.
func grow(in []rune, at int, p []rune, pat int) (from, to int) {
	from, to = at, at
	for back := pat; from > 0 && back > 0 && in[from-1] == p[back-1]; back-- {
		from--
	}
	for next := pat; to < len(in) && next < len(p) && in[to] == p[next]; next++ {
		to++
	}
	return from, to
}

// word finds the longest marked word that begins at a place.
func (s *sieve) word(in []rune, at int) (from, to int) {
	if at+wordMin > len(in) {
		return 0, 0
	}
	from, to = at, at
	for _, w := range s.words[s.hash(in[at:at+wordMin])] {
		if len(w) > to-from && at+len(w) <= len(in) && string(w) == string(in[at:at+len(w)]) {
			to = at + len(w)
		}
	}
	return from, to
}

// squeezed is a text in lower case with each run of blanks as one, and where
// each of its characters stands in the text.
type squeezed struct {
	runes []rune
	at    []int
}

func squeeze(s string) squeezed {
	var q squeezed
	blank := true
	for i, r := range s {
		if unicode.IsSpace(r) || unicode.In(r, unicode.Cf) {
			if !blank && unicode.IsSpace(r) {
				q.runes, q.at = append(q.runes, ' '), append(q.at, i)
				blank = true
			}
			continue
		}
		blank = false
		q.runes, q.at = append(q.runes, unicode.ToLower(r)), append(q.at, i)
	}
	return q
}

// json cleans every string of a JSON value, keys included.
func (s *sieve) json(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		s.withheld++
		return nil
	}
	var walk func(any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case string:
			return s.clean(v)
		case []any:
			for i := range v {
				v[i] = walk(v[i])
			}
		case map[string]any:
			out := map[string]any{}
			for k, x := range v {
				out[s.clean(k)] = walk(x)
			}
			return out
		}
		return v
	}
	out, err := json.Marshal(walk(v))
	if err != nil {
		s.withheld++
		return nil
	}
	return out
}
