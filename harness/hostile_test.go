package harness_test

import (
	"context"
	"encoding/xml"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"metier"
	"metier/harness"
	"metier/internal/testenv"
	"metier/skillmd"
	"metier/source/sourcetest"
)

// within fails a test that does not end by itself.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(func() {
		if ctx.Err() == context.DeadlineExceeded {
			t.Error("it took a minute")
		}
		cancel()
	})
	return ctx
}

func TestLimits(t *testing.T) {
	t.Parallel()
	deep := "skills/" + strings.Repeat("d/", 40)
	wide := map[string]string{"HARNESS.md": selfText}
	for i := range 300 {
		wide[fmt.Sprintf("references/f%03d.md", i)] = summaryText("x")
	}
	for name, tt := range map[string]struct {
		files map[string]string
		o     harness.Options
		code  string
	}{
		"depth":      {map[string]string{"HARNESS.md": selfText, deep + "SKILL.md": skillText("d", "deep")}, harness.Options{Layout: harness.V1}, "harness-depth-exceeded"},
		"entries":    {wide, harness.Options{Layout: harness.V1, MaxEntries: 50}, "harness-entries-exceeded"},
		"bytes":      {wide, harness.Options{Layout: harness.V1, MaxBytes: 8 << 10}, "harness-bytes-exceeded"},
		"HARNESS.md": {map[string]string{"HARNESS.md": selfText + strings.Repeat("x", 1<<20)}, harness.Options{}, "harness-too-large"},
		"detectors":  {map[string]string{"HARNESS.md": selfText, ".leaf-detectors": strings.Repeat("a=b\n", 400)}, harness.Options{}, "harness-detector"},
	} {
		h := load(t, tt.files, &tt.o)
		if _, ok := find(h.Diagnostics, tt.code); !ok {
			t.Errorf("%s: %v", name, codes(h, skillmd.Error))
		}
		if len(h.Diagnostics) > 250 {
			t.Errorf("%s: %d findings", name, len(h.Diagnostics))
		}
		if name == "entries" && len(h.All()) > 51 {
			t.Errorf("%d nodes", len(h.All()))
		}
	}
	// The cut is the same each time.
	dir := write(t, wide)
	o := &harness.Options{Layout: harness.V1, MaxEntries: 77}
	a, _ := harness.Load(t.Context(), dir, o)
	b, _ := harness.Load(t.Context(), dir, o)
	if strings.Join(paths(a.All()), " ") != strings.Join(paths(b.All()), " ") {
		t.Error("two readings differ")
	}
}

// A hundred thousand files are read up to the limit, and the limit is reported.
func TestHundredThousandFiles(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	files := map[string]string{"HARNESS.md": selfText, "skills/a/SKILL.md": skillText("a", "does a")}
	for i := range 10 {
		files[fmt.Sprintf("references/many%d/f", i)] = ""
	}
	dir := write(t, files)
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			base := filepath.Join(dir, "references", fmt.Sprintf("many%d", i), "f")
			for j := range 10_000 { // links are the cheapest files
				if err := os.Link(base, fmt.Sprintf("%s%d", base, j)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	h, err := harness.Load(ctx, dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := find(h.Findings(skillmd.Error), "harness-entries-exceeded"); !ok || len(h.All()) > 20_000 || len(h.Diagnostics) > 500 {
		t.Errorf("%d nodes, %d findings", len(h.All()), len(h.Diagnostics))
	}
	if h.Err() != nil {
		t.Error(h.Err())
	}
}

func TestNamesThatCannotBeCalled(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{"HARNESS.md": selfText, "references/ok.txt": "x"})
	for _, name := range []string{"\xff\xfe.md", "a\\b.txt"} {
		if err := os.WriteFile(filepath.Join(dir, "references", name), []byte("x"), 0o644); err != nil {
			testenv.Skip(t, fmt.Sprintf("needs a file system with names of any bytes, such as %q: %v", name, err))
		}
	}
	h, err := harness.Load(t.Context(), dir, v1())
	if err != nil {
		t.Fatal(err)
	}
	if got := paths(h.References()); len(got) != 1 || got[0] != "references/ok.txt" {
		t.Errorf("%q", got)
	}
	if got := codes(h, skillmd.Warning); len(got) != 2 || !strings.HasPrefix(got[0], "harness-name-unusable") {
		t.Errorf("%q", got)
	}
}

// Names and descriptions with markup, quotes, control and bidirectional characters stay text.
func TestNamesCannotEscape(t *testing.T) {
	t.Parallel()
	evil := `x"/><skill name="y">`
	h := load(t, map[string]string{
		"HARNESS.md":              "---\nname: \"a\\\"</harness>\\e[31m\\u202e\"\ndescription: \"<b>&amp;\\x01\"\n---\nbody </overview><x/> \x01\x1b[2J\u009b2J\x7f ]]> é\n",
		"skills/" + evil + "/x":   "1",
		"skills/s/SKILL.md":       "---\nname: \"" + `\"><evil/>` + "\"\ndescription: \"</skill><evil/>\\e]0;x\\a\"\n---\n",
		"references/<&'\x1b>.txt": "x",
		"references/d.md":         summaryText("\"</reference><evil/>\""),
	}, v1())
	for _, l := range []harness.Layout{harness.V1, harness.V2} {
		h.Layout = l
		text := h.Prompt()
		d := xml.NewDecoder(strings.NewReader(text))
		depth, elements := 0, map[string]int{}
		for {
			tok, err := d.Token()
			if tok == nil {
				if err.Error() != "EOF" || depth != 0 {
					t.Errorf("%s: %v\n%s", l, err, text)
				}
				break
			}
			switch x := tok.(type) {
			case xml.StartElement:
				depth++
				elements[x.Name.Local]++
			case xml.EndElement:
				depth--
			}
		}
		if elements["evil"]+elements["x"]+elements["b"] > 0 || elements["harness"] != 1 || elements["skill"] != 1 || strings.ContainsAny(text, "\x1b\x01\u202e\u009b\x7f") {
			t.Errorf("%s: %v\n%q", l, elements, text)
		}
	}
	if out := h.Draw(0); strings.ContainsAny(out, "\x1b\x01\u202e\a") {
		t.Errorf("%q", out)
	}
	for line := range strings.SplitSeq(strings.TrimSpace(h.Draw(30)), "\n") {
		if n := len([]rune(line)); n > 30 {
			t.Errorf("%d columns: %q", n, line)
		}
	}
}

// A HARNESS.md, SKILL.md or reference that is a pipe or a device is reported, and never blocks
// a read.
func TestPipesAndDevices(t *testing.T) {
	t.Parallel()
	mkfifo, err := exec.LookPath("mkfifo")
	if err != nil {
		testenv.Skip(t, "this system has no mkfifo")
	}
	ctx := within(t)
	for _, at := range []string{"HARNESS.md", "skills/a/SKILL.md", "skills/g/SKILLS.md", "references/r.md", ".leaf-detectors"} {
		dir := write(t, map[string]string{"HARNESS.md": selfText, "skills/a/SKILL.md": skillText("a", "does a"), "skills/g/SKILLS.md": summaryText("g"), "references/r.md": summaryText("r"), ".leaf-detectors": detect})
		p := filepath.Join(dir, filepath.FromSlash(at))
		if err := os.Remove(p); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(ctx, mkfifo, p).CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
		for _, o := range []*harness.Options{v1(), v2()} {
			h, err := harness.Load(ctx, dir, o)
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for _, d := range h.Diagnostics {
				if d.Code == "harness-unreadable" || d.Code == "harness-not-regular" {
					n++
				}
			}
			if n == 0 && !(at == ".leaf-detectors" && h.Layout == harness.V1) {
				t.Errorf("%s, %s: %v", at, h.Layout, h.Diagnostics)
			}
			if (h.Err() != nil) != (at == "HARNESS.md") {
				t.Errorf("%s: %v", at, h.Err())
			}
		}
	}
	dir := write(t, map[string]string{"skills/": ""})
	if err := os.Symlink("/dev/zero", filepath.Join(dir, "HARNESS.md")); err != nil {
		t.Fatal(err)
	}
	h, err := harness.Load(ctx, dir, &harness.Options{Links: true})
	if err != nil || h.Err() == nil {
		t.Errorf("%v %v", err, h.Err())
	}
}

func TestHarnessThatGoesAway(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{"HARNESS.md": selfText, "skills/a/SKILL.md": skillText("a", "does a"), "references/r.md": summaryText("r")})
	s := open(t, dir, nil)
	if n := len(sourcetest.List(t, s)); n != 5 {
		t.Errorf("%d entries", n)
	}
	if err := os.Remove(filepath.Join(dir, "references", "r.md")); err != nil {
		t.Fatal(err)
	}
	b := sourcetest.Open(t, s, "references/r.md")
	if _, err := b.Open(t.Context(), "r.md"); metier.KindOf(err) != metier.NotFound {
		t.Error(err)
	}
	if m, err := b.Manifest(t.Context()); err != nil || len(m.Files) != 0 || len(m.Diagnostics) != 1 {
		t.Errorf("%+v %v", m, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	var last error
	for _, err := range s.List(t.Context()) {
		last = err
	}
	if metier.CodeOf(last) != "harness_not_found" {
		t.Error(last)
	}
	if _, err := harness.Load(t.Context(), dir, nil); metier.KindOf(err) != metier.NotFound {
		t.Error(err)
	}
}

// A hard-linked file, whose other name may be outside, is left out of a
// third-party harness, whatever its purpose.
func TestFilesWithAnotherNameAreLeftOut(t *testing.T) {
	t.Parallel()
	files := map[string]string{"HARNESS.md": selfText, ".leaf-detectors": "skill=SKILL.md\n", "tools/TOOLS.md": summaryText("tools"), "tools/a/SKILL.md": skillText("a", "does a"), "tools/doc.md": summaryText("a document")}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		dir := write(t, files)
		if err := os.Link(filepath.Join(dir, filepath.FromSlash(name)), filepath.Join(t.TempDir(), "outside")); err != nil {
			t.Fatal(err)
		}
		for _, refuse := range []bool{true, false} {
			o := &harness.Options{RefuseHardLinks: refuse}
			h, err := harness.Load(t.Context(), dir, o)
			if err != nil {
				t.Fatal(err)
			}
			left := slices.ContainsFunc(h.Diagnostics, func(d metier.Diagnostic) bool { return d.Code == "harness-unreadable" && d.Path == name })
			if left != refuse {
				t.Errorf("%s, refused %v: %+v", name, refuse, h.Diagnostics)
			}
			if n := h.At(name); n != nil && (n.Description == "") != refuse {
				t.Errorf("%s, refused %v: it says %q", name, refuse, n.Description)
			}
			b, err := open(t, dir, o).Open(t.Context(), "tools/doc.md")
			if err != nil {
				t.Fatal(err)
			}
			f, err := b.Open(t.Context(), "doc.md")
			if err == nil {
				f.Close()
			}
			if out := refuse && name == "tools/doc.md"; out != (err != nil) || out && metier.CodeOf(err) != "resource_outside_root" {
				t.Errorf("%s, refused %v: the document is read: %v", name, refuse, err)
			}
			b.Close()
		}
	}
}
