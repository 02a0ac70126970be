package install

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/internal/digest"
)

const published = "---\nname: pdf\ndescription: Reads PDF files.\nlicense: MIT\nmetadata:\n  version: \"1.2\"\n---\nRead scripts/run.sh.\n"

// source writes a skill into a new folder.
func (a *artifacts) source(files map[string]string) string {
	a.t.Helper()
	dir := a.t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			a.t.Fatal(err)
		}
		mode := os.FileMode(0o644)
		if strings.HasSuffix(name, ".sh") {
			mode = 0o755
		}
		if err := os.WriteFile(file, []byte(text), mode); err != nil {
			a.t.Fatal(err)
		}
	}
	return dir
}

// packed packs a skill for a target.
func (a *artifacts) packed(dir, target string) *Publication {
	a.t.Helper()
	to, err := ParseTarget(target)
	if err != nil {
		a.t.Fatal(err)
	}
	p, err := NewPublication(a.t.Context(), dir, to, testSettings(a.t))
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { p.Close() })
	return p
}

func (a *artifacts) push(p *Publication, force bool) error {
	a.t.Helper()
	return p.Push(a.t.Context(), PublishOptions{Env: a.env, Force: force, web: a.web()})
}

func TestPublish_SendsWhatAddInstalls(t *testing.T) {
	t.Parallel()
	a := newArtifacts(t)
	p := a.packed(a.source(map[string]string{"pdf/SKILL.md": published, "pdf/scripts/run.sh": "#!/bin/sh\necho 1\n"}), "oci://example.com/acme/pdf:1.2")
	if err := a.push(p, false); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p.Digest, a.Tag("acme/pdf", "1.2")); diff != "" {
		t.Errorf("tag (-want +got):\n%s", diff)
	}
	lock, err := a.add(p.Pinned())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p.Change.Entry.Tree, lock.Skills["pdf"].Tree); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("0755", lock.Skills["pdf"].Files["scripts/run.sh"].Mode); diff != "" {
		t.Errorf("mode (-want +got):\n%s", diff)
	}
}

func TestPublish_WritesTheCommonFormat(t *testing.T) {
	t.Parallel()
	a := newArtifacts(t)
	p := a.packed(a.source(map[string]string{"pdf/SKILL.md": published}), "oci://example.com/pdf")
	if err := a.push(p, false); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(a.Manifest("pdf", a.Tag("pdf", "latest")), &got); err != nil {
		t.Fatal(err)
	}
	config := `{"name":"pdf","description":"Reads PDF files.","license":"MIT","metadata":{"version":"1.2"}}`
	want := map[string]any{
		"schemaVersion": 2.0, "mediaType": "application/vnd.oci.image.manifest.v1+json", "artifactType": "application/vnd.agentskills.skill.v1",
		"config":      map[string]any{"mediaType": "application/vnd.agentskills.skill.config.v1+json", "digest": digest.Bytes([]byte(config)), "size": float64(len(config))},
		"layers":      []any{map[string]any{"mediaType": "application/vnd.agentskills.skill.content.v1.tar+gzip", "digest": p.Layer, "size": float64(p.layer.Size)}},
		"annotations": map[string]any{"io.agentskills.skill.name": "pdf", "org.opencontainers.image.title": "pdf", "org.opencontainers.image.description": "Reads PDF files.", "org.opencontainers.image.licenses": "MIT", "org.opencontainers.image.version": "1.2"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPublish_GivesTheSameDigestForTheSameFiles(t *testing.T) {
	t.Parallel()
	a := newArtifacts(t)
	files := map[string]string{"pdf/SKILL.md": published, "pdf/b.md": "b", "pdf/a.md": "a"}
	one, two := a.packed(a.source(files), "oci://example.com/pdf:1"), a.packed(filepath.Join(a.source(files), "pdf"), "oci://other.example.com/x:2")
	if diff := cmp.Diff(one.Digest, two.Digest); diff != "" {
		t.Errorf("(-first +second):\n%s", diff)
	}
	files["pdf/a.md"] = "changed"
	if changed := a.packed(a.source(files), "oci://example.com/pdf:1"); changed.Digest == one.Digest {
		t.Error("a changed file has the same digest")
	}
}

func TestPublish_ReplacesATagOnlyIfForced(t *testing.T) {
	t.Parallel()
	a := newArtifacts(t)
	old, changed := a.packed(a.source(map[string]string{"pdf/SKILL.md": published}), "oci://example.com/pdf:1"), a.packed(a.source(map[string]string{"pdf/SKILL.md": published + "More.\n"}), "oci://example.com/pdf:1")
	for _, step := range []struct {
		p     *Publication
		force bool
		code  string
		tag   string
	}{{old, false, "", old.Digest}, {old, false, "", old.Digest}, {changed, false, "tag_exists", old.Digest}, {changed, true, "", changed.Digest}} {
		err := a.push(step.p, step.force)
		if (err != nil || step.code != "") && metier.CodeOf(err) != step.code {
			t.Errorf("%v, want %q", err, step.code)
		}
		if diff := cmp.Diff(step.tag, a.Tag("pdf", "1")); diff != "" {
			t.Errorf("tag (-want +got):\n%s", diff)
		}
	}
	puts := slices.DeleteFunc(a.Requests(), func(r string) bool { return !strings.HasPrefix(r, "PUT") })
	if diff := cmp.Diff(5, len(puts)); diff != "" { // two layers, a configuration, and two manifests
		t.Errorf("%v (-want +got):\n%s", puts, diff)
	}
	now, err := old.Current(t.Context(), PublishOptions{web: a.web()})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(changed.Digest, now); diff != "" {
		t.Errorf("current (-want +got):\n%s", diff)
	}
}

func TestPublish_RefusesWhatCouldNotBeInstalled(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		files        map[string]string
		target, code string
	}{
		"no skill":       {map[string]string{"README.md": "x"}, "oci://example.com/pdf:1", "source_without_skills"},
		"two skills":     {map[string]string{"a/SKILL.md": skillText("a", ""), "b/SKILL.md": skillText("b", "")}, "oci://example.com/pdf:1", "skills_not_chosen"},
		"no description": {map[string]string{"pdf/SKILL.md": "---\nname: pdf\n---\n"}, "oci://example.com/pdf:1", "skill_rejected"},
		"a digest":       {nil, "oci://example.com/pdf@" + digest.Bytes(nil), "target_invalid"},
		"a folder":       {nil, "oci://example.com/pdf:1#x", "target_invalid"},
		"an address":     {nil, "https://example.com/pdf.zip", "target_invalid"},
		"a word":         {nil, "pdf", "target_invalid"},
		"upper case":     {nil, "oci://example.com/PDF:1", "target_invalid"},
		"a password":     {nil, "oci://u:p@example.com/pdf", "source_password"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newArtifacts(t)
			to, err := ParseTarget(tt.target)
			if err == nil {
				_, err = NewPublication(t.Context(), a.source(tt.files), to, testSettings(t))
			}
			if diff := cmp.Diff(tt.code, metier.CodeOf(err)); diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestPublish_SendsNothingToOtherHosts(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		location func(w http.ResponseWriter, r *http.Request)
		code     string
	}{
		"upload at another host": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "https://evil.example.com/upload")
			w.WriteHeader(http.StatusAccepted)
		}, "registry_failed"},
		"upload leads to another host": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://evil.example.com/upload", http.StatusTemporaryRedirect)
		}, "registry_failed"},
		"upload without TLS": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://example.com/upload")
			w.WriteHeader(http.StatusAccepted)
		}, "registry_failed"},
		"no place for the upload": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }, "registry_failed"},
		"only reading":            {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, "registry_denied"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newArtifacts(t)
			a.signIn(auths("example.com"))
			var leaked atomic.Int64
			a.Before = func(w http.ResponseWriter, r *http.Request) bool {
				signed := r.Header.Get("Authorization") != ""
				switch {
				case r.Host == "evil.example.com" && (signed || r.Method == http.MethodPut):
					leaked.Add(1)
				case r.Host == "evil.example.com":
					w.Header().Set("Location", "https://evil.example.com/upload")
					w.WriteHeader(http.StatusAccepted)
				case !signed:
					w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
					w.WriteHeader(http.StatusUnauthorized)
				case r.Method == http.MethodPost, r.Method == http.MethodPut && strings.HasPrefix(r.URL.Path, "/upload"):
					tt.location(w, r)
				default:
					return false
				}
				return true
			}
			err := a.push(a.packed(a.source(map[string]string{"pdf/SKILL.md": published}), "oci://example.com/pdf:1"), false)
			if diff := cmp.Diff(tt.code, metier.CodeOf(err)); diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			if diff := cmp.Diff(int64(0), leaked.Load()); diff != "" {
				t.Errorf("something was sent (-want +got):\n%s", diff)
			}
			if a.Tag("pdf", "1") != "" {
				t.Error("the tag was set")
			}
		})
	}
}

func TestPublish_RefusesRedirectedUploads(t *testing.T) {
	t.Parallel()
	a := newArtifacts(t)
	var got atomic.Int64
	a.Before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Host == "evil.example.com" {
			got.Add(1)
			return true
		}
		if r.Method == http.MethodPut && !isBlob(r) {
			http.Redirect(w, r, "https://evil.example.com/x", http.StatusTemporaryRedirect)
		}
		return r.Method == http.MethodPut && !isBlob(r)
	}
	err := a.push(a.packed(a.source(map[string]string{"pdf/SKILL.md": published}), "oci://example.com/pdf:1"), false)
	if diff := cmp.Diff("upload_redirected", metier.CodeOf(err)); diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff(int64(0), got.Load()); diff != "" {
		t.Errorf("requests to the other host (-want +got):\n%s", diff)
	}
}

func TestPublish_SignsIn(t *testing.T) {
	t.Parallel()
	a := newArtifacts(t)
	a.signIn(auths("example.com"))
	var scopes atomic.Value
	a.Before = func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.URL.Path == "/token":
			scopes.CompareAndSwap(nil, r.URL.Query().Get("scope"))
			fmt.Fprint(w, `{"token":"granted"}`)
		case r.Header.Get("Authorization") != "Bearer granted":
			w.Header().Set("WWW-Authenticate", `Bearer realm="https://example.com/token",service="s"`)
			w.WriteHeader(http.StatusUnauthorized)
		default:
			return false
		}
		return true
	}
	p := a.packed(a.source(map[string]string{"pdf/SKILL.md": published}), "oci://example.com/pdf:1")
	if err := a.push(p, false); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("repository:pdf:pull,push", scopes.Load()); diff != "" {
		t.Errorf("scope (-want +got):\n%s", diff)
	}
}
