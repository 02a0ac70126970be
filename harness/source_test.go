package harness_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/harness"
	"metier/settings"
	"metier/source/local"
	"metier/source/sourcetest"
)

// open is the source of a folder, as the command line creates it.
func open(t testing.TB, dir string, o *harness.Options) *harness.Source {
	t.Helper()
	files, err := local.New(dir, &local.Options{Symlinks: settings.SymlinksInBounds})
	if err != nil {
		t.Fatal(err)
	}
	return harness.New(dir, files, o)
}

// below presents the skills of a harness below a folder as a source, as the
// conformance suite requires of any source of skills.
type below struct {
	s   *harness.Source
	dir string
}

func (b below) List(ctx context.Context) iter.Seq2[*metier.Head, error] {
	return func(yield func(*metier.Head, error) bool) {
		for h, err := range b.s.List(ctx) {
			if err != nil {
				yield(nil, err)
				return
			}
			if h.Kind != metier.KindSkill {
				continue
			}
			short := b.short(*h)
			if !yield(&short, nil) {
				return
			}
		}
	}
}

func (b below) short(h metier.Head) metier.Head {
	if h.Path = strings.TrimPrefix(h.Path, b.dir+"/"); h.Path == b.dir {
		h.Path = "."
	}
	return h
}

func (b below) Open(ctx context.Context, path string) (metier.Bundle, error) {
	full := b.dir + "/" + path
	if path == "." {
		full = b.dir
	}
	x, err := b.s.Open(ctx, full)
	if err != nil {
		return nil, err
	}
	if x.Head().Kind != metier.KindSkill {
		x.Close()
		return nil, &metier.Error{Op: "open", Kind: metier.NotFound, Code: "skill_not_found", Err: errors.New("no skill")}
	}
	return shortBundle{x, b}, nil
}

type shortBundle struct {
	metier.Bundle
	b below
}

func (s shortBundle) Head() metier.Head { return s.b.short(s.Bundle.Head()) }

func TestSourceConformance(t *testing.T) {
	t.Parallel()
	for _, layout := range []harness.Layout{harness.V1, harness.V2} {
		t.Run(string(layout), func(t *testing.T) {
			t.Parallel()
			sourcetest.Run(t, func(t *testing.T, tree fstest.MapFS) metier.Source {
				files := map[string]string{"HARNESS.md": selfText, ".leaf-detectors": detect, "skills/": ""}
				for p, f := range tree {
					files["skills/"+p] = string(f.Data)
				}
				return below{open(t, write(t, files), &harness.Options{Layout: layout}), "skills"}
			})
		})
	}
}

func TestSourceListsGroupsAndDocuments(t *testing.T) {
	t.Parallel()
	s := open(t, write(t, map[string]string{
		"HARNESS.md": selfText, "skills/g/SKILLS.md": summaryText("a group"), "skills/g/a/SKILL.md": skillText("a", "does a"), "references/r.md": summaryText("a reference"), "references/x.bin": "\x00",
	}), nil)
	var got []string
	for _, h := range sourcetest.List(t, s) {
		got = append(got, strings.Join([]string{h.Path, string(h.Kind), h.FileName, h.Front.Description}, "|"))
	}
	want := []string{".|group|HARNESS.md|Answers questions about data.", "references|group||", "references/r.md|document|r.md|a reference", "references/x.bin|document|x.bin|",
		"skills|group||", "skills/g|group|SKILLS.md|a group", "skills/g/a|skill|SKILL.md|does a"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for path, file := range map[string]string{".": "HARNESS.md", "skills/g": "SKILLS.md", "references/x.bin": "x.bin"} {
		b := sourcetest.Open(t, s, path)
		m, err := b.Manifest(t.Context())
		if err != nil || len(m.Files) != 1 || m.Files[0].Path != file || m.Files[0].Text == (file == "x.bin") {
			t.Errorf("%s: %+v, %v", path, m, err)
		}
		f, err := b.Open(t.Context(), file)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(f); err != nil || int64(len(text)) != m.Files[0].Size {
			t.Errorf("%s: %q, %v", path, text, err)
		}
		f.Close()
		for _, other := range []string{"../HARNESS.md", "SKILL.md", "g/SKILLS.md", "r.md"} {
			if _, err := b.Open(t.Context(), other); err == nil {
				t.Errorf("%s gives %s", path, other)
			}
		}
	}
}

// A harness that cannot be loaded is one entry with the reason, and none of its skills is
// used.
func TestBrokenHarnessGivesNoSkills(t *testing.T) {
	t.Parallel()
	for _, self := range []string{"", "# no frontmatter\n", "---\nname: x\n---\n"} {
		files := map[string]string{"HARNESS.md": self, "skills/a/SKILL.md": skillText("a", "does a")}
		if self == "" {
			delete(files, "HARNESS.md")
		}
		list := sourcetest.List(t, open(t, write(t, files), nil))
		if len(list) != 1 || list[0].Path != "." || !list[0].Broken || len(list[0].Diagnostics) == 0 {
			t.Errorf("%q: %+v", self, list)
		}
	}
}

// Skill names are free in a harness, whatever a profile requires of names.
//
// req: D-013
func TestPathsNameSkills(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{"HARNESS.md": selfText, "skills/a/run/SKILL.md": skillText("Query Database", "the first"), "skills/b/run/SKILL.md": skillText("Query Database", "the second")})
	for _, profile := range settings.Profiles() {
		l, err := settings.Profile(profile)
		if err != nil {
			t.Fatal(err)
		}
		set, _, err := settings.Resolve(l)
		if err != nil {
			t.Fatal(err)
		}
		snap, err := metier.Build(t.Context(), []metier.Mount{{Label: "desk", Source: open(t, dir, nil), Root: dir, ByPath: true}}, set.Parse, set.Names, set.Read.IndexRoot, false)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, sk := range snap.Skills() {
			got = append(got, sk.Name+": "+sk.Description)
			if len(sk.Diagnostics) > 0 {
				t.Errorf("%s: %v", profile, sk.Diagnostics)
			}
		}
		if d := cmp.Diff([]string{"skills/a/run: the first", "skills/b/run: the second"}, got); d != "" {
			t.Errorf("%s: %s", profile, d)
		}
	}
}

func TestLinks(t *testing.T) {
	t.Parallel()
	outside := write(t, map[string]string{"secret.md": summaryText("secret"), "skill/SKILL.md": skillText("evil", "from outside")})
	dir := write(t, map[string]string{"HARNESS.md": selfText, "shared/tool/SKILL.md": skillText("shared", "kept elsewhere"), "skills/g/a/SKILL.md": skillText("a", "does a"), "references/r.md": summaryText("r")})
	for name, to := range map[string]string{
		"skills/tool": "../shared/tool", "skills/again": "g", "skills/loop": "loop", "skills/g/up": "..", "skills/out": filepath.Join(outside, "skill"), "skills/gone": "nowhere",
		"references/out.md": filepath.Join(outside, "secret.md"), "references/in.md": "r.md", "references/self": ".", "skills/g/a/x": "../../../references",
	} {
		if err := os.Symlink(to, filepath.Join(dir, filepath.FromSlash(name))); err != nil {
			t.Fatal(err)
		}
	}
	h, err := harness.Load(t.Context(), dir, &harness.Options{Layout: harness.V1, Links: true})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"skills/g/a", "skills/tool"}, paths(h.Skills())); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"references/in.md", "references/r.md"}, paths(h.References())); d != "" {
		t.Error(d)
	}
	want := []string{"harness-link references/out.md", "harness-link skills/gone", "harness-link skills/loop", "harness-link skills/out"}
	got := slices.DeleteFunc(codes(h, "warning"), func(s string) bool { return !strings.HasPrefix(s, "harness-link ") })
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	s := open(t, dir, &harness.Options{Layout: harness.V1, Links: true})
	if b := sourcetest.Open(t, s, "skills/tool"); b.Head().Front.Name != "shared" {
		t.Errorf("%+v", b.Head())
	}
	for _, p := range []string{"skills/out", "references/out.md"} {
		if _, err := s.Open(t.Context(), p); err == nil {
			t.Errorf("%s can be opened", p)
		}
	}
	h, err = harness.Load(t.Context(), dir, &harness.Options{Layout: harness.V1})
	if err != nil || len(h.Skills()) != 1 || len(h.References()) != 1 {
		t.Errorf("links are followed where the setting says not: %v %v %v", paths(h.Skills()), paths(h.References()), err)
	}
}
