// Package bm25 is a small in-memory search index: documents with several fields, ranked by BM25F.
// Misspelled query words are replaced with similar indexed words. Results are deterministic.
package bm25

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"
)

// Index is immutable once built. It is safe for concurrent use.
type Index struct {
	n       int
	terms   map[string]uint32 // stem → term
	words   map[string]uint32 // word as written → its index in spelt
	spelt   []word            // in order of first occurrence
	sorted  []uint32          // spelt sorted by text
	start   []uint32          // term → its first posting, plus one entry at the end
	docs    []uint32          // of each posting
	weights []float32         // of each posting: saturated and normalized by length
	idf     []float32         // of each term
	scratch sync.Pool         // *scores
}

// word is a word as first written, in lower case.
type word struct {
	text string
	term uint32
}

// Result is the result of a search.
type Result struct {
	Total int // documents that contain any of the words
	Hits  []Hit
	Meant string // the query with unknown words replaced; "" when every word is known
}

// Hit is one document with its score.
type Hit struct {
	Doc   int
	Score float64
}

// Parameters of BM25F: term frequency saturation, and length normalization.
const (
	saturation = 1.2
	damping    = 0.6
)

// MaxField is how many bytes of a field are indexed. The rest is ignored.
const MaxField = 8 << 10

// Build indexes n documents. It calls each once for every document, in order. each passes the
// document's texts to add with the numbers of their fields. weights are the field weights.
func Build(n int, weights []float32, each func(doc int, add func(field int, text string))) *Index {
	x := &Index{n: n, terms: make(map[string]uint32, n), words: make(map[string]uint32, n)}
	b := builder{x: x, fields: len(weights), ends: make([]uint32, 0, n*len(weights))}
	texts := make([][]string, len(weights))
	for doc := range n {
		for f := range texts {
			texts[f] = texts[f][:0]
		}
		each(doc, func(field int, text string) { texts[field] = append(texts[field], text) })
		for _, parts := range texts {
			for _, text := range parts {
				b.add(text)
			}
			b.ends = append(b.ends, uint32(len(b.tokens)))
		}
	}
	b.post(weights)
	x.sorted = make([]uint32, len(x.spelt))
	for i := range x.sorted {
		x.sorted[i] = uint32(i)
	}
	slices.SortFunc(x.sorted, func(a, b uint32) int { return cmp.Compare(x.spelt[a].text, x.spelt[b].text) })
	x.scratch.New = func() any { return &scores{of: make([]float32, n)} }
	return x
}

// builder holds the words of all documents until their lengths are known.
type builder struct {
	x      *Index
	fields int
	tokens []uint32
	ends   []uint32 // end of each field of each document, in tokens
}

func (b *builder) add(text string) {
	if len(text) > MaxField {
		text = strings.ToValidUTF8(text[:MaxField], "")
	}
	split(text, func(w []byte) { b.tokens = append(b.tokens, b.x.learn(w)) })
}

// learn returns the term of a word. It adds a new term for an unknown word.
func (x *Index) learn(w []byte) uint32 {
	if i, ok := x.words[string(w)]; ok {
		return x.spelt[i].term
	}
	text := string(w)
	s := stem(text)
	t, ok := x.terms[s]
	if !ok {
		t = uint32(len(x.terms))
		x.terms[s] = t
	}
	x.words[text] = uint32(len(x.spelt))
	x.spelt = append(x.spelt, word{text, t})
	return t
}

// post converts the words to postings.
func (b *builder) post(weights []float32) {
	x := b.x
	mean := make([]float64, b.fields)
	begin := uint32(0)
	for i, end := range b.ends {
		mean[i%b.fields] += float64(end-begin) / float64(max(x.n, 1))
		begin = end
	}
	// Count the documents that contain each term.
	seen := make([]uint32, len(x.terms)) // the last document counted, plus one
	x.start = make([]uint32, len(x.terms)+1)
	begin = 0
	for doc := range x.n {
		end := b.ends[(doc+1)*b.fields-1]
		for _, t := range b.tokens[begin:end] {
			if seen[t] != uint32(doc)+1 {
				seen[t] = uint32(doc) + 1
				x.start[t+1]++
			}
		}
		begin = end
	}
	x.idf = make([]float32, len(x.terms))
	for t := range x.idf {
		df := float64(x.start[t+1])
		x.idf[t] = float32(math.Log(1 + (float64(x.n)-df+0.5)/(df+0.5)))
		x.start[t+1] += x.start[t]
	}
	x.docs = make([]uint32, x.start[len(x.terms)])
	x.weights = make([]float32, len(x.docs))
	next := slices.Clone(x.start)
	clear(seen)
	begin = 0
	for doc := range x.n {
		for f := range b.fields {
			end := b.ends[doc*b.fields+f]
			count := weights[f] / float32(1-damping+damping*float64(end-begin)/max(mean[f], 1))
			for _, t := range b.tokens[begin:end] {
				if seen[t] != uint32(doc)+1 {
					seen[t] = uint32(doc) + 1
					x.docs[next[t]] = uint32(doc)
					next[t]++
				}
				x.weights[next[t]-1] += count
			}
			begin = end
		}
	}
	for i, w := range x.weights {
		x.weights[i] = w * (saturation + 1) / (saturation + w)
	}
}

// scores is the scratch memory of a search.
type scores struct {
	of      []float32
	touched []uint32
}

// Search ranks the documents that contain any word of the query and are accepted by keep: by score,
// then by number. It returns at most limit documents.
func (x *Index) Search(query string, limit int, keep func(doc int) bool) Result {
	wanted, meant := x.wanted(query, keep)
	s := x.scratch.Get().(*scores)
	defer func() {
		for _, d := range s.touched {
			s.of[d] = 0
		}
		s.touched = s.touched[:0]
		x.scratch.Put(s)
	}()
	for _, w := range wanted {
		boost := w.boost * x.idf[w.term]
		from, to := x.start[w.term], x.start[w.term+1]
		for i, d := range x.docs[from:to] {
			if s.of[d] == 0 {
				s.touched = append(s.touched, d)
			}
			s.of[d] += boost * x.weights[int(from)+i]
		}
	}
	r := Result{Meant: meant}
	best := make([]Hit, 0, min(limit, x.n)+1)
	worst := float32(0)
	for _, d := range s.touched {
		score := s.of[d]
		full := len(best) == limit
		if keep != nil && !keep(int(d)) {
			continue
		}
		r.Total++
		if limit <= 0 || full && (score < worst || score == worst && int(d) > best[limit-1].Doc) {
			continue
		}
		h := Hit{int(d), float64(score)}
		at, _ := slices.BinarySearchFunc(best, h, compare)
		if full {
			best = best[:limit-1]
		}
		best = slices.Insert(best, at, h)
		worst = float32(best[len(best)-1].Score)
	}
	r.Hits = best
	return r
}

func compare(a, b Hit) int { return cmp.Or(-cmp.Compare(a.Score, b.Score), cmp.Compare(a.Doc, b.Doc)) }
