package filetool

import (
	"fmt"
	"testing"
)

func BenchmarkReadFile(b *testing.B) {
	for _, n := range []int{0, 1000} {
		b.Run(fmt.Sprintf("%d-skills", n), func(b *testing.B) {
			files := map[string]string{"doc.md": "text\n"}
			for i := range n {
				files[fmt.Sprintf("skills/s%04d/SKILL.md", i)] = skillText(fmt.Sprintf("s%04d", i))
			}
			e := newEnv(b, setup{roots: []string{"skills"}}, files)
			for b.Loop() {
				e.read("doc.md")
			}
		})
	}
}
