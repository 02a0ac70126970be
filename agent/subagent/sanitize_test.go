package subagent

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func clean(text string, private ...string) string { return newSieve(private, false, "").clean(text) }

// req: A-167
func TestWhatIsCopiedIsWithheld(t *testing.T) {
	t.Parallel()
	const body = "Always greet the customer by the name that stands on the third line of the order.\nNever say the price before."
	for name, c := range map[string]struct{ text, private, want string }{
		"a passage":                  {"I was told: always greet the customer by the name that stands on the third line. Fine.", body, "I was told: " + withheldPassage + ". Fine."},
		"in capitals and new lines":  {"X ALWAYS GREET\n  the Customer by the\tname that stands on THE third line of the order. X", body, "X " + withheldPassage + "X"},
		"with letters nobody sees":   {"X always gr\u200beet the cust\u00adomer by the name that stands on the third line. X", body, "X " + withheldPassage + ". X"},
		"a short one":                {"Greet the customer by the name.", body, "Greet the customer by the name."},
		"a key":                      {"It says K3Y-1234-abcd here.", "the key is k3y-1234-ABCD.", "It says " + withheldPassage + " here."},
		"a key behind a sign":        {"token=K3Y-1234-abcd", "NAME=K3Y-1234-abcd", "token=" + withheldPassage},
		"a key in a longer word":     {"xxK3Y-1234-abcdxx", "K3Y-1234-abcd", "xx" + withheldPassage + "xx"},
		"a key with a hidden letter": {"K3Y-12\u200b34-abcd", "K3Y-1234-abcd", withheldPassage},
		"capitals in pieces":         {"SECRET_OF_MINE!", "SECRET_OF_MINE", withheldPassage + "!"},
		"a plain long word":          {"Donaudampfschifffahrt", "Donaudampfschifffahrt", "Donaudampfschifffahrt"},
		"a date":                     {"2026-11-22 12:30", "2026-11-22 12:30", "2026-11-22 12:30"},
		"nothing private":            {"Fine.", "", "Fine."},
		"no UTF-8":                   {"a\xffb", "x", "a\uFFFDb"},
		"escapes of a terminal":      {"a\x1b[2Jb", "x", "a[2Jb"},
	} {
		if got := clean(c.text, c.private); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestWordsOfTheTaskMayBeSaidAgain(t *testing.T) {
	t.Parallel()
	s := newSieve([]string{"order A17-2026-xyz: 12", "other B17-2026-xyz"}, false, "Look at order a17-2026-XYZ.")
	if got := s.clean("A17-2026-xyz has 12, B17-2026-xyz none"); got != "A17-2026-xyz has 12, "+withheldPassage+" none" || s.withheld != 1 {
		t.Errorf("%q, %d", got, s.withheld)
	}
}

// req: A-167
func TestWhatCannotBeComparedDoesNotPass(t *testing.T) {
	t.Parallel()
	for _, s := range []*sieve{newSieve(nil, true, ""), newSieve([]string{strings.Repeat("x", privateMax+1)}, false, "")} {
		if got := s.clean("anything"); got != withheldAll || s.withheld != 1 {
			t.Errorf("%q", got)
		}
		if got := s.json(json.RawMessage(`{"a":1}`)); strings.Contains(string(got), `"a"`) {
			t.Errorf("%s", got)
		}
	}
}

// req: A-167
func TestStringsAndKeysOfAResultAreCleaned(t *testing.T) {
	t.Parallel()
	s := newSieve([]string{"K3Y-1234-abcd"}, false, "")
	if got := string(s.json(json.RawMessage(`{"K3Y-1234-abcd": [9007199254740993, 1.50, "x K3Y-1234-abcd", null, true]}`))); got != `{"`+withheldPassage+`":[9007199254740993,1.50,"x `+withheldPassage+`",null,true]}` {
		t.Error(got)
	}
	if got := s.json(json.RawMessage(`{"cut`)); got != nil || s.withheld != 3 {
		t.Errorf("%s, %d", got, s.withheld)
	}
}

// Whatever is private, and wherever it is copied, no passage of passageMin characters and no marked
// word is released. Other text is unchanged.
//
// req: A-167
func TestNothingPrivateOfThatLengthComesOut(t *testing.T) {
	t.Parallel()
	letters := rapid.StringOfN(rapid.SampledFrom([]rune("abcdefgh ijklmnop\nÄöß日本")), passageMin, 400, -1)
	rapid.Check(t, func(r *rapid.T) {
		private := []string{letters.Draw(r, "one"), letters.Draw(r, "two")}
		p := []rune(private[rapid.IntRange(0, 1).Draw(r, "which")])
		from := rapid.IntRange(0, len(p)-passageMin).Draw(r, "from")
		copied := string(p[from : from+rapid.IntRange(passageMin, len(p)-from).Draw(r, "long")])
		key := rapid.StringMatching(`[A-Z]{3,6}-[0-9]{6,9}-[a-z]{2,5}`).Draw(r, "key")
		before, after := rapid.StringMatching(`[0-9 .,]{0,60}`).Draw(r, "before"), rapid.StringMatching(`[0-9 .,]{0,60}`).Draw(r, "after")
		private = append(private, "the key "+key)
		got := clean(before+copied+after+" "+strings.ToLower(key)+"!", private...)
		if strings.Contains(strings.ToLower(got), strings.ToLower(key)) {
			r.Fatalf("the key %q is in %q", key, got)
		}
		if n := len(squeeze(copied).runes); n >= passageMin && shared(squeeze(got).runes, private) >= passageMin {
			r.Fatalf("%q holds too much of %q", got, copied)
		}
		if !strings.HasSuffix(got, "!") {
			r.Fatalf("%q was cut", got)
		}
	})
}

// shared returns the length of the longest passage that a text shares with
// others.
func shared(text []rune, others []string) (most int) {
	for _, o := range others {
		q := squeeze(o).runes
		for i := range text {
			for j := range q {
				n := 0
				for i+n < len(text) && j+n < len(q) && text[i+n] == q[j+n] {
					n++
				}
				most = max(most, n)
			}
		}
	}
	return most
}

func FuzzSieve(f *testing.F) {
	f.Add("a text that copies a longer private passage, which must not be said again", "a text that copies a longer private passage, which must not be said", "task")
	f.Add("K3Y-1234-abcd\xff", "NAME=K3Y-1234-abcd", "")
	f.Add(strings.Repeat("ab ", 60), strings.Repeat("ab ", 90), "ab")
	f.Add("İstanbul İİİİ "+strings.Repeat("ß", 80), strings.Repeat("ß", 80), "")
	f.Fuzz(func(t *testing.T, text, private, task string) {
		s := newSieve([]string{private}, false, task)
		got := s.clean(text)
		if !utf8.ValidString(got) {
			t.Errorf("%q", got)
		}
		rest := strings.ReplaceAll(got, withheldPassage, "\x00")
		for _, piece := range strings.Split(rest, "\x00") {
			if len(text) < 300 && len(private) < 300 && shared(squeeze(piece).runes, []string{private}) >= passageMin {
				t.Errorf("%q holds a passage of %q", piece, private)
			}
		}
		b, err := json.Marshal(map[string]string{"a": text})
		if err == nil && !json.Valid(s.json(b)) {
			t.Errorf("%s", b)
		}
	})
}

// Private text designed to be slow to compare is compared in a bounded number of steps. If they are
// not enough, nothing is released.
func TestWhatIsMadeToBeSlowIsBounded(t *testing.T) {
	t.Parallel()
	var b, c strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&b, "the same words in every line here %d\n", i)
		fmt.Fprintf(&c, "the same words in every line here x%d\n", i)
	}
	s := newSieve([]string{b.String()}, false, "")
	s.clean(c.String())
	if s.steps == 0 || s.steps > stepsMax+1<<20 {
		t.Errorf("%d steps", s.steps)
	}
	s.steps = stepsMax
	if got := s.clean(c.String()); got != withheldAll || s.clean("anything") != withheldAll {
		t.Errorf("%.100q", got)
	}
}

// Fifty thousand keys with a common prefix, and a report that repeats it, are searched in one pass.
// The longest matching key is removed.
func TestKeysThatBeginAlikeAreFound(t *testing.T) {
	t.Parallel()
	var keys, longer strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&keys, "KEYKEYKEYKEY%06d ", i)
	}
	for i := range 100 {
		fmt.Fprintf(&longer, "Z%dQ", i*i)
	}
	long := longer.String()
	s := newSieve([]string{keys.String(), "KEYKEYKEYKEY000007-more " + long}, false, "")
	if got := s.clean(strings.Repeat("KEYKEYKEYKEY", 20_000)); strings.Contains(got, withheldPassage) {
		t.Error("the beginning of a key was taken for one")
	}
	for in, want := range map[string]string{
		"a keykeykeykey000007-more b": "a " + withheldPassage + " b",
		"a KEYKEYKEYKEY000007 b":      "a " + withheldPassage + " b",
		"a KEYKEYKEYKEY0000 b":        "a KEYKEYKEYKEY0000 b",
		"a " + long + " b":            "a" + withheldPassage + " b",
	} {
		if got := s.clean(in); got != want {
			t.Errorf("%.60q became %.200q, want %q", in, got, want)
		}
	}
}
