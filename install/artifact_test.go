package install

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/install/registrytest"
	"metier/settings"
)

const imageLayer = "application/vnd.oci.image.layer.v1.tar+gzip"

// tarGz returns an archive of files.
func tarGz(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(files[name]))})
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

func skillText(name, body string) string {
	return "---\nname: " + name + "\ndescription: Does " + name + ".\n---\n" + body + "\n"
}

// artifacts is a registry at example.com, and a store that installs from it.
type artifacts struct {
	t *testing.T
	registrytest.Registry
	net *network
	dir string
	env []string

	offline   bool
	downloads string
}

func newArtifacts(t *testing.T) *artifacts {
	t.Helper()
	a := &artifacts{t: t, dir: t.TempDir()}
	a.net = newNetwork(t, a.ServeHTTP)
	return a
}

func (a *artifacts) web() webOptions { return webOptions{roots: a.net.roots, dial: a.net.dial} }

func (a *artifacts) open() *Store {
	a.t.Helper()
	s, err := Open(a.t.Context(), Options{Dir: filepath.Join(a.dir, "skills"), Lock: filepath.Join(a.dir, "metier.lock"), Base: a.dir, Env: a.env, Now: func() time.Time { return time.Unix(0, 0) }, Offline: a.offline, Downloads: a.downloads, web: a.web()})
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { s.Close() })
	return s
}

func testSettings(t *testing.T) settings.Settings {
	t.Helper()
	layer, err := settings.Profile(settings.DefaultProfile)
	if err != nil {
		t.Fatal(err)
	}
	set, _, err := settings.Resolve(layer)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// skill stores an artifact with one skill.
func (a *artifacts) skill(repository, mediaType string, files map[string]string, tags ...string) string {
	a.t.Helper()
	return a.Image(repository, []registrytest.Descriptor{a.Blob(mediaType, tarGz(a.t, files))}, tags...)
}

// add installs from a source, and returns the lock.
func (a *artifacts) add(text string) (Lock, error) {
	a.t.Helper()
	src, err := Parse(text, "/", "/")
	if err != nil {
		return Lock{}, err
	}
	s := a.open()
	defer s.Close()
	p, err := s.Prepare(a.t.Context(), Request{Source: src}, testSettings(a.t))
	if err == nil {
		err = p.Apply(a.t.Context())
	}
	return s.Lock(), err
}

// installed returns the text of a file of an installed skill.
func (a *artifacts) installed(file string) string {
	a.t.Helper()
	raw, err := os.ReadFile(filepath.Join(a.dir, "skills", filepath.FromSlash(file)))
	if err != nil {
		a.t.Fatal(err)
	}
	return string(raw)
}

func TestArtifact_InstallsEveryCommonForm(t *testing.T) {
	t.Parallel()
	const list = "application/vnd.oci.image.index.v1+json"
	top, folder := map[string]string{"SKILL.md": skillText("pdf", "Read."), "a/b.md": "b"}, map[string]string{"pdf/SKILL.md": skillText("pdf", "Read."), "pdf/a/b.md": "b"}
	for name, put := range map[string]func(*artifacts) string{
		"folder in a skill layer": func(a *artifacts) string { return a.skill("pdf", contentType, folder, "1") },
		"top of an image layer":   func(a *artifacts) string { return a.skill("pdf", imageLayer, top, "1") },
		"another vendor's type of layer": func(a *artifacts) string {
			return a.skill("pdf", "application/vnd.agent.skill.content.v1.tar+gzip", top, "1")
		},
		"image for Docker": func(a *artifacts) string {
			raw, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": dockerManifest, "layers": []registrytest.Descriptor{a.Blob("application/vnd.docker.image.rootfs.diff.tar.gzip", tarGz(t, top))}})
			if err != nil {
				t.Fatal(err)
			}
			return a.Put("pdf", dockerManifest, raw, "1")
		},
		"index with the same files for each platform": func(a *artifacts) string {
			var subs []registrytest.Descriptor
			layer := a.Blob(imageLayer, tarGz(t, top))
			for _, tags := range [][]string{nil, {"other"}} {
				d := a.Image("pdf", []registrytest.Descriptor{layer}, tags...)
				subs = append(subs, registrytest.Descriptor{MediaType: "application/vnd.oci.image.manifest.v1+json", Digest: d, Size: len(a.Manifest("pdf", d))})
			}
			raw, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": list, "manifests": subs})
			if err != nil {
				t.Fatal(err)
			}
			return a.Put("pdf", list, raw, "1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newArtifacts(t)
			want := put(a)
			lock, err := a.add("oci://example.com/pdf:1")
			if err != nil {
				t.Fatal(err)
			}
			e := lock.Skills["pdf"]
			if diff := cmp.Diff(Source{Kind: OCI, Location: "oci://example.com/pdf", Ref: "1", Path: "pdf"}, e.Source); diff != "" {
				t.Errorf("source (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want, e.Digest); diff != "" {
				t.Errorf("digest (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff("b", a.installed("pdf/a/b.md")); diff != "" {
				t.Errorf("file (-want +got):\n%s", diff)
			}
		})
	}
}

func TestArtifact_ChoosesASkillOfSeveral(t *testing.T) {
	t.Parallel()
	a := newArtifacts(t)
	a.skill("all", contentType, map[string]string{"README.md": "x", "skills/pdf/SKILL.md": skillText("pdf", ""), "skills/docx/SKILL.md": skillText("docx", "")}, "1")
	if _, err := a.add("oci://example.com/all:1"); metier.CodeOf(err) != "skills_not_chosen" {
		t.Errorf("%v", err)
	}
	if _, err := a.add("oci://example.com/all:1#skills/none"); metier.CodeOf(err) != "source_missing" {
		t.Errorf("%v", err)
	}
	lock, err := a.add("oci://example.com/all:1#skills/pdf")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"pdf"}, slices.Sorted(maps.Keys(lock.Skills))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("skills/pdf", lock.Skills["pdf"].Path); diff != "" {
		t.Errorf("path (-want +got):\n%s", diff)
	}
}

// update returns the plan of an update.
func (a *artifacts) update(s *Store) *Plan {
	a.t.Helper()
	p, err := s.Update(a.t.Context(), nil, false, testSettings(a.t))
	if err != nil {
		a.t.Fatal(err)
	}
	return p
}

func TestArtifact_KeepsTheLockedDigestIfATagMoves(t *testing.T) {
	t.Parallel()
	a := newArtifacts(t)
	old := a.skill("pdf", contentType, map[string]string{"pdf/SKILL.md": skillText("pdf", "Old.")}, "1")
	if _, err := a.add("oci://example.com/pdf:1"); err != nil {
		t.Fatal(err)
	}
	s := a.open()
	if diff := cmp.Diff(Keep, a.update(s).Changes[0].Action); diff != "" {
		t.Errorf("before the tag moved (-want +got):\n%s", diff)
	}
	now := a.skill("pdf", contentType, map[string]string{"pdf/SKILL.md": skillText("pdf", "New.")}, "1")
	if err := os.RemoveAll(filepath.Join(a.dir, "skills", "pdf")); err != nil {
		t.Fatal(err)
	}
	p, err := s.Restore(t.Context(), true, testSettings(t))
	if err == nil {
		err = p.Apply(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(skillText("pdf", "Old."), a.installed("pdf/SKILL.md")); diff != "" {
		t.Errorf("restored (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(old, s.Lock().Skills["pdf"].Digest); diff != "" {
		t.Errorf("locked (-want +got):\n%s", diff)
	}
	before := len(a.Requests())
	if err := a.update(s).Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	byTag := slices.DeleteFunc(a.Requests()[before:], func(r string) bool { return r != "GET /v2/pdf/manifests/1" })
	if diff := cmp.Diff(1, len(byTag)); diff != "" {
		t.Errorf("how often the tag was resolved (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(now, s.Lock().Skills["pdf"].Digest); diff != "" {
		t.Errorf("updated (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(skillText("pdf", "New."), a.installed("pdf/SKILL.md")); diff != "" {
		t.Errorf("updated (-want +got):\n%s", diff)
	}
}

func TestArtifact_NeverUpdatesADigest(t *testing.T) {
	t.Parallel()
	a := newArtifacts(t)
	d := a.skill("pdf", contentType, map[string]string{"pdf/SKILL.md": skillText("pdf", "Old.")}, "1")
	if _, err := a.add("oci://example.com/pdf@" + d); err != nil {
		t.Fatal(err)
	}
	asked := len(a.Requests())
	if diff := cmp.Diff(Keep, a.update(a.open()).Changes[0].Action); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(asked, len(a.Requests())); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestArtifact_ReportsALockedDigestThatIsGone(t *testing.T) {
	t.Parallel()
	a := newArtifacts(t)
	a.skill("pdf", contentType, map[string]string{"pdf/SKILL.md": skillText("pdf", "Old.")}, "1")
	if _, err := a.add("oci://example.com/pdf:1"); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(a.dir, "skills", "pdf")); err != nil {
		t.Fatal(err)
	}
	a.Before = func(w http.ResponseWriter, r *http.Request) bool { w.WriteHeader(http.StatusNotFound); return true }
	_, err := a.open().Restore(t.Context(), true, testSettings(t))
	if diff := cmp.Diff("lock_differs", metier.CodeOf(err)); diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
