package embedded_test

import (
	"context"
	"embed"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/source/embedded"
	"metier/source/sourcetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	sourcetest.Run(t, func(_ *testing.T, tree fstest.MapFS) metier.Source { return embedded.New(tree) })
}

//go:embed testdata
var testdata embed.FS

func TestOverAnEmbedFS(t *testing.T) {
	t.Parallel()
	sub, err := fs.Sub(testdata, "testdata")
	if err != nil {
		t.Fatal(err)
	}
	s := embedded.New(sub)
	list := sourcetest.List(t, s)
	if len(list) != 1 || list[0].Path != "greet" || list[0].Front.Description != "Greets a person by name." {
		t.Fatalf("List = %+v", list)
	}
	m, err := sourcetest.Open(t, s, "greet").Manifest(context.Background())
	if err != nil || len(m.Files) != 2 {
		t.Errorf("Manifest = %+v, %v", m, err)
	}
}

// opens records which files are opened.
type opens struct {
	fs.FS
	mu    sync.Mutex
	names []string
}

func (o *opens) Open(name string) (fs.File, error) {
	f, err := o.FS.Open(name)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && !info.IsDir() {
		o.mu.Lock()
		o.names = append(o.names, name)
		o.mu.Unlock()
	}
	return f, nil
}

func TestListOpensNothingButSkillFiles(t *testing.T) {
	t.Parallel()
	o := &opens{FS: sourcetest.Tree(map[string]string{
		"a/SKILL.md": sourcetest.Skill("a", "d"), "a/references/r.md": "r", "a/assets/x": "x", "g/b/SKILL.md": sourcetest.Skill("b", "d"), "g/README": "r",
	})}
	sourcetest.List(t, embedded.New(o))
	slices.Sort(o.names)
	if got := strings.Join(o.names, " "); got != "a/SKILL.md g/b/SKILL.md" {
		t.Errorf("opened %s", got)
	}
}

func TestLimitKeepsTheSkillFile(t *testing.T) {
	t.Parallel()
	tree := fstest.MapFS{"s/SKILL.md": {Data: []byte(sourcetest.Skill("s", "d"))}}
	for i := range embedded.MaxFiles {
		tree["s/A/"+strings.Repeat("x", 1+i%50)+string(rune('a'+i/50%26))+string(rune('a'+i/1300))] = &fstest.MapFile{}
	}
	m, err := sourcetest.Open(t, embedded.New(tree), "s").Manifest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Files) != embedded.MaxFiles || !slices.ContainsFunc(m.Files, func(f metier.File) bool { return f.Path == "SKILL.md" }) {
		t.Errorf("%d files", len(m.Files))
	}
	if len(m.Diagnostics) != 1 || m.Diagnostics[0].Code != "resource-file-limit-exceeded" {
		t.Errorf("diagnostics %+v", m.Diagnostics)
	}
}

// A walk goes by folders; the list is sorted by the bytes of whole paths.
//
// req: A-042
func TestFilesAreInTheOrderOfTheirBytes(t *testing.T) {
	t.Parallel()
	tree := sourcetest.Tree(map[string]string{"s/SKILL.md": sourcetest.Skill("s", "d"), "s/a/z.md": "x", "s/a/é.md": "x", "s/a-b": "x", "s/a.md": "x", "s/B.md": "x"})
	m, err := sourcetest.Open(t, embedded.New(tree), "s").Manifest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range m.Files {
		got = append(got, f.Path)
	}
	if d := cmp.Diff([]string{"B.md", "SKILL.md", "a-b", "a.md", "a/z.md", "a/é.md"}, got); d != "" {
		t.Error(d)
	}
}
