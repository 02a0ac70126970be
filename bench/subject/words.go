package subject

import (
	"math/rand/v2"
	"strings"
)

var syllables = []string{"ba", "con", "de", "fer", "gli", "ho", "in", "jo", "ka", "lu", "mer", "no", "os", "pra", "qui", "ren", "sol", "ta", "ul", "ver", "wi", "xen", "ya", "zo"}

// Word is one of some 14,000, the first ones far more often, as in language.
func Word(r *rand.Rand) string {
	n := int(float64(len(syllables)*len(syllables)*len(syllables)) * r.Float64() * r.Float64() * r.Float64())
	return syllables[n%24] + syllables[n/24%24] + syllables[n/576%24]
}

// Sentence is n words with a capital and a full stop.
func Sentence(r *rand.Rand, n int) string {
	words := make([]string, n)
	for i := range words {
		words[i] = Word(r)
	}
	return strings.ToUpper(words[0][:1]) + strings.Join(words, " ")[1:] + "."
}
