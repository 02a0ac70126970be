package bm25

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

func index(docs ...string) *Index {
	return Build(len(docs), []float32{1}, func(i int, add func(int, string)) { add(0, docs[i]) })
}

func wordsOf(text string) []string {
	var out []string
	split(text, func(w []byte) { out = append(out, string(w)) })
	return out
}

func TestSplit(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                            "",
		"Hello, world-wide WEB":       "hello world wide web",
		"parseHTMLFile fooBar":        "parsehtmlfile parse html file foobar foo bar",
		"k8s Python3":                 "k8s python3",
		"GitHub's":                    "github git hub s",
		"Ｆｕｌｌ ｗｉｄｔｈ":                  "full width",
		"Grüße Straße":                "grüße straße",
		"cafe\u0301":                  "café",
		"日本語のテスト":                     "日本 本語 語の のテ テス スト",
		"a漢b":                         "a 漢 b",
		"x\xffy":                      "x y",
		strings.Repeat("a", 100):      strings.Repeat("a", maxWord),
		"ä" + strings.Repeat("ö", 99): "ä" + strings.Repeat("ö", 31),
	} {
		if got := strings.Join(wordsOf(in), " "); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// One form of a word finds the others.
func TestStem(t *testing.T) {
	t.Parallel()
	for _, group := range []string{"test tests testing tested", "create creates creating created creation", "deploy deploys deployment deployments deploying", "query queries",
		"run running runs", "optimize optimization optimizing optimise optimisation", "generate generation generating generated", "box boxes", "class classes", "compress compression",
		"migrate migration migrations", "review reviews reviewing"} {
		words := strings.Fields(group)
		for _, w := range words {
			if stem(w) != stem(words[0]) {
				t.Errorf("%s has the stem %s, %s has %s", w, stem(w), words[0], stem(words[0]))
			}
		}
	}
	for _, w := range []string{"css", "status", "analysis", "string", "bed", "Über"} {
		if got := stem(w); got != w {
			t.Errorf("%s became %s", w, got)
		}
	}
}

func found(x *Index, query string) []int {
	var out []int
	for _, h := range x.Search(query, 10, nil).Hits {
		out = append(out, h.Doc)
	}
	return out
}

func TestSearch(t *testing.T) {
	t.Parallel()
	x := index("fill in PDF forms", "merge and split pdf files", "send e-mail", "write Kubernetes manifests", "JavaScript linting", "the the the", "fill in PDF forms")
	for query, want := range map[string][]int{
		"pdf form":       {0, 6, 1}, // equal scores by number
		"splitting":      {1},       // another form
		"kuberntes":      {3},       // misspelled
		"k8s":            {3},       // abbreviation
		"manifes":        {3},       // prefix
		"how to lint":    {4},       // filler words do not count
		"the":            {5},       // unless there is nothing else
		"zzz":            nil,
		"":               nil,
		"🙂":              nil,
		"javascript zzz": {4},
	} {
		if got := found(x, query); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", query, got, want)
		}
	}
	r := x.Search("kuberntes manifsts", 10, nil)
	if r.Meant != "kubernetes manifests" {
		t.Errorf("meant %q", r.Meant)
	}
	if r := x.Search("pdf", 1, nil); r.Total != 3 || len(r.Hits) != 1 || r.Meant != "" {
		t.Errorf("%+v", r)
	}
	if r := x.Search("pdf", 10, func(d int) bool { return d == 6 }); r.Total != 1 || r.Hits[0].Doc != 6 {
		t.Errorf("%+v", r)
	}
	if r := x.Search("pdf", 0, nil); r.Total != 3 || len(r.Hits) != 0 {
		t.Errorf("%+v", r)
	}
	if r := index().Search("pdf", 3, nil); r.Total != 0 || len(r.Hits) > 0 {
		t.Errorf("%+v", r)
	}
}

func TestFieldsWeigh(t *testing.T) {
	t.Parallel()
	texts := [][2]string{{"alpha", "beta beta"}, {"beta", "alpha alpha"}}
	x := Build(2, []float32{3, 1}, func(i int, add func(int, string)) { add(0, texts[i][0]); add(1, texts[i][1]) })
	if got := found(x, "alpha"); !slices.Equal(got, []int{0, 1}) {
		t.Errorf("%v", got)
	}
	if got := found(x, "beta"); !slices.Equal(got, []int{1, 0}) {
		t.Errorf("%v", got)
	}
}

// The best of many are those that a full sort returns.
func TestLimitTakesTheBest(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	var docs []string
	for range 500 {
		docs = append(docs, strings.Repeat("cat ", 1+r.IntN(5))+strings.Repeat("dog ", r.IntN(40)))
	}
	x := index(docs...)
	all := x.Search("cat dog", len(docs), nil).Hits
	if !slices.IsSortedFunc(all, compare) || len(all) != len(docs) {
		t.Fatalf("%d hits, not in order", len(all))
	}
	for _, n := range []int{1, 2, 10, 499} {
		if got := x.Search("cat dog", n, nil).Hits; !slices.Equal(got, all[:n]) {
			t.Errorf("the first %d are %v, want %v", n, got, all[:n])
		}
	}
}

func FuzzSearch(f *testing.F) {
	x := index("fill in PDF forms", "漢字 テスト", "straße GitHub", "a b c")
	for _, q := range []string{"pdf", "漢", "\xff", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "grhub"} {
		f.Add(q, q)
	}
	f.Fuzz(func(t *testing.T, q, text string) {
		a, b := x.Search(q, 3, nil), x.Search(q, 3, nil)
		if !slices.Equal(a.Hits, b.Hits) || a.Meant != b.Meant {
			t.Errorf("%q: %v and then %v", q, a, b)
		}
		own := index(text, "other words")
		for _, w := range wordsOf(text) {
			if len(w) == 0 || len(w) > maxWord {
				t.Errorf("%q has the word %q", text, w)
			}
			if _, ok := own.term(w); !ok {
				t.Errorf("%q was not learnt", w)
			}
		}
	})
}

// big is 100,000 documents with word frequencies like a language: few words are
// frequent.
func big() (docs []string, vocabulary []string) {
	r := rand.New(rand.NewPCG(7, 7))
	syllables := strings.Fields("ba co de fi gu ha je ki lo mu na pe qui ro sa te vu wa xi zo tra ple sto bri cla dre fro gno")
	known := map[string]bool{}
	for len(vocabulary) < 60_000 {
		w := ""
		for range 2 + r.IntN(4) {
			w += syllables[r.IntN(len(syllables))]
		}
		if !known[w] {
			known[w] = true
			vocabulary = append(vocabulary, w)
		}
	}
	z := rand.NewZipf(r, 1.1, 8, uint64(len(vocabulary)-1))
	for range 100_000 {
		var b strings.Builder
		for range 15 + r.IntN(40) {
			b.WriteString(vocabulary[z.Uint64()])
			b.WriteByte(' ')
		}
		docs = append(docs, b.String())
	}
	return docs, vocabulary
}

func BenchmarkBig(b *testing.B) {
	docs, vocabulary := big()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	began := time.Now()
	x := index(docs...)
	took := time.Since(began)
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.Logf("build %v, heap kept %d MB, allocated %d MB, %d words, %d postings", took, (after.HeapAlloc-before.HeapAlloc)>>20, (after.TotalAlloc-before.TotalAlloc)>>20, len(x.spelt), len(x.docs))
	r := rand.New(rand.NewPCG(3, 3))
	z := rand.NewZipf(r, 1.1, 8, uint64(len(vocabulary)-1))
	var times []time.Duration
	for range 1000 {
		var q []string
		for range 2 + r.IntN(5) {
			w := vocabulary[z.Uint64()]
			if r.IntN(10) == 0 {
				i := r.IntN(len(w))
				w = w[:i] + "x" + w[i+1:]
			}
			q = append(q, w)
		}
		began := time.Now()
		x.Search(strings.Join(q, " "), 10, func(int) bool { return true })
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	b.Logf("p50 %v, p99 %v, max %v", times[500], times[990], times[999])
	for b.Loop() {
		x.Search(vocabulary[10]+" "+vocabulary[500], 10, nil)
	}
	runtime.KeepAlive(docs)
}
