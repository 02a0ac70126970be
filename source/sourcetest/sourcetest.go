// Package sourcetest is the conformance suite of metier.Source. Every implementation runs it over
// trees stored in its own way.
package sourcetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/internal/digest"
)

// Seed returns a source that holds tree. Paths are relative to the source's root. An execute bit in
// Mode is kept if the source supports it.
type Seed func(t *testing.T, tree fstest.MapFS) metier.Source

// Run checks a source against the contracts of metier.Source and Bundle.
func Run(t *testing.T, seed Seed) {
	t.Helper()
	for name, f := range map[string]func(*testing.T, Seed){
		"lists skills in byte order, nothing else": listing,
		"reads heads":                               heads,
		"the root itself may be the skill":          rootSkill,
		"an empty source lists nothing":             empty,
		"stops when asked":                          stops,
		"opens what is listed and refuses the rest": opens,
		"manifest is complete and sorted":           manifest,
		"tree follows every change":                 tree,
		"tells text from binary":                    text,
		"bundle opens only files of the skill":      confined,
		"is safe for concurrent use":                concurrent,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, seed)
		})
	}
}

// Skill returns the text of a small SKILL.md.
func Skill(name, description string) string {
	return fmt.Sprintf("---\nname: %s\ndescription: %s\n---\n# %s\n\nDo it.\n", name, description, name)
}

// Tree returns a tree of plain files.
func Tree(files map[string]string) fstest.MapFS {
	m := fstest.MapFS{}
	for p, content := range files {
		m[p] = &fstest.MapFile{Data: []byte(content), Mode: 0o644}
	}
	return m
}

// List collects a listing. An error fails the test.
func List(t *testing.T, s metier.Source) []metier.Head {
	t.Helper()
	var list []metier.Head
	for h, err := range s.List(t.Context()) {
		if err != nil {
			t.Fatalf("List: %v", err)
		}
		list = append(list, *h)
	}
	return list
}

// Open opens a bundle for the duration of the test.
func Open(t *testing.T, s metier.Source, path string) metier.Bundle {
	t.Helper()
	b, err := s.Open(t.Context(), path)
	if err != nil {
		t.Fatalf("Open(%q): %v", path, err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return b
}

// Paths returns the paths of heads.
func Paths(heads []metier.Head) []string {
	paths := []string{}
	for _, h := range heads {
		paths = append(paths, h.Path)
	}
	return paths
}

func listing(t *testing.T, seed Seed) {
	s := seed(t, Tree(map[string]string{
		"b/SKILL.md":             Skill("b", "second"),
		"a/SKILL.md":             Skill("a", "first"),
		"a/inner/SKILL.md":       Skill("inner", "is part of a"),
		"a-b/SKILL.md":           Skill("a-b", "sorts between a and a/x as bytes"),
		"group/x/SKILL.md":       Skill("x", "nested"),
		"group-z/SKILL.md":       Skill("group-z", "sorts before group/x"),
		"group/deep/y/SKILL.md":  Skill("y", "nested more"),
		"only-refs/references/r": "no skill",
		"README.md":              "no skill",
		"B/SKILL.md":             Skill("B", "capital"),
		"z/SKILL.md/file":        "a folder of that name is no SKILL.md",
	}))
	got := List(t, s)
	got = slices.DeleteFunc(got, func(h metier.Head) bool {
		if h.Path == "z" { // a source may return it, but only as unusable
			if !h.Broken || len(h.Diagnostics) == 0 {
				t.Errorf("z is listed as if it could be used: %+v", h)
			}
			return true
		}
		return false
	})
	want := []string{"B", "a", "a-b", "b", "group-z", "group/deep/y", "group/x"}
	if diff := cmp.Diff(want, Paths(got)); diff != "" {
		t.Errorf("paths: %s", diff)
	}
	for _, h := range got {
		if h.Kind != metier.KindSkill || h.FileName != "SKILL.md" || h.Broken || len(h.Diagnostics) != 0 {
			t.Errorf("head %+v", h)
		}
	}
	if diff := cmp.Diff(got, slices.DeleteFunc(List(t, s), func(h metier.Head) bool { return h.Path == "z" })); diff != "" {
		t.Errorf("a second listing differs: %s", diff)
	}
}

func heads(t *testing.T, seed Seed) {
	long := strings.Repeat("word ", 3000)
	s := seed(t, Tree(map[string]string{
		"plain/SKILL.md":   "# Title\n\nFirst paragraph.\n\nSecond.\n",
		"empty/SKILL.md":   "",
		"blank/SKILL.md":   " \n\n",
		"broken/SKILL.md":  "---\nname: [unclosed\n---\nbody\n",
		"open/SKILL.md":    "---\nname: open\ndescription: never closed\n",
		"nodesc/SKILL.md":  "---\nname: nodesc\n---\n# Title\n\nStands in.\n",
		"long/SKILL.md":    "---\nname: long\ndescription: " + long + "\n---\nbody\n",
		"body/SKILL.md":    Skill("body", "small head") + strings.Repeat("x\n", 100_000),
		"far/SKILL.md":     "---\nname: far\n---\n" + strings.Repeat("# heading\n", 600) + "\nFound far down.\n",
		"skill/SKILL.md":   Skill("skill", "what it does"),
		"utf16/SKILL.md":   "\xff\xfe-\x00-\x00-\x00\n\x00",
		"nametwo/SKILL.md": "---\nname: a\nname: b\ndescription: d\n---\n",
	}))
	by := map[string]metier.Head{}
	for _, h := range List(t, s) {
		by[h.Path] = h
	}
	if len(by) != 12 {
		t.Fatalf("%d entries, want 12: %v", len(by), slices.Sorted(maps.Keys(by)))
	}
	check := func(path string, ok func(h metier.Head) bool) {
		t.Helper()
		if h := by[path]; !ok(h) {
			t.Errorf("%s: %+v", path, h)
		}
	}
	check("plain", func(h metier.Head) bool { return h.Plain && !h.Broken && h.FirstParagraph == "First paragraph." })
	check("empty", func(h metier.Head) bool { return h.Empty })
	check("blank", func(h metier.Head) bool { return h.Empty })
	for _, p := range []string{"broken", "open", "utf16", "nametwo"} {
		check(p, func(h metier.Head) bool { return h.Broken && len(h.Diagnostics) > 0 })
	}
	check("nodesc", func(h metier.Head) bool { return h.Front.Name == "nodesc" && h.FirstParagraph == "Stands in." })
	check("far", func(h metier.Head) bool { return h.FirstParagraph == "Found far down." })
	check("long", func(h metier.Head) bool { return h.Front.Description == strings.TrimSpace(long) && !h.Broken })
	check("body", func(h metier.Head) bool {
		return h.Front.Description == "small head" && h.Size == int64(len(Skill("body", "small head"))+200_000)
	})
	check("skill", func(h metier.Head) bool { return h.Front.Name == "skill" && !h.Plain && !h.Empty && !h.Broken })
	for path := range by {
		if path == "empty" || path == "blank" {
			continue
		}
		if diff := cmp.Diff(by[path], Open(t, s, path).Head()); diff != "" {
			t.Errorf("%s: Open's head differs: %s", path, diff)
		}
	}
}

func rootSkill(t *testing.T, seed Seed) {
	s := seed(t, Tree(map[string]string{
		"SKILL.md":         Skill("root", "the root is it"),
		"inner/SKILL.md":   Skill("inner", "a part of it"),
		"scripts/go.sh":    "#!/bin/sh\n",
		"references/a/b.m": "x",
	}))
	got := List(t, s)
	if diff := cmp.Diff([]string{"."}, Paths(got)); diff != "" {
		t.Fatal(diff)
	}
	b := Open(t, s, ".")
	if want := []string{"SKILL.md", "inner/SKILL.md", "references/a/b.m", "scripts/go.sh"}; !slices.Equal(files(t, b), want) {
		t.Errorf("files = %v, want %v", files(t, b), want)
	}
	if diff := cmp.Diff([]string{"SKILL.md"}, files(t, Open(t, s, "inner"))); diff != "" {
		t.Errorf("a nested skill can be opened: %s", diff)
	}
}

func empty(t *testing.T, seed Seed) {
	if got := List(t, seed(t, Tree(map[string]string{"docs/readme.txt": "x"}))); len(got) != 0 {
		t.Errorf("listed %v", Paths(got))
	}
}

func stops(t *testing.T, seed Seed) {
	s := seed(t, Tree(map[string]string{"a/SKILL.md": Skill("a", "d"), "b/SKILL.md": Skill("b", "d")}))
	for h, err := range s.List(t.Context()) {
		if err != nil {
			t.Fatalf("List: %v", err)
		}
		if h.Path != "a" {
			t.Errorf("first entry: %q", h.Path)
		}
		break
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var last error
	for _, err := range s.List(ctx) {
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("List after cancel ends with %v", last)
	}
	if _, err := s.Open(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("Open after cancel = %v", err)
	}
	b := Open(t, s, "a")
	if _, err := b.Manifest(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Manifest after cancel = %v", err)
	}
	if _, err := b.Open(ctx, "SKILL.md"); !errors.Is(err, context.Canceled) {
		t.Errorf("Bundle.Open after cancel = %v", err)
	}
}

func opens(t *testing.T, seed Seed) {
	s := seed(t, Tree(map[string]string{"g/a/SKILL.md": Skill("a", "d"), "none/x": "x"}))
	b := Open(t, s, "g/a")
	if h := b.Head(); h.Path != "g/a" || h.Front.Name != "a" {
		t.Errorf("Head = %+v", h)
	}
	for _, path := range []string{"", ".", "none", "none/x", "missing", "g", "../g/a", "/g/a", "g/../g/a", "g//a", "g/a/", "g\\a", "g/a\x00", "\xff"} {
		if b, err := s.Open(t.Context(), path); metier.KindOf(err) != metier.NotFound {
			t.Errorf("Open(%q) = %v, %v; want NotFound", path, b, err)
		}
	}
}

func files(t *testing.T, b metier.Bundle) []string {
	t.Helper()
	paths := []string{}
	for _, f := range manifestOf(t, b).Files {
		paths = append(paths, f.Path)
	}
	return paths
}

func manifestOf(t *testing.T, b metier.Bundle) metier.Manifest {
	t.Helper()
	m, err := b.Manifest(t.Context())
	if err != nil {
		t.Fatalf("Manifest: %v", err)
	}
	return m
}

func manifest(t *testing.T, seed Seed) {
	tree := Tree(map[string]string{
		"s/SKILL.md":             Skill("s", "d"),
		"s/scripts/run.sh":       "#!/bin/bash\necho hi\n",
		"s/scripts/plain.ts":     "console.log(1)\n",
		"s/references/a.md":      "text",
		"s/references-b.md":      "sorts before references/a.md",
		"s/assets/deep/er/x.bin": "\x00\x9f\x92\x96",
		"s/empty":                "",
		"s/.hidden":              "h",
		"s/Upper":                "u",
		"t/SKILL.md":             Skill("t", "another skill"),
	})
	b := Open(t, seed(t, tree), "s")
	m := manifestOf(t, b)
	want := []string{".hidden", "SKILL.md", "Upper", "assets/deep/er/x.bin", "empty", "references-b.md", "references/a.md", "scripts/plain.ts", "scripts/run.sh"}
	if diff := cmp.Diff(want, files(t, b)); diff != "" {
		t.Errorf("files: %s", diff)
	}
	for _, f := range m.Files {
		content := string(tree["s/"+f.Path].Data)
		if f.Size != int64(len(content)) || f.Digest != metier.Digest(digest.Bytes([]byte(content))) {
			t.Errorf("%s: size %d, digest %s", f.Path, f.Size, f.Digest)
		}
		if got := read(t, b, f.Path); got != content {
			t.Errorf("%s: Open gives %q", f.Path, got)
		}
		wantShebang := ""
		if f.Path == "scripts/run.sh" {
			wantShebang = "#!/bin/bash"
		}
		if f.Shebang != wantShebang {
			t.Errorf("%s: shebang %q", f.Path, f.Shebang)
		}
	}
	if !digest.Valid(string(m.Tree)) || m.Dynamic || len(m.Diagnostics) != 0 {
		t.Errorf("manifest %+v", m)
	}
}

func tree(t *testing.T, seed Seed) {
	base := map[string]string{"s/SKILL.md": Skill("s", "d"), "s/scripts/a": "1"}
	treeOf := func(change func(m fstest.MapFS)) metier.Digest {
		m := Tree(base)
		change(m)
		return manifestOf(t, Open(t, seed(t, m), "s")).Tree
	}
	want := treeOf(func(fstest.MapFS) {})
	if got := treeOf(func(m fstest.MapFS) { m["other/SKILL.md"] = m["s/SKILL.md"] }); got != want {
		t.Error("another skill changes the tree")
	}
	for name, change := range map[string]func(m fstest.MapFS){
		"bytes":  func(m fstest.MapFS) { m["s/scripts/a"].Data = []byte("2") },
		"name":   func(m fstest.MapFS) { m["s/scripts/b"] = m["s/scripts/a"]; delete(m, "s/scripts/a") },
		"added":  func(m fstest.MapFS) { m["s/x"] = m["s/scripts/a"] },
		"gone":   func(m fstest.MapFS) { delete(m, "s/scripts/a") },
		"skill":  func(m fstest.MapFS) { m["s/SKILL.md"].Data = []byte(Skill("s", "other")) },
		"nested": func(m fstest.MapFS) { m["s/scripts/a/b"] = m["s/scripts/a"]; delete(m, "s/scripts/a") },
	} {
		if treeOf(change) == want {
			t.Errorf("%s: same tree", name)
		}
	}
}

func text(t *testing.T, seed Seed) {
	e := "é"
	cases := map[string]struct {
		content string
		text    bool
	}{
		"empty":           {"", true},
		"ascii":           {"hello\n", true},
		"utf8":            {"grüße", true},
		"nul":             {"a\x00b", false},
		"latin1":          {"caf\xe9", false},
		"cut at the end":  {"caf" + e[:1], false}, // the file itself ends within a character
		"rune on edge":    {strings.Repeat("a", 8191) + e + "tail", true},
		"3 bytes on edge": {strings.Repeat("a", 8190) + "€" + "tail", true},
		"bad on edge":     {strings.Repeat("a", 8191) + "\xff" + "tail", false},
		"nul later":       {strings.Repeat("a", 8192) + "\x00", true},
		"nul at 8191":     {strings.Repeat("a", 8191) + "\x00", false},
	}
	tree := Tree(map[string]string{"s/SKILL.md": Skill("s", "d")})
	for name, c := range cases {
		tree["s/assets/"+name] = &fstest.MapFile{Data: []byte(c.content), Mode: 0o644}
	}
	for _, f := range manifestOf(t, Open(t, seed(t, tree), "s")).Files {
		if c, ok := cases[strings.TrimPrefix(f.Path, "assets/")]; ok && f.Text != c.text {
			t.Errorf("%s: Text = %v, want %v", f.Path, f.Text, c.text)
		}
	}
}

func confined(t *testing.T, seed Seed) {
	b := Open(t, seed(t, Tree(map[string]string{
		"s/SKILL.md": Skill("s", "d"), "s/references/a.md": "a", "t/SKILL.md": Skill("t", "d"), "secret": "no",
	})), "s")
	for path, want := range map[string]metier.Kind{
		"../secret":               metier.Invalid,
		"references/../../secret": metier.Invalid,
		"../t/SKILL.md":           metier.Invalid,
		"/etc/hosts":              metier.Invalid,
		"":                        metier.Invalid,
		".":                       metier.Invalid,
		"references":              metier.Invalid,
		"references/":             metier.Invalid,
		`references\a.md`:         metier.Invalid,
		"references//a.md":        metier.Invalid,
		"references/a.md\x00":     metier.Invalid,
		"%2e%2e/secret":           metier.NotFound,
		"missing":                 metier.NotFound,
		"references/a.md/x":       metier.NotFound,
	} {
		f, err := b.Open(t.Context(), path)
		if metier.KindOf(err) != want {
			t.Errorf("Open(%q) = %v, want %s", path, err, want)
		}
		if err == nil {
			f.Close()
		}
	}
	if got := read(t, b, "./references/a.md"); got != "a" {
		t.Errorf("./references/a.md = %q", got)
	}
}

func read(t *testing.T, b metier.Bundle, path string) string {
	t.Helper()
	f, err := b.Open(t.Context(), path)
	if err != nil {
		t.Errorf("Open(%q): %v", path, err)
		return ""
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		t.Errorf("read %q: %v", path, err)
	}
	return string(data)
}

func concurrent(t *testing.T, seed Seed) {
	m := map[string]string{}
	for i := range 40 {
		m[fmt.Sprintf("s%02d/SKILL.md", i)] = Skill(fmt.Sprintf("s%02d", i), "d")
		m[fmt.Sprintf("s%02d/references/r.md", i)] = "r"
	}
	s := seed(t, Tree(m))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			n := 0
			for h, err := range s.List(t.Context()) {
				if err != nil {
					t.Errorf("List: %v", err)
					return
				}
				b, err := s.Open(t.Context(), h.Path)
				if err != nil {
					t.Errorf("Open: %v", err)
					return
				}
				if man, err := b.Manifest(t.Context()); err != nil || len(man.Files) != 2 {
					t.Errorf("Manifest: %v, %v", man.Files, err)
				}
				b.Close()
				n++
			}
			if n != 40 {
				t.Errorf("%d entries", n)
			}
		})
	}
	wg.Wait()
}
