package local_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"metier"
	"metier/policy"
	"metier/settings"
	"metier/source/local"
	"metier/source/sourcetest"
)

const benchSkills = 10_000

// BenchmarkList compares a listing with the minimum that any implementation
// needs, alternating in one run; x is the median of the ratios. Cold, the minimum
// is to read the names of the root, then to open each SKILL.md, read 4 KB and
// close it, one after the other. Warm, from the index, it is to read the names
// and lstat each.
func BenchmarkList(b *testing.B) {
	for _, tree := range []struct {
		name  string
		grow  func(*testing.B, string) []string
		count int
	}{{"plain", plainTree, benchSkills}, {"mix", mixTree, benchSkills}} {
		root := b.TempDir()
		files := tree.grow(b, root)
		b.Run(tree.name+"/cold", func(b *testing.B) {
			duel(b, func() { readHeads(b, root, files) }, func() { list(b, root, nil) })
		})
		b.Run(tree.name+"/first", func(b *testing.B) { // writes an index
			index := b.TempDir()
			duel(b, func() { readHeads(b, root, files) }, func() {
				if _, err := local.Clear(index); err != nil {
					b.Fatal(err)
				}
				list(b, root, &local.Options{Index: index})
			})
		})
		b.Run(tree.name+"/warm", func(b *testing.B) {
			var last local.Scanned
			o := &local.Options{Index: b.TempDir(), Scanned: func(s local.Scanned) { last = s }}
			list(b, root, o)
			list(b, root, o)
			duel(b, func() { statAll(b, root, files) }, func() { list(b, root, o) })
			if last.Known != last.Folders || last.Unused != "" || last.Unsaved != nil {
				b.Fatalf("%+v", last)
			}
			b.ReportMetric(float64(last.Bytes)/float64(len(files)), "index-B/skill")
		})
	}
}

// BenchmarkFull is a snapshot with every file hashed, next to reading the names
// of every folder and reading and hashing every file, on as many threads.
func BenchmarkFull(b *testing.B) {
	root := b.TempDir()
	plainTree(b, root)
	duel(b, func() { hashAll(b, root) }, func() { full(b, root) })
}

func full(b *testing.B, root string) {
	layer, err := settings.Profile(settings.DefaultProfile)
	if err != nil {
		b.Fatal(err)
	}
	s, _, err := settings.Resolve(layer)
	if err != nil {
		b.Fatal(err)
	}
	src, err := local.New(root, nil)
	if err != nil {
		b.Fatal(err)
	}
	snap, err := metier.Build(b.Context(), []metier.Mount{{Label: "l", Tier: policy.User, Source: src, Root: root}}, s.Parse, s.Names, s.Read.IndexRoot, true)
	if err != nil || len(snap.Skills()) != benchSkills || !snap.Skills()[0].Indexed {
		b.Fatal(err)
	}
}

// BenchmarkManifest is one skill indexed.
func BenchmarkManifest(b *testing.B) {
	root := b.TempDir()
	putFile(b, filepath.Join(root, "a", "SKILL.md"), sourcetest.Skill("a", "Does one thing."))
	s, err := local.New(root, nil)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		bundle, err := s.Open(b.Context(), "a")
		if err != nil {
			b.Fatal(err)
		}
		if _, err := bundle.Manifest(b.Context()); err != nil {
			b.Fatal(err)
		}
		bundle.Close()
	}
}

// duel alternates the floor and ours, with only ours on the clock.
func duel(b *testing.B, floor, ours func()) {
	floor()
	ours()
	var base, took, ratio []float64
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		start := time.Now()
		floor()
		f := time.Since(start).Seconds()
		b.StartTimer()
		start = time.Now()
		ours()
		o := time.Since(start).Seconds()
		base, took, ratio = append(base, f*1e3), append(took, o*1e3), append(ratio, o/f)
	}
	b.ReportMetric(median(base), "floor-ms")
	b.ReportMetric(median(took), "ours-ms")
	b.ReportMetric(median(ratio), "x")
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

func list(b *testing.B, root string, o *local.Options) {
	s, err := local.New(root, o)
	if err != nil {
		b.Fatal(err)
	}
	count := 0
	for h, err := range s.List(b.Context()) {
		if err != nil {
			b.Fatal(h, err)
		}
		count++
	}
	if count != benchSkills {
		b.Fatal(count)
	}
}

func readHeads(b *testing.B, root string, files []string) {
	buf := make([]byte, 4096)
	if _, err := os.ReadDir(root); err != nil {
		b.Fatal(err)
	}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			b.Fatal(err)
		}
		f.Read(buf)
		f.Close()
	}
}

func statAll(b *testing.B, root string, files []string) {
	if _, err := os.ReadDir(root); err != nil {
		b.Fatal(err)
	}
	for _, file := range files {
		if _, err := os.Lstat(file); err != nil {
			b.Fatal(err)
		}
	}
}

func putFile(b *testing.B, path, text string) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		b.Fatal(err)
	}
}

// plainTree is a flat root of skills of 4 KB, with a resource of each kind.
func plainTree(b *testing.B, root string) (files []string) {
	body := string(bytes.Repeat([]byte("A line of the body.\n"), 195))
	for i := range benchSkills {
		name := fmt.Sprintf("skill-%05d", i)
		dir := filepath.Join(root, name)
		putFile(b, filepath.Join(dir, "SKILL.md"), sourcetest.Skill(name, "Does one plain thing and says when to use it, for example now.")+body)
		putFile(b, filepath.Join(dir, "scripts", "run.sh"), "#!/bin/sh\necho done\n")
		putFile(b, filepath.Join(dir, "references", "guide.md"), body[:1200])
		putFile(b, filepath.Join(dir, "assets", "template.json"), "{}\n")
		files = append(files, filepath.Join(dir, "SKILL.md"))
	}
	return files
}

// mixTree has the corpus' files in groups of three depths, and folders without
// a skill between them.
func mixTree(b *testing.B, root string) (files []string) {
	var texts []string
	err := filepath.WalkDir("../../../shared/corpus", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "SKILL.md" && d.Type().IsRegular() {
			texts = append(texts, path)
		}
		return err
	})
	if err != nil || len(texts) == 0 {
		b.Log("corpus absent: the mix is plain")
		return plainTree(b, root)
	}
	for i := range benchSkills {
		dir := filepath.Join(root, fmt.Sprintf("group-%03d", i%200))
		if i%3 > 0 {
			dir = filepath.Join(dir, "more", fmt.Sprintf("part-%d", i%7))
		}
		if i%5 == 0 {
			putFile(b, filepath.Join(dir, fmt.Sprintf("notes-%05d", i), "text.md"), "no skill\n")
		}
		text, err := os.ReadFile(texts[i%len(texts)])
		if err != nil {
			b.Fatal(err)
		}
		file := filepath.Join(dir, fmt.Sprintf("skill-%05d", i), "SKILL.md")
		putFile(b, file, string(text))
		files = append(files, file)
	}
	slices.Sort(files)
	return files
}

// hashAll walks, reads and hashes on all cores, one skill at a time.
func hashAll(b *testing.B, root string) {
	dirs, err := os.ReadDir(root)
	if err != nil {
		b.Fatal(err)
	}
	eachCore(len(dirs), func(i int) {
		err := filepath.WalkDir(filepath.Join(root, dirs[i].Name()), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			raw, err := os.ReadFile(path)
			sha256.Sum256(raw)
			return err
		})
		if err != nil {
			b.Error(err)
		}
	})
}

func eachCore(n int, f func(i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				f(i)
			}
		})
	}
	wg.Wait()
}
