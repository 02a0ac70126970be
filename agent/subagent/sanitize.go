package subagent

import (
	"bytes"
	"encoding/json"
	"hash/maphash"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"metier/internal/termtext"
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
	privateMax = 4 << 20 // bytes that are compared; with more, nothing passes
	mostSpots  = 32      // places of one window that are looked at: a text of one repeated line has no more to tell
	stepsMax   = 1 << 28 // characters that are looked at in all; with more, nothing passes
)

const (
	withheldPassage = "[withheld: copied from content that stays with the subagent]"
	withheldAll     = "[withheld: the subagent read too much to compare the report with]"
)

// words calls for each word of a text that is long enough for a key: letters,
// digits, underscores and hyphens, and the parts of NAME=VALUE also together,
// since either is copied.
func words(text string, found func(word string)) {
	whole, part := 0, 0 // where they begin
	end := func(begin, to int) {
		if to-begin >= wordMin {
			found(text[begin:to])
		}
	}
	for i, r := range text {
		next := i + utf8.RuneLen(r)
		switch {
		case r == '=' || r == '+':
			end(part, i)
			part = next
		case r != '_' && r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r):
			end(part, i)
			if whole != part {
				end(whole, i)
			}
			whole, part = next, next
		}
	}
	end(part, len(text))
	if whole != part {
		end(whole, len(text))
	}
}

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
	seed     uint64
	texts    [][]rune
	spots    map[uint64][]spot
	words    map[uint64]bool  // the first passageMin characters of each at most, what is more is a passage
	lengths  map[uint64][]int // of those words by their first wordMin characters, the longest first
	withheld int              // passages taken out
	steps    int
}

// spot is where a window of a private text begins.
type spot struct{ text, at int32 }

// newSieve compares with private texts. Words of the task may be said again.
func newSieve(private []string, blind bool, task string) *sieve {
	s := &sieve{none: len(private) == 0 && !blind, blind: blind, seed: maphash.Bytes(maphash.MakeSeed(), nil)}
	total := 0
	for _, p := range private {
		total += len(p)
	}
	s.blind = s.blind || total > privateMax
	if s.none || s.blind {
		return s
	}
	s.spots, s.words = map[uint64][]spot{}, map[uint64]bool{}
	s.lengths = map[uint64][]int{}
	asked, seen := string(squeeze(task).runes), map[string]bool{}
	for i, p := range private {
		text := squeeze(p).runes
		s.texts = append(s.texts, text)
		for at := 0; at+window <= len(text); at += stride {
			if k := s.hash(text[at : at+window]); len(s.spots[k]) < mostSpots {
				s.spots[k] = append(s.spots[k], spot{int32(i), int32(at)})
			}
		}
		words(shown(strings.ToValidUTF8(p, "\uFFFD")), func(w string) {
			r := squeeze(w).runes
			if len(r) < wordMin || !marked(w) || seen[string(r)] || strings.Contains(asked, string(r)) {
				return
			}
			seen[string(r)] = true
			s.keep(r)
		})
	}
	return s
}

// keep takes up a word. Looking for it costs no more where a million words begin
// alike.
func (s *sieve) keep(word []rune) {
	word = word[:min(len(word), passageMin)]
	s.words[s.hash(word)] = true
	k := s.hash(word[:wordMin])
	if i, known := slices.BinarySearchFunc(s.lengths[k], len(word), func(a, b int) int { return b - a }); !known {
		s.lengths[k] = slices.Insert(s.lengths[k], i, len(word))
	}
}

// hash is of a window or the beginning of a word; the same text has another one
// in every sieve.
func (s *sieve) hash(r []rune) uint64 {
	h := s.seed
	for _, c := range r {
		h = (h ^ uint64(c)) * 1099511628211
		h ^= h >> 29
	}
	return h
}

// clean returns the text without what it copies, and without characters that
// cannot be seen.
func (s *sieve) clean(text string) string {
	text = shown(strings.ToValidUTF8(text, "\uFFFD"))
	switch {
	case text == "" || s.none:
		return text
	case s.blind:
		s.withheld++
		return withheldAll
	}
	if text = s.cut(text, s.passage); s.blind {
		return text
	}
	return s.cut(text, s.word)
}

// shown leaves out characters that have no form of their own and would split
// a word unseen.
func shown(s string) string {
	return strings.Map(func(r rune) rune {
		if termtext.Hidden(r) || unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' {
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
		if s.blind = s.steps > stepsMax; s.blind {
			s.withheld++
			return withheldAll
		}
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
		f, t := grow(in, at, s.texts[sp.text], int(sp.at))
		if s.steps += t - f; t-f > to-from {
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
	for _, n := range s.lengths[s.hash(in[at:at+wordMin])] {
		if at+n <= len(in) && s.words[s.hash(in[at:at+n])] {
			return at, at + n
		}
	}
	return 0, 0
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
		if unicode.IsSpace(r) || termtext.Hidden(r) {
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
