package wellknown_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/internal/digest"
	"metier/policy"
	"metier/settings"
	"metier/source/local"
	"metier/wellknown"
)

func skill(name, description string) string {
	return "---\nname: " + name + "\ndescription: " + description + "\n---\nText.\n"
}

// snapshot returns the skills in files.
func snapshot(t *testing.T, files map[string]string) *metier.Snapshot {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o644)
		if strings.HasSuffix(name, ".sh") {
			mode = 0o755
		}
		if err := os.WriteFile(file, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	layer, err := settings.Profile(settings.DefaultProfile)
	if err != nil {
		t.Fatal(err)
	}
	set, _, err := settings.Resolve(layer)
	if err != nil {
		t.Fatal(err)
	}
	src, err := local.New(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := metier.Build(t.Context(), []metier.Mount{{Label: "x", Tier: policy.User, Source: src, Root: dir}}, set.Parse, set.Names, set.Read.IndexRoot, false)
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

// build builds a site, and returns its folder too.
func build(t *testing.T, snap *metier.Snapshot) (*wellknown.Site, string) {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	site, err := wellknown.Build(t.Context(), snap, snap.All(), root)
	if err != nil {
		t.Fatal(err)
	}
	return site, dir
}

var library = map[string]string{
	"pdf/SKILL.md": skill("pdf", "Fill in forms."), "pdf/scripts/run.sh": "#!/bin/sh\n", "pdf/assets/page.html": "<!doctype html>",
	"notes/SKILL.md": skill("notes", "Take notes."),
	"long/SKILL.md":  skill("long", strings.Repeat("word ", 300)),
	"dots/SKILL.md":  skill("dots", "Has an odd file."), "dots/a..b": "x",
	"mac/SKILL.md": skill("mac", "Has a file of macOS."), "mac/.DS_Store": "x",
}

func TestBuild_WritesTheSameBytesEachTime(t *testing.T) {
	t.Parallel()
	snap := snapshot(t, library)
	site, dir := build(t, snap)
	_, again := build(t, snap)
	for _, name := range []string{"agent-skills/index.json", "agent-skills/pdf.zip", "agent-skills/notes/SKILL.md", "skills/index.json", "skills/pdf/scripts/run.sh"} {
		a, err := os.ReadFile(filepath.Join(dir, ".well-known", name))
		b, err2 := os.ReadFile(filepath.Join(again, ".well-known", name))
		if err != nil || err2 != nil || !bytes.Equal(a, b) {
			t.Errorf("%s: %v, %v, %d and %d bytes", name, err, err2, len(a), len(b))
		}
	}
	for _, s := range site.Skills {
		raw, err := os.ReadFile(filepath.Join(dir, ".well-known/agent-skills", s.URL))
		if err != nil || digest.Bytes(raw) != s.Digest {
			t.Errorf("%s: %v, digest %s", s.Name, err, s.Digest)
		}
	}
	kinds := map[string]string{}
	for _, s := range site.Skills {
		kinds[s.Name] = s.Type
	}
	if diff := cmp.Diff(map[string]string{"pdf": "archive", "notes": "skill-md"}, kinds); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	reasons := map[string]string{}
	for _, o := range site.Omitted {
		reasons[o.Name] = o.Reason
	}
	for name, want := range map[string]string{"long": "more than 1024 characters", "dots": `"a..b"`, "mac": "macOS uses this name"} {
		if !strings.Contains(reasons[name], want) {
			t.Errorf("%s: reason %q, want %q", name, reasons[name], want)
		}
		for _, left := range []string{"agent-skills/" + name + ".zip", "skills/" + name} {
			if _, err := os.Lstat(filepath.Join(dir, ".well-known", left)); !os.IsNotExist(err) {
				t.Errorf("%s remains: %v", left, err)
			}
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if _, err := wellknown.Build(t.Context(), snap, nil, root); metier.CodeOf(err) != "site_exists" {
		t.Errorf("a second site in the folder: %v", err)
	}
}

// served is a site on a server.
type served struct {
	t   *testing.T
	url string
}

func serve(t *testing.T) served {
	t.Helper()
	snap := snapshot(t, library)
	site, _ := build(t, snap)
	server := httptest.NewServer(site.Handler(wellknown.Options{Search: snap.Search, Hosts: []string{"127.0.0.1"}, Origins: []string{"https://app.example"}}))
	t.Cleanup(server.Close)
	return served{t, server.URL}
}

// ask sends a request with a header, and returns the response and its body.
func (s served) ask(method, path string, header ...string) (*http.Response, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if r.Header.Set(header[i], header[i+1]); header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res, string(raw)
}

func TestHandler_ServesTheFilesOfTheSite(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for _, tt := range []struct {
		path, media string
		status      int
	}{
		{"/.well-known/agent-skills/index.json", "application/json", 200},
		{"/.well-known/agent-skills/pdf.zip", "application/zip", 200},
		{"/.well-known/agent-skills/notes/SKILL.md", "text/markdown; charset=utf-8", 200},
		{"/.well-known/skills/index.json", "application/json", 200},
		{"/.well-known/skills/pdf/assets/page.html", "application/octet-stream", 200},
		{"/.well-known/skills/pdf/assets", "", 404},
		{"/.well-known/skills/long/SKILL.md", "", 404},
		{"/.well-known/skills/pdf/..%2f..%2f..%2fx", "", 404},
		{"/", "", 404},
	} {
		res, body := s.ask("GET", tt.path)
		if res.StatusCode != tt.status || tt.status == 200 && res.Header.Get("Content-Type") != tt.media {
			t.Errorf("%s: %d, %s", tt.path, res.StatusCode, res.Header.Get("Content-Type"))
		}
		if tt.status != 200 {
			continue
		}
		tag := res.Header.Get("ETag")
		if tag != `"`+digest.Bytes([]byte(body))+`"` || res.Header.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: header = %v", tt.path, res.Header)
		}
		head, none := s.ask("HEAD", tt.path)
		if head.StatusCode != 200 || none != "" || head.ContentLength != int64(len(body)) || head.Header.Get("ETag") != tag {
			t.Errorf("HEAD %s: %d, %v", tt.path, head.StatusCode, head.Header)
		}
		if same, _ := s.ask("GET", tt.path, "If-None-Match", tag); same.StatusCode != 304 {
			t.Errorf("%s with its ETag: %d", tt.path, same.StatusCode)
		}
	}
}

func TestHandler_RefusesOtherMethodsHostsAndOrigins(t *testing.T) {
	t.Parallel()
	s := serve(t)
	const index = "/.well-known/agent-skills/index.json"
	if res, _ := s.ask("POST", index); res.StatusCode != 405 || res.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d", res.StatusCode)
	}
	if res, _ := s.ask("GET", index, "Host", "evil.example:80"); res.StatusCode != 421 {
		t.Errorf("another host: %d", res.StatusCode)
	}
	for origin, want := range map[string]string{"https://app.example": "https://app.example", "https://evil.example": "", "null": ""} {
		if res, _ := s.ask("GET", index, "Origin", origin); res.Header.Get("Access-Control-Allow-Origin") != want {
			t.Errorf("origin %s: %v", origin, res.Header)
		}
	}
}

func TestHandler_Searches(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for query, want := range map[string]struct {
		status int
		names  string
	}{"q=forms&limit=10": {200, "pdf"}, "q=forms&owner=acme": {200, ""}, "q=macOS": {200, ""}, "q=": {400, ""}, "q=x&limit=0": {400, ""}, "q=%2C": {400, ""}} {
		res, body := s.ask("GET", "/api/search?"+query)
		var doc struct {
			Skills []struct{ Name, Source, ID string }
		}
		if err := json.Unmarshal([]byte(body), &doc); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		var names []string
		for _, x := range doc.Skills {
			if names = append(names, x.Name); x.Source != s.url {
				t.Errorf("source = %q", x.Source)
			}
		}
		if res.StatusCode != want.status || strings.Join(names, " ") != want.names {
			t.Errorf("%s: %d %s", query, res.StatusCode, body)
		}
	}
}
