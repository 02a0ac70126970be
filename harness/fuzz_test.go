package harness_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"metier/harness"
	"metier/internal/confine"
	"metier/skillmd"
)

func FuzzDetectors(f *testing.F) {
	for _, s := range []string{detect, "# c\n\nresource=RESOURCE.md\r\n", "a=../x\n=b\nx", "\xff=\x00", "a = b/c = d\n", strings.Repeat("a=b\n", 300), strings.Repeat("a", 65) + "=b\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, findings := harness.Detectors([]byte(text))
		if len(list)+len(findings) > 300 {
			t.Errorf("%d lines count", len(list)+len(findings))
		}
		for _, d := range list {
			if clean, err := confine.Clean(d.File); err != nil || clean != d.File || d.Type == "" || strings.TrimSpace(d.Type) != d.Type || len(d.Type) > 64 {
				t.Errorf("%+v", d)
			}
		}
		for _, d := range findings {
			if d.Severity != skillmd.Warning || d.Line < 1 || d.Detail == "" {
				t.Errorf("%+v", d)
			}
		}
	})
}

// grow builds a folder from bytes: each line is a name, a space and a text, in which | ends a line.
// At most 40 files.
func grow(t *testing.T, script string) string {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir) // earlier links must not lead writes out of it
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for i, line := range strings.Split(script, "\n") {
		if i == 40 {
			break
		}
		name, text, _ := strings.Cut(line, " ")
		clean, err := confine.Clean(name)
		if err != nil || strings.Count(clean, "/") > 12 {
			continue
		}
		p := filepath.FromSlash(clean)
		if root.MkdirAll(filepath.Dir(p), 0o755) != nil {
			continue
		}
		if to, is := strings.CutPrefix(text, "->"); is {
			_ = root.Symlink(to, p) // one that cannot be created is skipped
			continue
		}
		_ = root.WriteFile(p, []byte(strings.ReplaceAll(text, "|", "\n")), 0o644)
	}
	return dir
}

func FuzzLoad(f *testing.F) {
	front := "---|name: a|description: b|---|"
	for _, s := range []string{
		"HARNESS.md " + front + "\nskills/a/SKILL.md " + front + "\nreferences/b.md x",
		"HARNESS.md " + front + "\n.leaf-detectors skill=SKILL.md\ntools/x/SKILL.md " + front + "\nkb/.harnessleaf \nkb/y z",
		"HARNESS.md ->/etc/passwd\nskills ->..\nreferences ->references",
		"HARNESS.md " + front + "\nskills/g ->../skills\nskills/h/SKILL.md ->../../HARNESS.md\nskills/SKILLS.md ->/dev/zero",
		"skills/a/b/c/d/e/f/g/SKILL.md " + front + "\nHARNESS.md \x00\xff",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, script string) {
		dir := grow(t, script)
		for _, o := range []*harness.Options{nil, {Layout: harness.V1, Links: true}, {Layout: harness.V2, Links: true, MaxDepth: 4, MaxEntries: 30, MaxBytes: 20_000}} {
			h, err := harness.Load(t.Context(), dir, o)
			if err != nil {
				t.Fatal(err)
			}
			seen := map[string]bool{}
			for _, n := range h.All() {
				if clean, err := confine.Clean(n.Path); err != nil || clean != n.Path || seen[n.Path] || h.At(n.Path) != n {
					t.Errorf("%+v: %v", n, err)
				}
				seen[n.Path] = true
			}
			for _, d := range h.Diagnostics {
				if d.Code == "" || d.Detail == "" || d.Path == "" {
					t.Errorf("%+v", d)
				}
			}
			if h.Err() == nil && (h.Name == "" || h.Description == "") {
				t.Errorf("%+v", h)
			}
			if text := h.Prompt() + h.Draw(40); strings.ContainsAny(text, "\x00\x1b") {
				t.Errorf("%q", text)
			}
			again, err := harness.Load(t.Context(), dir, o)
			if err != nil || strings.Join(paths(again.All()), "\n") != strings.Join(paths(h.All()), "\n") || len(again.Diagnostics) != len(h.Diagnostics) {
				t.Errorf("two readings differ: %v", err)
			}
		}
	})
}
