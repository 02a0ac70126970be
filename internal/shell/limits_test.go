package shell

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/syntax"
)

// started returns a starter that has read a text.
func started(t *testing.T, src string) *starter {
	t.Helper()
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash), syntax.KeepComments(true)).Parse(strings.NewReader(src), "")
	if err != nil {
		t.Fatal(err)
	}
	s := newStarter()
	s.walk(src, file, false)
	s.all()
	return s
}

// redirects returns redirects to many files.
func redirects(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, ">%04d ", i)
	}
	return b.String()
}

// An archiver's chain of options repeats its words many times; each is compared with a file once.
func TestFacts_ComparesEachWordWithAFileOnce(t *testing.T) {
	t.Parallel()
	const names = 4800
	s := started(t, "./zz; tar "+strings.Repeat("-a ", 690)+";"+redirects(names))
	if most := 2 * len("-a") * names; s.searches > most {
		t.Errorf("%d bytes were searched; at most %d are needed", s.searches, most)
	}
	if s.blind {
		t.Error("an archive that no word names counts as written")
	}
}

func TestMention_IsTrueOverTheLimit(t *testing.T) {
	t.Parallel()
	words := map[string]bool{strings.Repeat("a", MaxBytes): true}
	names := map[string]bool{}
	for i := range maxSearch/MaxBytes + 1 {
		names[fmt.Sprint(i)] = true
	}
	s := newStarter()
	if !s.mention(words, names) {
		t.Error("names that were not searched count as absent")
	}
	if s.searches > maxSearch+MaxBytes {
		t.Errorf("%d bytes were searched", s.searches)
	}
}

// A long word counts for each command that it may be a word of.
func TestFacts_LimitsTheLengthOfWords(t *testing.T) {
	t.Parallel()
	s := started(t, `find "$1" `+strings.Repeat("find ", 700)+strings.Repeat("a", 28000))
	if s.length > maxLength+MaxBytes {
		t.Errorf("commands of %d bytes were read", s.length)
	}
	if !s.blind {
		t.Error("the commands that were not read are not unknown")
	}
}

// Texts in a text count together.
func TestFacts_LimitsTheLengthOfTexts(t *testing.T) {
	t.Parallel()
	s := started(t, strings.Repeat("eval ", 60)+"'"+strings.Repeat("a b;", 6000)+"'")
	if s.nested > maxNested+MaxBytes {
		t.Errorf("texts of %d bytes were read", s.nested)
	}
	if !s.blind {
		t.Error("the texts that were not read are not unknown")
	}
}

// These texts have parts that were copied once for each of their bytes, or for each command.
func TestFacts_CopiesFewBytes(t *testing.T) {
	begin, end := "", ""
	for i := range 60 {
		begin += fmt.Sprintf("cat <<DDDD%02d\n$(", i)
		end = fmt.Sprintf(")\nDDDD%02d\n", i) + end
	}
	for name, src := range map[string]string{
		"labels of sed":        `find "$1" ` + strings.Repeat("sed ", 100) + "-e '" + strings.Repeat("t;", 14000) + "'",
		"continued lines":      begin + "cat <<Z\n" + strings.Repeat("a\\\n", 9000) + "b\nZ\n" + end,
		"many actions of find": strings.Repeat("find -exec $a -exec ", 1600),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := Facts(src); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		n := (after.TotalAlloc - before.TotalAlloc) >> 20
		t.Logf("%s: %d MB", name, n)
		if n > 200 {
			t.Errorf("%s: %d MB were allocated", name, n)
		}
	}
}
