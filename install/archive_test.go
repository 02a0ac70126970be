package install_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/install"
	"metier/internal/digest"
	"metier/settings"
)

func zipOf(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f, err := w.Create(name)
		if err == nil {
			_, err = f.Write([]byte(files[name]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func tarGzOf(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(files[name]))})
		if err == nil {
			_, err = w.Write([]byte(files[name]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// archived writes an archive, and returns it as a source.
func (p place) archived(name string, raw []byte) install.Source {
	p.t.Helper()
	if err := os.MkdirAll(p.in, 0o755); err != nil {
		p.t.Fatal(err)
	}
	s := install.Source{Kind: install.Archive, Location: filepath.Join(p.in, name)}
	if err := os.WriteFile(s.Location, raw, 0o644); err != nil {
		p.t.Fatal(err)
	}
	return s
}

// settingsOf returns the settings of a profile.
func settingsOf(t *testing.T, profile string) settings.Settings {
	t.Helper()
	layer, err := settings.Profile(profile)
	if err != nil {
		t.Fatal(err)
	}
	set, _, err := settings.Resolve(layer)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// installSource installs a source, and returns the entries of the lock.
func (p place) installSource(s *install.Store, src install.Source, profile string) (map[string]install.Entry, error) {
	p.t.Helper()
	plan, err := s.Prepare(p.t.Context(), install.Request{Source: src}, settingsOf(p.t, profile))
	if err != nil {
		return nil, err
	}
	return s.Lock().Skills, plan.Apply(p.t.Context())
}

// empty fails if something remains in the staging folder.
func (p place) empty() {
	p.t.Helper()
	if diff := cmp.Diff([]string{"lock"}, names(p.t, filepath.Join(p.dir, ".metier/install"))); diff != "" {
		p.t.Errorf("the staging folder (-want +got):\n%s", diff)
	}
}

// req: C-076
func TestArchive_IsInstalled(t *testing.T) {
	t.Parallel()
	files := map[string]string{"pdf/SKILL.md": skill("pdf", "Read."), "pdf/scripts/run.sh": "#!/bin/sh\n"}
	for name, raw := range map[string][]byte{"pdf.zip": zipOf(t, files), "any.skill": zipOf(t, files), "pdf.tar.gz": tarGzOf(t, files)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			src := p.archived(name, raw)
			s := p.open()
			if _, err := p.installSource(s, src, "agent-runtime"); err != nil {
				t.Fatal(err)
			}
			e := s.Lock().Skills["pdf"]
			if e.Digest != digest.Bytes(raw) || e.Kind != install.Archive || e.Location != "./from/"+name || e.Path != "pdf" {
				t.Errorf("entry = %+v", e)
			}
			if got := tree(t, filepath.Join(p.dir, "pdf")); len(got) != 2 {
				t.Errorf("files = %v", got)
			}
			p.empty()

			// It can be installed again from the lock, as long as it has the same bytes.
			if err := os.RemoveAll(filepath.Join(p.dir, "pdf")); err != nil {
				t.Fatal(err)
			}
			plan, err := s.Restore(t.Context(), true, settingsOf(t, "agent-runtime"))
			if err == nil {
				err = plan.Apply(t.Context())
			}
			if err != nil || p.states(s)["pdf"] != install.Intact {
				t.Errorf("restored: %v, %v", p.states(s), err)
			}
			p.archived(name, zipOf(t, map[string]string{"pdf/SKILL.md": skill("pdf", "Other.")}))
			if err := os.RemoveAll(filepath.Join(p.dir, "pdf")); err != nil {
				t.Fatal(err)
			}
			_, err = s.Restore(t.Context(), true, settingsOf(t, "agent-runtime"))
			if metier.CodeOf(err) != "digest_mismatch" || metier.KindOf(err) != metier.Drift {
				t.Errorf("other bytes: %v", err)
			}
			p.empty()
		})
	}
}

// req: C-077
func TestArchive_OfAnotherLayoutIsRefused(t *testing.T) {
	t.Parallel()
	pdf := skill("pdf", "Read.")
	for name, tt := range map[string]struct {
		files  map[string]string
		want   string // part of the reason
		either bool   // accepted if archive_layout is either
	}{
		"flat":      {map[string]string{"SKILL.md": pdf, "notes.md": "n"}, "SKILL.md is at the top of the archive", true},
		"two":       {map[string]string{"pdf/SKILL.md": pdf, "docx/SKILL.md": skill("docx", "")}, `2 folders instead of one: "docx", "pdf"`, false},
		"wrong":     {map[string]string{"reader/SKILL.md": pdf}, `its folder "reader" does not have the name of the skill, "pdf"`, true},
		"beside":    {map[string]string{"pdf/SKILL.md": pdf, "README": "r"}, `files beside the folder of the skill: "README"`, false},
		"without":   {map[string]string{"pdf/notes.md": "n"}, `its folder "pdf" contains no SKILL.md`, false},
		"too deep":  {map[string]string{"a/pdf/SKILL.md": pdf}, `its folder "a" contains no SKILL.md`, false},
		"both ways": {map[string]string{"SKILL.md": pdf, "pdf/SKILL.md": pdf}, "SKILL.md is at the top of the archive", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			src := p.archived("x.zip", zipOf(t, tt.files))
			s := p.open()
			_, err := p.installSource(s, src, "agent-runtime")
			if metier.CodeOf(err) != "archive_layout" || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("wrapper: %v", err)
			}
			_, err = p.installSource(s, src, "default")
			if (err == nil) != tt.either {
				t.Errorf("either: %v", err)
			}
			if _, ok := s.Lock().Skills["pdf"]; ok != tt.either {
				t.Errorf("lock = %v", s.Lock().Skills)
			}
			p.empty()
		})
	}
}

func TestArchive_ReportsWhatIsNotInstalled(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	src := p.archived("x.zip", zipOf(t, map[string]string{"pdf/SKILL.md": skill("pdf", ""), "pdf/.DS_Store": "x", "__MACOSX/pdf/._SKILL.md": "x"}))
	plan, err := p.open().Prepare(t.Context(), install.Request{Source: src}, settingsOf(t, "agent-runtime"))
	if err != nil {
		t.Fatal(err)
	}
	if len(plan.Notes) != 1 || !strings.Contains(plan.Notes[0], "pdf/.DS_Store") {
		t.Errorf("notes = %q", plan.Notes)
	}
}

func TestArchive_ThatIsNotOne(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.open()
	for text, want := range map[string]string{"<!DOCTYPE html>\n<title>Sign in</title>": "source_is_page", "text": "archive_unknown_format", "PK\x03\x04": "archive_damaged"} {
		_, err := p.installSource(s, p.archived("x.zip", []byte(text)), "default")
		if metier.CodeOf(err) != want {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := p.installSource(s, install.Source{Kind: install.Archive, Location: filepath.Join(p.in, "none.zip")}, "default"); metier.CodeOf(err) != "source_missing" {
		t.Errorf("missing: %v", err)
	}
	if _, err := p.installSource(s, install.Source{Kind: install.Archive, Location: p.in}, "default"); metier.CodeOf(err) != "source_invalid" {
		t.Errorf("a folder: %v", err)
	}
	p.empty()
}

func TestFile_IsInstalledFromAnAddress(t *testing.T) {
	t.Parallel()
	text := skill("pdf", "Read.")
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/x/SKILL.md" {
			w.Write([]byte(text))
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(web.Close)
	p := newPlace(t)
	src, err := install.Parse(web.URL+"/x/SKILL.md", "", "")
	if err != nil || src.Kind != install.File {
		t.Fatalf("%+v, %v", src, err)
	}
	s := p.open()
	if _, err := p.installSource(s, src, "default"); err != nil {
		t.Fatal(err)
	}
	if e := s.Lock().Skills["pdf"]; e.Digest != digest.Bytes([]byte(text)) || e.Location != src.Location {
		t.Errorf("entry = %+v", e)
	}
	src.Location = web.URL + "/y/SKILL.md"
	if _, err := p.installSource(s, src, "default"); metier.CodeOf(err) != "source_missing" {
		t.Errorf("missing: %v", err)
	}
	p.empty()
}
