package install

import (
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/internal/digest"
)

func keepAll(t *testing.T, d downloads, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err := d.put(digest.Bytes([]byte(text)), strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
}

// got returns the kept text with the digest of a text, or "none".
func got(t *testing.T, d downloads, text string) string {
	t.Helper()
	to, err := os.Create(filepath.Join(t.TempDir(), "to"))
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	n, ok, err := d.get(digest.Bytes([]byte(text)), to)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(io.NewSectionReader(to, 0, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		return "none" + string(raw)
	}
	if int64(len(raw)) != n {
		t.Errorf("%d bytes, not %d", len(raw), n)
	}
	return string(raw)
}

func TestDownloads_GiveOnlyIntactFiles(t *testing.T) {
	t.Parallel()
	d := downloads{dir: filepath.Join(t.TempDir(), "a", "downloads")}
	if diff := cmp.Diff("none", got(t, d, "one")); diff != "" {
		t.Errorf("before (-want +got):\n%s", diff)
	}
	keepAll(t, d, "one")
	if diff := cmp.Diff("one", got(t, d, "one")); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
	file := filepath.Join(d.dir, strings.TrimPrefix(digest.Bytes([]byte("one")), "sha256:"))
	if err := os.WriteFile(file, []byte("evil"), 0o600); err != nil {
		t.Fatal(err)
	}
	if raw := d.bytes(digest.Bytes([]byte("one")), 100); raw != nil {
		t.Errorf("a changed file was read: %q", raw)
	}
	if diff := cmp.Diff("none", got(t, d, "one")); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the changed file is still there")
	}
	if err := os.Symlink("/etc/passwd", file); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("none", got(t, d, "one")); diff != "" {
		t.Errorf("link (-want +got):\n%s", diff)
	}
}

func TestDownloads_RefuseOtherBytes(t *testing.T) {
	t.Parallel()
	d := downloads{dir: t.TempDir()}
	if err := d.put(digest.Bytes([]byte("one")), strings.NewReader("two")); err == nil {
		t.Error("they were kept")
	}
	list, err := os.ReadDir(d.dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(0, len(list)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestDownloads_ArePrivate(t *testing.T) {
	t.Parallel()
	d := downloads{dir: t.TempDir()}
	if err := os.Chmod(d.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	keepAll(t, d, "one")
	for path, want := range map[string]fs.FileMode{".": 0o700, strings.TrimPrefix(digest.Bytes([]byte("one")), "sha256:"): 0o600} {
		info, err := os.Stat(filepath.Join(d.dir, path))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, info.Mode().Perm()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

func TestDownloads_RemoveTheFilesThatWereNotUsedForLongest(t *testing.T) {
	t.Parallel()
	d := downloads{dir: t.TempDir(), most: 8}
	old := func(name string, age time.Duration) {
		t.Helper()
		at := time.Now().Add(-age)
		if err := os.Chtimes(filepath.Join(d.dir, name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	keepAll(t, d, "one", "two")
	for _, text := range []string{"one", "two"} {
		old(strings.TrimPrefix(digest.Bytes([]byte(text)), "sha256:"), 3*time.Hour)
	}
	if diff := cmp.Diff("one", got(t, d, "one")); diff != "" { // now it was used
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, name := range []string{tempMark + "new", tempMark + "left"} {
		if err := os.WriteFile(filepath.Join(d.dir, name), []byte("part"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	old(tempMark+"left", 2*time.Hour)
	keepAll(t, d, "three")
	want := map[string]string{"one": "one", "two": "none", "three": "three"}
	now := map[string]string{}
	for text := range want {
		now[text] = got(t, d, text)
	}
	if diff := cmp.Diff(want, now); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, there := range map[string]bool{tempMark + "new": true, tempMark + "left": false} {
		if _, err := os.Stat(filepath.Join(d.dir, name)); (err == nil) != there {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOffline_InstallsWhatTheLockHasADigestOf(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"artifact": "oci://example.com/pdf:1", "archive": "https://example.com/pdf.tar.gz", "file": "https://example.com/pdf/SKILL.md"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newArtifacts(t)
			a.downloads = t.TempDir()
			files := map[string]string{"pdf/SKILL.md": skillText("pdf", "Kept.")}
			a.skill("pdf", contentType, files, "1")
			a.Before = func(w http.ResponseWriter, r *http.Request) bool {
				switch r.URL.Path {
				case "/pdf.tar.gz":
					w.Write(tarGz(t, files))
				case "/pdf/SKILL.md":
					io.WriteString(w, skillText("pdf", "Kept."))
				default:
					return false
				}
				return true
			}
			if _, err := a.add(text); err != nil {
				t.Fatal(err)
			}
			asked := a.net.dialed.Load()
			a.offline = true
			s := a.open()
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
			if diff := cmp.Diff(skillText("pdf", "Kept."), a.installed("pdf/SKILL.md")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			_, err = s.Update(t.Context(), nil, false, testSettings(t))
			if diff := cmp.Diff("offline", metier.CodeOf(err)); diff != "" {
				t.Errorf("update: %v (-want +got):\n%s", err, diff)
			}
			if diff := cmp.Diff(asked, a.net.dialed.Load()); diff != "" {
				t.Errorf("connections (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOffline_RefusesSourcesOnTheNetwork(t *testing.T) {
	t.Parallel()
	a := newArtifacts(t)
	a.offline, a.downloads = true, t.TempDir()
	for _, text := range []string{"oci://example.com/pdf:1", "oci://localhost:1/pdf:1", "https://example.com/pdf.zip", "https://example.com/SKILL.md", "https://example.com", "acme/skills", "ssh://git@example.com/x.git"} {
		_, err := a.add(text)
		if diff := cmp.Diff("offline", metier.CodeOf(err)); diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", text, err, diff)
		}
	}
	if diff := cmp.Diff(int64(0), a.net.dialed.Load()); diff != "" {
		t.Errorf("connections (-want +got):\n%s", diff)
	}
	if _, err := a.add(a.source(map[string]string{"pdf/SKILL.md": skillText("pdf", "")})); err != nil {
		t.Errorf("a folder: %v", err)
	}
	a.env = []string{"PATH=" + os.Getenv("PATH")}
	_, err := a.add("file:///missing.git")
	if diff := cmp.Diff("git_repository_missing", metier.CodeOf(err)); diff != "" {
		t.Errorf("a repository on this machine: %v (-want +got):\n%s", err, diff)
	}
}
