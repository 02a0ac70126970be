package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"time"

	"metier"
	"metier/bench/subject"
	"metier/policy"
	"metier/skillmd"
)

// searched is how many skills are searched, queries how many questions are
// asked: two to six words, a tenth with a misspelt one.
const searched, queries = 100_000, 1_000

// search asks an index in memory. The time is that of all questions together.
func search(string, func()) (int, map[string]float64, error) {
	ctx := context.Background()
	s, err := defaults()
	if err != nil {
		return 0, nil, err
	}
	snap, err := metier.Build(ctx, []metier.Mount{{Label: "bench", Tier: policy.User, Source: memory{}}}, s.Parse, s.Names, s.Read.IndexRoot, false)
	if err != nil {
		return 0, nil, err
	}
	before := heap()
	start := time.Now()
	if _, err := snap.Search(ctx, "begin", 1, nil); err != nil { // the first question builds the index
		return 0, nil, err
	}
	built, grown := time.Since(start), heap()-before
	r := rand.New(rand.NewPCG(3, 3))
	var took []time.Duration
	answered := 0
	for i := range queries {
		q := question(r, i%10 == 0)
		start := time.Now()
		found, err := snap.Search(ctx, q, 10, nil)
		took = append(took, time.Since(start))
		if err != nil {
			return i, nil, err
		}
		answered += min(len(found.Skills), 1)
	}
	slices.Sort(took)
	ms := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
	runtime.KeepAlive(snap)
	return answered, map[string]float64{"build": ms(built), "heap": float64(grown) / (1 << 20), "p50": ms(took[queries/2]), "p99": ms(took[queries*99/100])}, nil
}

func question(r *rand.Rand, misspelt bool) string {
	words := make([]string, 2+r.IntN(5))
	for i := range words {
		words[i] = subject.Word(r)
	}
	if w := words[0]; misspelt {
		words[0] = w[:2] + w[3:] + "x"
	}
	return strings.Join(words, " ")
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// memory is a source that was read before.
type memory struct{}

func (memory) List(context.Context) iter.Seq2[*metier.Head, error] {
	return func(yield func(*metier.Head, error) bool) {
		for i := range searched {
			r := rand.New(rand.NewPCG(4, uint64(i)))
			name := fmt.Sprintf("%s-%s-%06d", subject.Word(r), subject.Word(r), i)
			h := metier.Head{Path: name, FileName: "SKILL.md", Kind: metier.KindSkill,
				Front: skillmd.Front{Present: true, HasName: true, Name: name, HasDescription: true, Description: subject.Sentence(r, 20+r.IntN(30))}}
			if !yield(&h, nil) {
				return
			}
		}
	}
}

func (memory) Open(context.Context, string) (metier.Bundle, error) {
	return nil, errors.New("there are no files")
}
