package install_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/install"
	"metier/internal/digest"
)

// site is a web server with files.
type site struct {
	*httptest.Server
	mu    sync.Mutex
	files map[string]string // by path
	asked map[string]int
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{files: map[string]string{}, asked: map[string]int{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked[r.URL.Path]++
		text, ok := s.files[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Write([]byte(text))
	}))
	t.Cleanup(s.Close)
	return s
}

// put adds or replaces a file. "" removes it.
func (s *site) put(path, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files[path] = text; text == "" {
		delete(s.files, path)
	}
}

func (s *site) times(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[path]
}

const (
	newFolder = "/.well-known/agent-skills/"
	oldFolder = "/.well-known/skills/"
	schema    = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
)

// offer adds an entry of version 0.2 for an artifact.
func (s *site) offer(t *testing.T, schema string, entries ...map[string]any) {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"$schema": schema, "skills": entries, "more": 1})
	if err != nil {
		t.Fatal(err)
	}
	s.put(newFolder+"index.json", string(raw))
}

func offered(name, kind, url, content string) map[string]any {
	return map[string]any{"name": name, "type": kind, "description": "d", "url": url, "digest": digest.Bytes([]byte(content)), "other": true}
}

func (s *site) source(name string) install.Source {
	return install.Source{Kind: install.Index, Location: s.URL, Path: name}
}

func TestIndex_InstallsOnlyChosenSkills(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	zipped, tarred := string(zipOf(t, map[string]string{"SKILL.md": skill("pdf", ""), "references/a.md": "a"})), string(tarGzOf(t, map[string]string{"SKILL.md": skill("docx", ""), "run.sh": "x"}))
	s.files[newFolder+"pdf.zip"], s.files["/files/docx"], s.files[newFolder+"notes/SKILL.md"] = zipped, tarred, skill("notes", "")
	s.offer(t, schema, offered("pdf", "archive", "pdf.zip", zipped), offered("docx", "archive", "/files/docx", tarred),
		offered("notes", "skill-md", s.URL+newFolder+"notes/SKILL.md", skill("notes", "")), offered("odd", "git", "x", ""))
	p := newPlace(t)
	st := p.open()
	if _, err := p.prepare(st, install.Request{Source: s.source("")}); metier.CodeOf(err) != "skills_not_chosen" || !strings.Contains(err.Error(), "3 skills: pdf, docx, notes") {
		t.Errorf("no choice: %v", err)
	}
	plan, err := p.prepare(st, install.Request{Source: s.source(""), Skills: []string{"docx", "notes"}})
	if err == nil {
		err = plan.Apply(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if s.times(newFolder+"pdf.zip") != 0 {
		t.Error("a skill that was not chosen was downloaded")
	}
	if e := st.Lock().Skills["docx"]; e.Digest != digest.Bytes([]byte(tarred)) || e.Location != s.URL || e.Path != "docx" || e.Kind != install.Index {
		t.Errorf("entry = %+v", e)
	}
	plan, err = p.prepare(st, install.Request{Source: s.source(""), All: true})
	if err == nil {
		err = plan.Apply(t.Context())
	}
	if err != nil || len(plan.Notes) != 1 || !strings.Contains(plan.Notes[0], `"odd" of the index was skipped: its type "git" is unknown`) {
		t.Errorf("all: %v, notes %q", err, plan.Notes)
	}
	want := map[string]install.State{"pdf": install.Intact, "docx": install.Intact, "notes": install.Intact}
	if diff := cmp.Diff(want, p.states(st)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	p.empty()

	// The lock is enough to install a skill again, and other bytes are an error.
	if err := os.RemoveAll(filepath.Join(p.dir, "pdf")); err != nil {
		t.Fatal(err)
	}
	plan, err = st.Restore(t.Context(), true, settingsOf(t, "default"))
	if err == nil {
		err = plan.Apply(t.Context())
	}
	if err != nil || p.states(st)["pdf"] != install.Intact {
		t.Errorf("restore: %v", err)
	}
	if err := os.RemoveAll(filepath.Join(p.dir, "pdf")); err != nil {
		t.Fatal(err)
	}
	newer := string(zipOf(t, map[string]string{"SKILL.md": skill("pdf", "Newer.")}))
	s.put(newFolder+"pdf.zip", newer)
	if _, err = st.Restore(t.Context(), true, settingsOf(t, "default")); metier.CodeOf(err) != "digest_mismatch" || metier.KindOf(err) != metier.Drift {
		t.Errorf("other bytes: %v", err)
	}
	s.offer(t, schema, offered("pdf", "archive", "pdf.zip", newer), offered("docx", "archive", "/files/docx", tarred), offered("notes", "skill-md", "notes/SKILL.md", skill("notes", "")))
	if _, err = st.Restore(t.Context(), true, settingsOf(t, "default")); metier.CodeOf(err) != "digest_mismatch" {
		t.Errorf("another digest in the index: %v", err)
	}
	plan, err = st.Update(t.Context(), nil, false, settingsOf(t, "default"))
	if err == nil {
		err = plan.Apply(t.Context())
	}
	if err != nil || st.Lock().Skills["pdf"].Digest != digest.Bytes([]byte(newer)) {
		t.Errorf("update: %v, %+v", err, st.Lock().Skills["pdf"])
	}
	p.empty()
}

func TestIndex_OfTheOldVersion(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.files[oldFolder+"index.json"] = `{"skills":[{"name":"pdf","description":"d","files":["SKILL.md","references/a b.md","assets/page.html"]},{"name":"bad","files":["../x","SKILL.md"]}]}`
	s.files[oldFolder+"pdf/SKILL.md"], s.files[oldFolder+"pdf/references/a b.md"], s.files[oldFolder+"pdf/assets/page.html"] = skill("pdf", ""), "a", "<!doctype html><p>An asset."
	p := newPlace(t)
	st := p.open()
	plan, err := p.prepare(st, install.Request{Source: s.source("")})
	if err == nil {
		err = plan.Apply(t.Context())
	}
	if err != nil || len(tree(t, filepath.Join(p.dir, "pdf"))) != 3 {
		t.Fatalf("%v, %v", err, tree(t, p.dir))
	}
	if _, err := p.prepare(st, install.Request{Source: s.source("bad")}); metier.CodeOf(err) != "index_entry_invalid" || !strings.Contains(err.Error(), `"../x" is not a path`) {
		t.Errorf("bad: %v", err)
	}
	s.put(oldFolder+"pdf/references/a b.md", "")
	if _, err := p.prepare(st, install.Request{Source: s.source("pdf")}); metier.CodeOf(err) != "source_missing" {
		t.Errorf("a missing file: %v", err)
	}
	s.put(oldFolder+"pdf/references/a b.md", "<html>Not found</html>")
	if _, err := p.prepare(st, install.Request{Source: s.source("pdf")}); metier.CodeOf(err) != "source_is_page" {
		t.Errorf("a page: %v", err)
	}
	p.empty()
}

func TestIndex_IsFoundWhereTheAddressLeads(t *testing.T) {
	t.Parallel()
	text := skill("pdf", "")
	index := fmt.Sprintf(`{"$schema":%q,"skills":[{"name":"pdf","type":"skill-md","url":"pdf.md","digest":%q}]}`, schema, digest.Bytes([]byte(text)))
	for _, tt := range []struct{ index, address string }{
		{newFolder + "index.json", ""},
		{newFolder + "index.json", "/"},
		{newFolder + "index.json", "/docs/page"},
		{newFolder + "index.json", "/.well-known/agent-skills"},
		{newFolder + "index.json", "/.well-known/agent-skills/index.json"},
		{"/team" + newFolder + "index.json", "/team/"},
		{oldFolder + "index.json", ""},
		{"/any/index.json", "/any/index.json"},
	} {
		s := newSite(t)
		s.files[tt.index], s.files[strings.TrimSuffix(tt.index, "index.json")+"pdf.md"] = index, text
		p := newPlace(t)
		src, err := install.Parse(s.URL+tt.address, "", "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.installSource(p.open(), src, "default"); err != nil {
			t.Errorf("%s at %s: %v", tt.index, tt.address, err)
		}
	}
}

func TestIndex_ThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	text := skill("pdf", "")
	good := offered("pdf", "skill-md", "pdf.md", text)
	with := func(key string, value any) map[string]any {
		out := offered("pdf", "skill-md", "pdf.md", text)
		out[key] = value
		return out
	}
	for name, tt := range map[string]struct {
		schema  string
		entries []map[string]any
		want    string
	}{
		"good":            {schema, []map[string]any{good}, ""},
		"unknown schema":  {schema + "x", []map[string]any{good}, "index_schema_unknown"},
		"two":             {schema, []map[string]any{good, good}, "index_invalid"},
		"other bytes":     {schema, []map[string]any{offered("pdf", "skill-md", "pdf.md", text+"x")}, "digest_mismatch"},
		"no digest":       {schema, []map[string]any{with("digest", "")}, "index_entry_invalid"},
		"upper digest":    {schema, []map[string]any{with("digest", strings.ToUpper(digest.Bytes([]byte(text))))}, "index_entry_invalid"},
		"md5":             {schema, []map[string]any{with("digest", "md5:900150983cd24fb0d6963f7d28e17f72")}, "index_entry_invalid"},
		"no url":          {schema, []map[string]any{with("url", "")}, "index_entry_invalid"},
		"another scheme":  {schema, []map[string]any{with("url", "file:///etc/passwd")}, "index_entry_invalid"},
		"not encrypted":   {schema, []map[string]any{with("url", "http://example.com/pdf.md")}, "source_insecure"},
		"private":         {schema, []map[string]any{with("url", "https://169.254.169.254/pdf.md")}, "address_not_public"},
		"credentials":     {schema, []map[string]any{with("url", "https://u:p@example.com/pdf.md")}, "source_password"},
		"missing":         {schema, []map[string]any{with("url", "none.md")}, "source_missing"},
		"unknown type":    {schema, []map[string]any{with("type", "oci")}, "index_entry_invalid"},
		"not an archive":  {schema, []map[string]any{with("type", "archive")}, "archive_unknown_format"},
		"type of a field": {schema, []map[string]any{with("digest", 1)}, "index_entry_invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.files[newFolder+"pdf.md"] = text
			s.offer(t, tt.schema, tt.entries...)
			p := newPlace(t)
			_, err := p.installSource(p.open(), s.source("pdf"), "default")
			if (err == nil) != (tt.want == "") || tt.want != "" && metier.CodeOf(err) != tt.want {
				t.Errorf("%v, want %s", err, tt.want)
			}
			p.empty()
		})
	}
	for text, want := range map[string]string{`[]`: "index_invalid", `{}`: "index_invalid", `{"skills":{}}`: "index_invalid", `{`: "index_invalid", `{"$schema":1,"skills":[]}`: "index_schema_unknown",
		`{"skills":[]}`: "source_without_skills", `{"skills":[{"name":"pdf","files":["SKILL.md","a","a"]}]}`: "source_without_skills", `{"skills":[{"name":"pdf","files":["SKILL.md","a","a/b"]}]}`: "source_without_skills", `{"skills":[{"name":"../x","files":["SKILL.md"]}]}`: "source_without_skills", `{"skills":[{"name":"A B","files":["SKILL.md"]}]}`: "source_without_skills",
		"<!doctype html>": "index_missing", `{"skills":[` + strings.Repeat("1,", 10_000) + `1]}`: "index_too_large"} {
		s := newSite(t)
		s.files[newFolder+"index.json"] = text
		p := newPlace(t)
		if _, err := p.installSource(p.open(), s.source(""), "default"); metier.CodeOf(err) != want {
			t.Errorf("%.80s: %v, want %s", text, err, want)
		}
	}
}

func TestIndex_WithAnUnknownSchemaIsLeftOut(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.offer(t, "https://example.com/9.0.0")
	s.files[oldFolder+"index.json"], s.files[oldFolder+"pdf/SKILL.md"] = `{"skills":[{"name":"pdf","files":["SKILL.md"]}]}`, skill("pdf", "")
	p := newPlace(t)
	plan, err := p.prepare(p.open(), install.Request{Source: s.source("")})
	if err != nil || len(plan.Notes) != 1 || !strings.Contains(plan.Notes[0], "unknown schema") {
		t.Errorf("%v, %+v", err, plan)
	}
}
