package harness_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"metier"
	"metier/harness"
	"metier/skillmd"
)

// The parts of small harnesses.
const (
	selfText = "---\nname: Data Desk\ndescription: Answers questions about data.\n---\n# Data Desk\n\nUse the skills.\n"
	detect   = "skill=SKILL.md\n"
)

// skillText is a SKILL.md.
func skillText(name, description string) string {
	return "---\nname: " + name + "\ndescription: " + description + "\n---\n# " + name + "\n\nDo it.\n"
}

// summaryText is the summary of a group.
func summaryText(description string) string {
	return "---\ndescription: " + description + "\n---\n# Group\n\nSee below.\n"
}

// write creates a folder of files; a name that ends with a slash is a folder.
func write(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	for name, text := range files {
		p := filepath.Join(dir, filepath.FromSlash(name))
		if strings.HasSuffix(name, "/") {
			if err := os.MkdirAll(p, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o644)
		if strings.HasPrefix(text, "#!") {
			mode = 0o755
		}
		if err := os.WriteFile(p, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// with adds files to a copy.
func with(files map[string]string, more ...string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, files)
	for i := 0; i < len(more); i += 2 {
		out[more[i]] = more[i+1]
	}
	return out
}

func load(t testing.TB, files map[string]string, o *harness.Options) *harness.Harness {
	t.Helper()
	h, err := harness.Load(t.Context(), write(t, files), o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func v1() *harness.Options { return &harness.Options{Layout: harness.V1} }
func v2() *harness.Options { return &harness.Options{Layout: harness.V2} }

func paths(nodes []*harness.Node) []string {
	out := []string{}
	for _, n := range nodes {
		out = append(out, n.Path)
	}
	return out
}

// codes returns the findings of a severity, as "code path".
func codes(h *harness.Harness, s skillmd.Severity) []string {
	out := []string{}
	for _, d := range h.Findings(s) {
		out = append(out, d.Code+" "+d.Path)
	}
	return out
}

func find(ds []metier.Diagnostic, code string) (metier.Diagnostic, bool) {
	for _, d := range ds {
		if d.Code == code {
			return d, true
		}
	}
	return metier.Diagnostic{}, false
}
