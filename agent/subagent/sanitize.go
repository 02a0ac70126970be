package subagent

import (
	"encoding/json"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// What a summary may repeat of a child's private texts: no passage of
// passageMin characters, and no word that looks like a key or a mark of
// somebody's. A child's model can still say the same in other words, so this
// stops copying and no leak that is meant: a summary stays anybody's text.
const (
	passageMin = 48       // characters, blanks counted once and case left out
	window     = 32       // every passageMin characters hold one window that begins at a multiple of stride
	stride     = 16       // passageMin - window
	privateMax = 32 << 20 // characters that are compared; with more, nothing passes
)

const (
	withheldPassage = "[withheld: copied from what stays with the helper]"
	withheldAll     = "[withheld: the helper read more than a summary can be compared with]"
)

// wordForm are the words that may be keys: long, without blanks and dots.
var wordForm = regexp.MustCompile(`[\p{L}\p{N}_+=-]{12,}`)

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

// sanitize takes out of a text what it copies from private ones, and counts
// what it took. Words of the task may be said again.
func sanitize(text string, private []string, task string) (string, int) {
	if text == "" || len(private) == 0 {
		return text, 0
	}
	total := 0
	for _, p := range private {
		total += len(p)
	}
	if total > privateMax {
		return withheldAll, 1
	}
	text, n := withoutPassages(text, private)
	words := map[string]bool{}
	for _, p := range private {
		for _, w := range wordForm.FindAllString(p, -1) {
			if marked(w) {
				words[strings.ToLower(w)] = true
			}
		}
	}
	for _, w := range wordForm.FindAllString(task, -1) {
		delete(words, strings.ToLower(w))
	}
	text = wordForm.ReplaceAllStringFunc(text, func(w string) string {
		if !words[strings.ToLower(w)] {
			return w
		}
		n++
		return withheldPassage
	})
	return text, n
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
			if !blank {
				q.runes, q.at = append(q.runes, ' '), append(q.at, i)
			}
			blank = true
			continue
		}
		blank = false
		q.runes, q.at = append(q.runes, unicode.ToLower(r)), append(q.at, i)
	}
	return q
}

// spot is where a window of a private text begins.
type spot struct{ text, at int }

// withoutPassages replaces every passage of at least passageMin characters that
// a private text has, too.
func withoutPassages(text string, private []string) (string, int) {
	in := squeeze(text)
	if len(in.runes) < passageMin {
		return text, 0
	}
	texts := make([]squeezed, len(private))
	spots := map[string][]spot{}
	const mostSpots = 8 // of one window: a text of one repeated line has no more to tell
	for i, p := range private {
		texts[i] = squeeze(p)
		for at := 0; at+window <= len(texts[i].runes); at += stride {
			k := string(texts[i].runes[at : at+window])
			if len(spots[k]) < mostSpots {
				spots[k] = append(spots[k], spot{i, at})
			}
		}
	}
	var out strings.Builder
	n, done := 0, 0 // done: first byte of text that is not written
	for at := 0; at+window <= len(in.runes); {
		from, to := 0, 0
		for _, s := range spots[string(in.runes[at:at+window])] {
			if f, t := in.grow(at, texts[s.text], s.at); t-f > to-from {
				from, to = f, t
			}
		}
		if to-from < passageMin {
			at++
			continue
		}
		begin := max(in.at[from], done)
		out.WriteString(text[done:begin] + withheldPassage)
		done = in.at[to-1] + utf8.RuneLen(rune0(text[in.at[to-1]:]))
		n, at = n+1, to
	}
	out.WriteString(text[done:])
	return out.String(), n
}

func rune0(s string) rune {
	r, _ := utf8.DecodeRuneInString(s)
	return r
}

// grow returns the bounds of the longest common piece around a window.
func (q squeezed) grow(at int, p squeezed, pat int) (from, to int) {
	from, to = at, at+window
	for back := pat; from > 0 && back > 0 && q.runes[from-1] == p.runes[back-1]; back-- {
		from--
	}
	for next := pat + window; to < len(q.runes) && next < len(p.runes) && q.runes[to] == p.runes[next]; next++ {
		to++
	}
	return from, to
}

// sanitizeJSON does the same to every string of a JSON value, keys included.
func sanitizeJSON(raw json.RawMessage, private []string, task string) (json.RawMessage, int) {
	if raw == nil {
		return nil, 0
	}
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return nil, 1
	}
	n := 0
	clean := func(s string) string {
		s, k := sanitize(s, private, task)
		n += k
		return s
	}
	var walk func(any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case string:
			return clean(v)
		case []any:
			for i := range v {
				v[i] = walk(v[i])
			}
		case map[string]any:
			out := map[string]any{}
			for k, x := range v {
				out[clean(k)] = walk(x)
			}
			return out
		}
		return v
	}
	out, err := json.Marshal(walk(v))
	if err != nil {
		return nil, n + 1
	}
	return out, n
}
