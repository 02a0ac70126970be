// Metier is this module under measure, called as a program would that embeds it.
package main

import (
	"context"
	"os"
	"path/filepath"

	"metier"
	"metier/bench/subject"
	"metier/policy"
	"metier/settings"
	"metier/source/local"
)

func main() {
	subject.Main(map[string]subject.Case{"scan": scan, "snapshot": snapshot, "full": full, "use": use, "indexed": indexed, "search": search,
		"turns-10": turns(10), "turns-40": turns(40), "turns-1000": turns(1_000), "turns-4000": turns(4_000), "runs-10": runs(10), "runs-1000": runs(1_000),
		"symbols-1000": symbols(1_000), "symbols-10000": symbols(10_000), "launch-1": launch(1), "launch-20": launch(20)})
}

func defaults() (settings.Settings, error) {
	s, _, err := settings.Resolve()
	return s, err
}

// source is the folder as the default settings open it, with the index file of
// a run before or without.
func source(dir string, s settings.Discover, index bool) (*local.Source, error) {
	o := local.Options{Scan: s.Scan, FileNames: s.FileNames, Symlinks: s.Symlinks, MaxDepth: s.MaxDepth, MaxDirs: 1 << 20, MaxResourceFiles: s.MaxResources}
	if index {
		o.Index = os.Getenv("BENCH_INDEX")
	}
	return local.New(dir, &o)
}

// scan lists the heads: what the floors and the peers do.
func scan(dir string, _ func()) (int, map[string]float64, error) { return heads(dir, false) }

// indexed is scan with an index.
func indexed(dir string, _ func()) (int, map[string]float64, error) { return heads(dir, true) }

func heads(dir string, index bool) (n int, _ map[string]float64, err error) {
	s, err := defaults()
	if err != nil {
		return 0, nil, err
	}
	src, err := source(dir, s.Discover, index)
	if err != nil {
		return 0, nil, err
	}
	for h, err := range src.List(context.Background()) {
		if err != nil {
			return n, nil, err
		}
		if !h.Broken {
			n++
		}
	}
	return n, nil, nil
}

func build(dir string) (*metier.Snapshot, error) {
	s, err := defaults()
	if err != nil {
		return nil, err
	}
	src, err := source(dir, s.Discover, false)
	if err != nil {
		return nil, err
	}
	m := metier.Mount{Label: "bench", Tier: policy.User, Source: src, Root: dir}
	return metier.Build(context.Background(), []metier.Mount{m}, s.Parse, s.Names, s.Read.IndexRoot, false)
}

// snapshot judges the skills as well: names, precedence, diagnostics.
func snapshot(dir string, _ func()) (int, map[string]float64, error) {
	n, err := build(dir)
	if err != nil {
		return 0, nil, err
	}
	return len(n.Skills()), nil, nil
}

// full lists and hashes every file of every skill.
func full(dir string, _ func()) (n int, _ map[string]float64, err error) {
	ctx := context.Background()
	s, err := defaults()
	if err != nil {
		return 0, nil, err
	}
	src, err := source(dir, s.Discover, false)
	if err != nil {
		return 0, nil, err
	}
	snap, err := metier.Build(ctx, []metier.Mount{{Label: "bench", Tier: policy.User, Source: src, Root: filepath.Clean(dir)}}, s.Parse, s.Names, s.Read.IndexRoot, true)
	if err != nil {
		return 0, nil, err
	}
	for _, sk := range snap.Skills() {
		n += len(sk.Resources)
		if s.Read.IndexRoot == settings.IndexRootFileNo {
			n++ // SKILL.md is hashed all the same
		}
	}
	return n, nil, nil
}
