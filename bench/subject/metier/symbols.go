package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"metier"
	"metier/bench/subject"
	"metier/engine"
	"metier/policy"
	"metier/skillmd"
)

// symbols lists n skills in each of two roots and explains all of them. Their
// names have no letter, so that a path can hold none of them as it is, and each
// is there twice.
func symbols(n int) subject.Case {
	return func(_ string, begin func()) (int, map[string]float64, error) {
		f, err := newField("")
		if err != nil {
			return 0, nil, err
		}
		defer f.remove()
		begin()
		found, err := f.e.Discover(context.Background(), engine.Request{Roots: f.skills, Custom: engine.Custom{Mounts: []metier.Mount{
			{Label: "one", Tier: policy.User, Source: stars(n)}, {Label: "two", Tier: policy.User, Source: stars(n)}}}})
		if err != nil {
			return 0, nil, err
		}
		snap := found.Snapshot
		all := snap.All()
		for _, sk := range all {
			if e := snap.Explain(sk, metier.Catalog{}, nil); e.Rule == "" || snap.Rule(&sk) != e.Rule {
				return 0, nil, fmt.Errorf("%s is not explained", sk.ID)
			}
		}
		if len(all) != 2*n {
			err = fmt.Errorf("%d skills were found, not %d", len(all), 2*n)
		}
		return len(all), nil, err
	}
}

// stars is a source of so many skills.
type stars int

func (n stars) List(context.Context) iter.Seq2[*metier.Head, error] {
	return func(yield func(*metier.Head, error) bool) {
		for i := range int(n) {
			name := strings.Map(func(r rune) rune { return '★' + r - '0' }, fmt.Sprintf("%06d", i))
			h := metier.Head{Path: fmt.Sprintf("s%06d", i), FileName: "SKILL.md", Kind: metier.KindSkill,
				Front: skillmd.Front{Present: true, HasName: true, Name: name, HasDescription: true, Description: "Does nothing."}}
			if !yield(&h, nil) {
				return
			}
		}
	}
}

func (stars) Open(context.Context, string) (metier.Bundle, error) {
	return nil, errors.New("there are no files")
}
