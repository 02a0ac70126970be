package bm25

import (
	"cmp"
	"slices"
	"strings"

	"metier/internal/nearest"
)

// want is a term that a query asks for.
type want struct {
	term  uint32
	boost float32
}

// Weights of inexact matches.
const (
	asAbbreviation = 0.4 // js for javascript
	asBeginning    = 0.4 // kube for kubernetes
	asNear         = 0.8 // one letter differs; less for two
)

// wanted converts a query to terms. It also returns the query with unknown words replaced.
// Replacements come only from kept documents.
func (x *Index) wanted(query string, keep func(int) bool) ([]want, string) {
	var asked []string
	split(query, func(w []byte) { asked = append(asked, string(w)) })
	words := slices.DeleteFunc(slices.Clone(asked), func(w string) bool { return filler()[w] })
	if len(words) == 0 {
		words = asked
	}
	var out []want
	add := func(t uint32, boost float32) {
		for i := range out {
			if out[i].term == t {
				out[i].boost = max(out[i].boost, boost)
				return
			}
		}
		out = append(out, want{t, boost})
	}
	meant := map[string]string{}
	for _, w := range words {
		t, known := x.term(w)
		if known {
			add(t, 1)
		}
		others := abbreviations()[w]
		for _, o := range others {
			if t, ok := x.term(o); ok {
				add(t, asAbbreviation)
			}
		}
		begins := x.beginning(w)
		for _, t := range begins {
			add(t, asBeginning)
		}
		if known || len(others) > 0 || len(begins) > 0 {
			continue
		}
		if i, distance := x.near(w, keep); distance > 0 {
			add(x.spelt[i].term, asNear/float32(distance))
			meant[w] = x.spelt[i].text
		}
	}
	if len(meant) == 0 {
		return out, ""
	}
	for i, w := range asked {
		asked[i] = cmp.Or(meant[w], w)
	}
	return out, strings.Join(asked, " ")
}

func (x *Index) term(w string) (uint32, bool) {
	if i, ok := x.words[w]; ok {
		return x.spelt[i].term, true
	}
	t, ok := x.terms[stem(w)]
	return t, ok
}

// beginning returns terms of longer words that begin with w: at most the four most frequent ones.
func (x *Index) beginning(w string) []uint32 {
	const (
		shortest = 4
		most     = 4
		looked   = 256
	)
	if len(w) < shortest || w[0] >= 0x80 {
		return nil
	}
	at, _ := slices.BinarySearchFunc(x.sorted, w, func(i uint32, w string) int { return cmp.Compare(x.spelt[i].text, w) })
	var out []uint32
	own, _ := x.term(w)
	for _, i := range x.sorted[at:min(at+looked, len(x.sorted))] {
		s := x.spelt[i]
		if !strings.HasPrefix(s.text, w) {
			break
		}
		if s.text != w && s.term != own && !slices.Contains(out, s.term) {
			out = append(out, s.term)
		}
	}
	slices.SortStableFunc(out, func(a, b uint32) int { return cmp.Compare(x.holders(b), x.holders(a)) })
	return out[:min(len(out), most)]
}

// holders returns the number of documents that contain a term.
func (x *Index) holders(t uint32) uint32 { return x.start[t+1] - x.start[t] }

// longest is the maximum length in bytes of a word that is corrected.
const longest = 32

// kept reports whether a kept document contains a term.
func (x *Index) kept(t uint32, keep func(int) bool) bool {
	return keep == nil || slices.ContainsFunc(x.docs[x.start[t]:x.start[t+1]], func(d uint32) bool { return keep(int(d)) })
}

// near returns the most similar known word in a kept document, and by how many letters it differs.
// The distance is 0 if no word is similar.
func (x *Index) near(w string, keep func(int) bool) (best uint32, distance int) {
	const shortest = 3
	if len(w) < shortest || len(w) > longest {
		return 0, 0
	}
	far := 1
	if len(w) > 6 {
		far = 2
	}
	found := far + 1
	for i, s := range x.spelt {
		most := far
		if w[0] != s.text[0] {
			most = 1 // the first letter is usually right; with two edits, it is another word
		}
		d := nearest.Edits(w, s.text, most)
		if d > most {
			continue
		}
		if (d < found || d == found && d <= far && x.better(s, x.spelt[best])) && x.kept(s.term, keep) {
			found, best = d, uint32(i)
		}
	}
	if found > far {
		return 0, 0
	}
	return best, found
}

// better chooses between two words at the same distance.
func (x *Index) better(a, b word) bool {
	return cmp.Or(cmp.Compare(x.holders(b.term), x.holders(a.term)), cmp.Compare(a.text, b.text)) < 0
}
