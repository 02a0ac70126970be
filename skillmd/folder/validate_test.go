package folder

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestValidate_RejectsFileThatIsNotLoaded(t *testing.T) {
	t.Parallel()
	const head = "---\nname: big\ndescription: Is big. Use when size matters.\n---\n"
	for _, size := range []int{maxSkill, maxSkill + 1} {
		dir := filepath.Join(t.TempDir(), "big")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		text := head + strings.Repeat("x", size-len(head))
		if err := os.WriteFile(filepath.Join(dir, "SKILL.md"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		v := Validate(dir, ".", func(string) bool { return true })
		if want := size == maxSkill; v.OK != want {
			t.Errorf("%d bytes: valid %v, want %v: %q", size, v.OK, want, v.Errors)
		}
	}
}
