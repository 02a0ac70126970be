package local_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"metier/source/local"
	"metier/source/sourcetest"
)

// BenchmarkList lists 10,000 plain skills, next to the floor: read the names of
// the root, then open, read 4 KB and close each file, one after the other.
func BenchmarkList(b *testing.B) {
	root := b.TempDir()
	const n = 10_000
	for i := range n {
		dir := filepath.Join(root, fmt.Sprintf("skill-%05d", i))
		if err := os.Mkdir(dir, 0o755); err != nil {
			b.Fatal(err)
		}
		text := sourcetest.Skill(fmt.Sprintf("skill-%05d", i), "Does one plain thing and says when to use it.")
		if err := os.WriteFile(filepath.Join(dir, "SKILL.md"), append([]byte(text), bytes.Repeat([]byte("A line of the body.\n"), 250)...), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("floor", func(b *testing.B) {
		buf := make([]byte, 4096)
		for b.Loop() {
			list, err := os.ReadDir(root)
			if err != nil {
				b.Fatal(err)
			}
			for _, e := range list {
				f, err := os.Open(filepath.Join(root, e.Name(), "SKILL.md"))
				if err != nil {
					b.Fatal(err)
				}
				f.Read(buf)
				f.Close()
			}
		}
	})
	b.Run("List", func(b *testing.B) {
		s, err := local.New(root, nil)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			count := 0
			for h, err := range s.List(b.Context()) {
				if err != nil || h.Broken {
					b.Fatal(h, err)
				}
				count++
			}
			if count != n {
				b.Fatal(count)
			}
		}
	})
	b.Run("Manifest", func(b *testing.B) {
		s, err := local.New(root, nil)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			bundle, err := s.Open(b.Context(), "skill-00042")
			if err != nil {
				b.Fatal(err)
			}
			if _, err := bundle.Manifest(b.Context()); err != nil {
				b.Fatal(err)
			}
			bundle.Close()
		}
	})
}
