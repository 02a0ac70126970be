package bm25

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"metier/internal/nfkc"
)

// maxWord is the maximum length of a word in bytes. The rest is cut off.
const maxWord = 64

// split calls f for each word of a text, in lower case and NFKC form. Words are runs of letters,
// digits, and marks. For a camel case word, it also passes the parts; for East Asian text, which
// has no spaces, the pairs of characters. f must not retain its argument.
func split(text string, f func(word []byte)) {
	text = nfkc.String(text)
	var buf [maxWord]byte
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRuneInString(text[at:])
		if !letter(r) {
			at += size
			continue
		}
		pairs := eastAsian(r)
		end := at + size
		plain := r < utf8.RuneSelf
		for end < len(text) {
			r, size := utf8.DecodeRuneInString(text[end:])
			if !letter(r) || eastAsian(r) != pairs {
				break
			}
			plain = plain && r < utf8.RuneSelf
			end += size
		}
		run := text[at:end]
		switch {
		case pairs:
			eachPair(run, f)
		case plain:
			emit(run, &buf, f)
			camel(run, &buf, f)
		default:
			run = strings.ToLower(run)
			if len(run) > maxWord {
				run = strings.ToValidUTF8(run[:maxWord], "")
			}
			f([]byte(run))
		}
		at = end
	}
}

// HasWord reports whether a text contains a searchable word.
func HasWord(text string) bool { return strings.IndexFunc(text, letter) >= 0 }

func emit(run string, buf *[maxWord]byte, f func([]byte)) {
	n := copy(buf[:], run)
	for i, c := range buf[:n] {
		if c >= 'A' && c <= 'Z' {
			buf[i] = c + 'a' - 'A'
		}
	}
	f(buf[:n])
}

// camel splits words such as fooBar and HTMLParser.
func camel(run string, buf *[maxWord]byte, f func([]byte)) {
	upper := func(i int) bool { return run[i] >= 'A' && run[i] <= 'Z' }
	from := 0
	for i := 1; i < len(run); i++ {
		if upper(i) && (!upper(i-1) || i+1 < len(run) && !upper(i+1) && run[i+1] > '9') {
			emit(run[from:i], buf, f)
			from = i
		}
	}
	if from > 0 {
		emit(run[from:], buf, f)
	}
}

func letter(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || r >= utf8.RuneSelf && unicode.IsMark(r)
}

func eastAsian(r rune) bool {
	return r >= 0x2e80 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Bopomofo)
}

func eachPair(run string, f func([]byte)) {
	_, first := utf8.DecodeRuneInString(run)
	if first == len(run) {
		f([]byte(run))
		return
	}
	for at := 0; at+first < len(run); {
		_, second := utf8.DecodeRuneInString(run[at+first:])
		f([]byte(run[at : at+first+second]))
		at, first = at+first, second
	}
}

// stem removes the endings of an English word, so that different forms match. It is conservative
// and leaves a word unchanged in doubt.
func stem(w string) string {
	if len(w) < 4 || w[len(w)-1] >= utf8.RuneSelf || w[0] >= utf8.RuneSelf {
		return w
	}
	w = plural(w)
	for _, e := range []struct {
		end, by string
		least   int // letters that must remain
	}{{"ization", "iz", 3}, {"isation", "iz", 3}, {"ation", "at", 3}, {"ition", "it", 3}, {"ction", "ct", 2}, {"sion", "s", 3}, {"ment", "", 5}, {"ingly", "", 3},
		{"ally", "al", 3}, {"ily", "y", 3}, {"ing", "", 3}, {"ied", "y", 2}, {"ed", "", 3}, {"ise", "iz", 4}, {"ly", "", 4}} {
		rest, cut := strings.CutSuffix(w, e.end)
		if !cut {
			continue
		}
		if len(rest) < e.least || !strings.ContainsAny(rest, "aeiouy") {
			break
		}
		w = rest + e.by
		if n := len(w); e.by == "" && n > 3 && w[n-1] == w[n-2] && !strings.ContainsRune("lsz", rune(w[n-1])) {
			w = w[:n-1] // running, run
		}
		break
	}
	if len(w) > 3 && w[len(w)-1] == 'e' {
		w = w[:len(w)-1]
	}
	return w
}

func plural(w string) string {
	rest, cut := strings.CutSuffix(w, "s")
	switch {
	case !cut, strings.HasSuffix(rest, "s"), strings.HasSuffix(rest, "u"), strings.HasSuffix(rest, "i"):
		return w
	case strings.HasSuffix(rest, "ie") && len(rest) > 4:
		return rest[:len(rest)-2] + "y"
	case strings.HasSuffix(rest, "sse"), strings.HasSuffix(rest, "xe"), strings.HasSuffix(rest, "che"), strings.HasSuffix(rest, "she"):
		return rest[:len(rest)-1]
	}
	return rest
}

func set(words string) map[string]bool {
	out := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		out[w] = true
	}
	return out
}

// filler are stop words. A query that consists only of them is searched as is.
var filler = sync.OnceValue(func() map[string]bool {
	return set(`a about all also am an and any are as at be been but by can could did do does doing for from get had has have
	having he her him his how i if in into is it its just like make me my need of on one or our out please she should so some
	such than that the their them then there these they this those to up us use used using want was way we were what when
	where which who whom why will with would you your`)
})

// abbreviations maps common short forms to the words that skills spell out, and vice versa.
var abbreviations = sync.OnceValue(func() map[string][]string {
	out := map[string][]string{}
	for group := range strings.SplitSeq(`js javascript; ts typescript; k8s kubernetes; db database; docs documentation; doc document; repo repository;
		config configuration; auth authentication login; ppt pptx powerpoint slides presentation deck; xls xlsx excel spreadsheet; docx word;
		ml machinelearning; perf performance; env environment; deps dependencies; pr pullrequest; infra infrastructure; py python; postgres postgresql psql;
		i18n internationalization translation localization; a11y accessibility; e2e endtoend; img image picture; pic picture photo image; app application;
		ci pipeline; vuln vulnerability; sec security; mail email; e-mail email; web website; site website; bug defect; cli terminal; aws amazon;
		gh github; llm gpt; spec specification; msg message; tz timezone; chart graph plot; fix repair debug; speed performance; slow performance`, ";") {
		words := strings.Fields(group)
		for _, w := range words {
			for _, o := range words {
				if o != w {
					out[w] = append(out[w], o)
				}
			}
		}
	}
	return out
})
