package cli_test

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// Artifacts are indented, so the size of deeply nested JSON grows with the square of its depth.
// Model output with more than 100 levels is rejected, and its record stays small.
func TestRun_KeepsDeepArgumentsSmall(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	deep := func(n int) string {
		return "  - calls: [{tool: load_skill, raw: '{\"name\":" + strings.Repeat("[", n) + strings.Repeat("]", n) + "}'}]\n"
	}
	p.write(map[string]string{"turns.yaml": "turns:\n" + deep(5000) + deep(99) + "  - say: Done.\n"})
	exit, out := p.metier("run", "--model", "scripted:"+filepath.Join(p.home, "turns.yaml"), "--prompt", "Go.", "--allow-tool", "load_skill")
	if exit != 0 {
		t.Fatal(exit, out)
	}
	total, largest := int64(0), ""
	err := filepath.WalkDir(filepath.Join(p.dir, ".metier", "runs"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Size() > 1<<20 {
			largest = path
		}
		total += info.Size()
		return err
	})
	if err != nil || largest != "" || total > 2<<20 {
		t.Errorf("%d bytes, %s, %v", total, largest, err)
	}
	if exit, out := p.metier("audit", "verify", "latest"); exit != 0 {
		t.Error(exit, out)
	}
	if _, out := p.metier("runs", "show", "latest", "--transcript"); !strings.Contains(out, "nested more than 100 deep") {
		t.Error(out)
	}
}
