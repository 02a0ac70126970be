package install

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/install/registrytest"
	"metier/internal/digest"
)

// bomb is an archive that unpacks to a thousand times its size.
func bomb(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	zeros := make([]byte, 32<<20)
	if err := w.WriteHeader(&tar.Header{Name: "pdf/SKILL.md", Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(zeros))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(zeros); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// isBlob reports whether a request is for a blob.
func isBlob(r *http.Request) bool { return strings.Contains(r.URL.Path, "/blobs/") }

// hostile is a registry that must not be installed from, and the code of the error.
type hostile struct {
	set  func(*artifacts)
	code string
}

const (
	imageType = "application/vnd.oci.image.manifest.v1+json"
	indexType = "application/vnd.oci.image.index.v1+json"
)

// refuses checks that nothing is installed from each registry.
func refuses(t *testing.T, all map[string]hostile) {
	t.Helper()
	for name, tt := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newArtifacts(t)
			a.net.addresses["inside.example.com"] = "10.0.0.1"
			tt.set(a)
			_, err := a.add("oci://example.com/pdf:1")
			if diff := cmp.Diff(tt.code, metier.CodeOf(err)); diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			if _, err := os.Stat(filepath.Join(a.dir, "skills", "pdf")); err == nil {
				t.Error("it was installed")
			}
		})
	}
}

// answers sets what the registry answers to every request.
func answers(answer func(w http.ResponseWriter, r *http.Request)) func(*artifacts) {
	return func(a *artifacts) {
		a.Before = func(w http.ResponseWriter, r *http.Request) bool { answer(w, r); return true }
	}
}

// says sets the manifest that the registry sends.
func says(mediaType, body string) func(*artifacts) {
	return answers(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", mediaType)
		fmt.Fprint(w, body)
	})
}

func TestArtifact_RefusesBlobs(t *testing.T) {
	t.Parallel()
	plain := map[string]string{"pdf/SKILL.md": skillText("pdf", "Read.")}
	size := len(tarGz(t, plain))
	blob := func(answer func(w http.ResponseWriter, r *http.Request)) func(*artifacts) {
		return func(a *artifacts) {
			a.skill("pdf", contentType, plain, "1")
			a.Before = func(w http.ResponseWriter, r *http.Request) bool {
				if isBlob(r) {
					answer(w, r)
				}
				return isBlob(r)
			}
		}
	}
	refuses(t, map[string]hostile{
		"chunks without an end": {blob(endless), "digest_mismatch"},
		"no artifact":           {func(*artifacts) {}, "reference_missing"},
		"blob of other bytes":   {blob(func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, size)) }), "digest_mismatch"},
		"longer blob":           {blob(func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, size+1)) }), "registry_failed"},
		"truncated blob": {blob(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(size))
			w.Write(make([]byte, 5))
		}), "download_cut"},
		"shorter blob": {blob(func(w http.ResponseWriter, _ *http.Request) {
			http.NewResponseController(w).Flush()
			w.Write(make([]byte, 5))
		}), "download_cut"},
		"missing blob": {blob(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }), "reference_missing"},
		"blob at this machine": {blob(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://127.0.0.1/x", http.StatusTemporaryRedirect)
		}), "address_not_public"},
		"blob at private host": {blob(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://inside.example.com/x", http.StatusTemporaryRedirect)
		}), "address_not_public"},
		"blob without TLS": {blob(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://example.com/x", http.StatusTemporaryRedirect)
		}), "source_insecure"},
		"redirects without end": {blob(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
		}), "redirects_too_many"},
	})
}

func TestArtifact_RefusesLayers(t *testing.T) {
	t.Parallel()
	plain := map[string]string{"pdf/SKILL.md": skillText("pdf", "Read.")}
	layer := func(d registrytest.Descriptor) func(*artifacts) {
		return func(a *artifacts) { a.Image("pdf", []registrytest.Descriptor{d}, "1") }
	}
	refuses(t, map[string]hostile{
		"bomb":                {func(a *artifacts) { a.Image("pdf", []registrytest.Descriptor{a.Blob(contentType, bomb(t))}, "1") }, "archive_too_large"},
		"link in the archive": {func(a *artifacts) { a.Image("pdf", []registrytest.Descriptor{a.Blob(contentType, linked(t))}, "1") }, "archive_kind_invalid"},
		"not an archive": {func(a *artifacts) {
			a.Image("pdf", []registrytest.Descriptor{a.Blob(contentType, []byte("text"))}, "1")
		}, "archive_unknown_format"},
		"unknown layer": {func(a *artifacts) { a.skill("pdf", "application/x-sh", plain, "1") }, "artifact_unsupported"},
		"foreign layer": {layer(registrytest.Descriptor{MediaType: contentType, Digest: digest.Bytes(nil), Size: 1, URLs: []string{"https://evil.example.com/"}}), "artifact_unsupported"},
		"no layers":     {func(a *artifacts) { a.Image("pdf", nil, "1") }, "artifact_unsupported"},
		"two layers": {func(a *artifacts) {
			l := a.Blob(contentType, []byte("x"))
			a.Image("pdf", []registrytest.Descriptor{l, l}, "1")
		}, "artifact_unsupported"},
		"huge layer":           {layer(registrytest.Descriptor{MediaType: contentType, Digest: digest.Bytes(nil), Size: maxDownload + 1}), "download_too_large"},
		"layer without a size": {layer(registrytest.Descriptor{MediaType: contentType, Digest: digest.Bytes(nil)}), "artifact_invalid"},
		"layer with sha512":    {layer(registrytest.Descriptor{MediaType: contentType, Digest: "sha512:" + strings.Repeat("0", 128), Size: 1}), "artifact_invalid"},
		"path as a digest":     {layer(registrytest.Descriptor{MediaType: contentType, Digest: "../../../x", Size: 1}), "artifact_invalid"},
	})
}

func TestArtifact_RefusesManifests(t *testing.T) {
	t.Parallel()
	refuses(t, map[string]hostile{
		"unknown manifest":    {says("application/vnd.example+json", `{"schemaVersion":2}`), "artifact_unsupported"},
		"old manifest":        {says(imageType, `{"schemaVersion":1}`), "artifact_invalid"},
		"manifest and index":  {says(imageType, `{"schemaVersion":2,"layers":[{}],"manifests":[{}]}`), "artifact_invalid"},
		"another type inside": {says(imageType, `{"schemaVersion":2,"mediaType":"`+indexType+`"}`), "artifact_invalid"},
		"page":                {says("text/html", "<html>"), "artifact_invalid"},
		"no media type": {answers(func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			fmt.Fprint(w, "{}")
		}), "registry_failed"},
		"empty index":          {says(indexType, `{"schemaVersion":2}`), "artifact_unsupported"},
		"index of too many":    {says(indexType, `{"schemaVersion":2,"manifests":[{}`+strings.Repeat(",{}", maxPlatforms)+`]}`), "artifact_unsupported"},
		"index with no digest": {says(indexType, `{"schemaVersion":2,"manifests":[{"digest":"x","size":2}]}`), "artifact_invalid"},
		"manifest without end": {answers(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", imageType)
			w.Header().Set("Content-Length", "9000000000")
			endless(w, r)
		}), "download_too_large"},
		"lie about the digest": {answers(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Docker-Content-Digest", digest.Bytes(nil))
			w.Header().Set("Content-Type", imageType)
			fmt.Fprint(w, "{}")
		}), "digest_mismatch"},
		"wrong digest header": {answers(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Docker-Content-Digest", "x")
			w.Header().Set("Content-Type", imageType)
			fmt.Fprint(w, "{}")
		}), "registry_failed"},
		"too many requests": {answers(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusTooManyRequests)
		}), "registry_failed"},
		"always signed out": {answers(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		}), "registry_denied"},
		"unknown authentication": {answers(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", `Negotiate`)
			w.WriteHeader(http.StatusUnauthorized)
		}), "registry_denied"},
	})
}

// endless sends bytes until the client ends the connection.
func endless(w http.ResponseWriter, _ *http.Request) {
	for block := make([]byte, 64<<10); ; {
		if _, err := w.Write(block); err != nil {
			return
		}
	}
}

// linked is an archive with a link.
func linked(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	err := w.WriteHeader(&tar.Header{Name: "pdf/SKILL.md", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd", Mode: 0o777})
	if err := errors.Join(err, w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestArtifact_DetectsAManifestThatChangesBetweenRequests(t *testing.T) {
	t.Parallel()
	a := newArtifacts(t)
	a.skill("pdf", contentType, map[string]string{"pdf/SKILL.md": skillText("pdf", "Good.")}, "1")
	other := a.skill("other", contentType, map[string]string{"pdf/SKILL.md": skillText("pdf", "Evil.")}, "1")
	a.Before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || isBlob(r) {
			return false
		}
		w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
		http.NewResponseController(w).Flush() // without a length, the client asks for the digest with HEAD
		w.Write(a.Manifest("other", other))
		return true
	}
	_, err := a.add("oci://example.com/pdf:1")
	if diff := cmp.Diff("digest_mismatch", metier.CodeOf(err)); diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestArtifact_RefusesAnIndexWithDifferentFiles(t *testing.T) {
	t.Parallel()
	a := newArtifacts(t)
	var subs []registrytest.Descriptor
	for _, body := range []string{"For amd64.", "For arm64."} {
		d := a.skill("pdf", contentType, map[string]string{"pdf/SKILL.md": skillText("pdf", body)})
		subs = append(subs, registrytest.Descriptor{MediaType: "application/vnd.oci.image.manifest.v1+json", Digest: d, Size: len(a.Manifest("pdf", d))})
	}
	const list = "application/vnd.oci.image.index.v1+json"
	raw, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": list, "manifests": subs})
	if err != nil {
		t.Fatal(err)
	}
	a.Put("pdf", list, raw, "1")
	_, err = a.add("oci://example.com/pdf:1")
	if diff := cmp.Diff("artifact_unsupported", metier.CodeOf(err)); diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestArtifact_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	for _, part := range []string{"/manifests/", "/blobs/"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("interrupted")
		a := newArtifacts(t)
		a.skill("pdf", contentType, map[string]string{"pdf/SKILL.md": skillText("pdf", "")}, "1")
		a.Before = func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, part) {
				return false
			}
			cancel(why)
			<-r.Context().Done()
			return true
		}
		_, err := Fetch(ctx, Source{Kind: OCI, Location: "oci://example.com/pdf", Ref: "1"}, FetchOptions{Dir: t.TempDir(), web: a.web()})
		if !errors.Is(err, why) {
			t.Errorf("%s: %v", part, err)
		}
	}
}
