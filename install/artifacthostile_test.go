package install

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
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

func TestArtifact_RefusesHostileRegistries(t *testing.T) {
	t.Parallel()
	plain := map[string]string{"pdf/SKILL.md": skillText("pdf", "Read.")}
	text := func(w http.ResponseWriter, mediaType, body string) bool {
		w.Header().Set("Content-Type", mediaType)
		fmt.Fprint(w, body)
		return true
	}
	const image = "application/vnd.oci.image.manifest.v1+json"
	const index = "application/vnd.oci.image.index.v1+json"
	answer := func(mediaType, body string) func(*artifacts) {
		return func(a *artifacts) {
			a.Before = func(w http.ResponseWriter, r *http.Request) bool { return !isBlob(r) && text(w, mediaType, body) }
		}
	}
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
	layer := func(d registrytest.Descriptor) func(*artifacts) {
		return func(a *artifacts) { a.Image("pdf", []registrytest.Descriptor{d}, "1") }
	}
	size := len(tarGz(t, plain))
	for name, tt := range map[string]struct {
		set  func(*artifacts)
		code string
	}{
		"no artifact":           {func(*artifacts) {}, "artifact_missing"},
		"blob of other bytes":   {blob(func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, size)) }), "digest_mismatch"},
		"longer blob":           {blob(func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, size+1)) }), "registry_failed"},
		"chunks without an end": {blob(endless), "digest_mismatch"},
		"truncated blob": {blob(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(size))
			w.Write(make([]byte, 5))
		}), "download_cut"},
		"shorter blob": {blob(func(w http.ResponseWriter, _ *http.Request) {
			http.NewResponseController(w).Flush()
			w.Write(make([]byte, 5))
		}), "download_cut"},
		"missing blob": {blob(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }), "artifact_missing"},
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
		"unknown manifest":     {answer("application/vnd.example+json", `{"schemaVersion":2}`), "artifact_unsupported"},
		"old manifest":         {answer(image, `{"schemaVersion":1}`), "artifact_invalid"},
		"manifest and index":   {answer(image, `{"schemaVersion":2,"layers":[{}],"manifests":[{}]}`), "artifact_invalid"},
		"another type inside":  {answer(image, `{"schemaVersion":2,"mediaType":"`+index+`"}`), "artifact_invalid"},
		"page":                 {answer("text/html", "<html>"), "artifact_invalid"},
		"no media type": {func(a *artifacts) {
			a.Before = func(w http.ResponseWriter, _ *http.Request) bool {
				w.Header()["Content-Type"] = nil
				fmt.Fprint(w, "{}")
				return true
			}
		}, "registry_failed"},
		"empty index":          {answer(index, `{"schemaVersion":2}`), "artifact_unsupported"},
		"index of too many":    {answer(index, `{"schemaVersion":2,"manifests":[{}`+strings.Repeat(",{}", maxPlatforms)+`]}`), "artifact_unsupported"},
		"index with no digest": {answer(index, `{"schemaVersion":2,"manifests":[{"digest":"x","size":2}]}`), "artifact_invalid"},
		"manifest without end": {func(a *artifacts) {
			a.Before = func(w http.ResponseWriter, r *http.Request) bool {
				w.Header().Set("Content-Type", image)
				w.Header().Set("Content-Length", "9000000000")
				endless(w, r)
				return true
			}
		}, "download_too_large"},
		"lie about the digest": {func(a *artifacts) {
			a.Before = func(w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("Docker-Content-Digest", digest.Bytes(nil))
				return text(w, image, "{}")
			}
		}, "digest_mismatch"},
		"wrong digest header": {func(a *artifacts) {
			a.Before = func(w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("Docker-Content-Digest", "x")
				return text(w, image, "{}")
			}
		}, "registry_failed"},
		"too many requests": {func(a *artifacts) {
			a.Before = func(w http.ResponseWriter, _ *http.Request) bool {
				w.WriteHeader(http.StatusTooManyRequests)
				return true
			}
		}, "registry_failed"},
		"always signed out": {func(a *artifacts) {
			a.Before = func(w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
				w.WriteHeader(http.StatusUnauthorized)
				return true
			}
		}, "registry_denied"},
		"unknown authentication": {func(a *artifacts) {
			a.Before = func(w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("WWW-Authenticate", `Negotiate`)
				w.WriteHeader(http.StatusUnauthorized)
				return true
			}
		}, "registry_denied"},
	} {
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

// signIn writes a configuration of Docker, and lets the store use it.
func (a *artifacts) signIn(config string) {
	a.t.Helper()
	dir := a.t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600); err != nil {
		a.t.Fatal(err)
	}
	a.env = []string{"DOCKER_CONFIG=" + dir}
}

const password = "sesame-1b6f"

func auths(host string) string {
	return fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, host, base64.StdEncoding.EncodeToString([]byte("user:"+password)))
}

func TestArtifact_SignsInWithTheCredentialsOfDocker(t *testing.T) {
	t.Parallel()
	for name, challenge := range map[string]string{"password": `Basic realm="x"`, "token": `Bearer realm="https://token.example.com/token",service="s",scope="repository:pdf:pull"`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newArtifacts(t)
			a.signIn(auths("example.com"))
			a.skill("pdf", contentType, map[string]string{"pdf/SKILL.md": skillText("pdf", "Private.")}, "1")
			a.Before = func(w http.ResponseWriter, r *http.Request) bool {
				user, pass, basic := r.BasicAuth()
				right := basic && user == "user" && pass == password
				switch {
				case r.URL.Path == "/token" && right:
					fmt.Fprint(w, `{"token":"granted"}`)
				case r.URL.Path == "/token":
					w.WriteHeader(http.StatusUnauthorized)
				case name == "password" && right, name == "token" && r.Header.Get("Authorization") == "Bearer granted":
					return false
				default:
					w.Header().Set("WWW-Authenticate", challenge)
					w.WriteHeader(http.StatusUnauthorized)
				}
				return true
			}
			lock, err := a.add("oci://example.com/pdf:1")
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(lock.Bytes(), []byte(password)) {
				t.Error("the password is in the lock")
			}
			if diff := cmp.Diff(skillText("pdf", "Private."), a.installed("pdf/SKILL.md")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestArtifact_GivesCredentialsToNoOtherHost(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ challenge, code string }{
		"token server on this machine":     {`Bearer realm="https://127.0.0.1/token",service="s"`, "registry_failed"},
		"token server in a private net":    {`Bearer realm="https://inside.example.com/token",service="s"`, "address_not_public"},
		"token server without TLS":         {`Bearer realm="http://token.example.com/token",service="s"`, "registry_failed"},
		"token server with a file":         {`Bearer realm="file:///etc/passwd",service="s"`, "registry_failed"},
		"token server with a user":         {`Bearer realm="https://u:p@token.example.com/token",service="s"`, "source_password"},
		"token server leads to this one":   {`Bearer realm="https://token.example.com/leads",service="s"`, "download_failed"},
		"blob of another host is read":     {"", "none"},
		"blob of another host is refused":  {"refuses", "registry_denied"},
		"token server refuses the request": {`Bearer realm="https://token.example.com/refuses",service="s"`, "registry_denied"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newArtifacts(t)
			a.signIn(auths("example.com"))
			a.net.addresses["inside.example.com"] = "10.0.0.1"
			d := a.Blob(contentType, tarGz(t, map[string]string{"pdf/SKILL.md": skillText("pdf", "")}))
			a.Image("pdf", []registrytest.Descriptor{d}, "1")
			var leaked atomic.Int64
			a.Before = func(w http.ResponseWriter, r *http.Request) bool {
				signed := r.Header.Get("Authorization") != ""
				cdn := strings.HasPrefix(r.Host, "cdn.")
				switch {
				case r.URL.Path == "/leads":
					http.Redirect(w, r, "https://127.0.0.1/token", http.StatusFound)
				case r.URL.Path == "/refuses":
					w.WriteHeader(http.StatusUnauthorized)
					fmt.Fprintf(w, `{"errors":[{"code":"UNAUTHORIZED","message":%q}]}`, r.Header.Get("Authorization"))
				case cdn && signed, r.URL.Path == "/token":
					leaked.Add(1)
				case cdn && tt.challenge == "refuses":
					w.Header().Set("WWW-Authenticate", `Basic realm="cdn"`)
					w.WriteHeader(http.StatusUnauthorized)
				case cdn:
					return false
				case !signed:
					w.Header().Set("WWW-Authenticate", map[bool]string{true: `Basic realm="x"`, false: tt.challenge}[!strings.HasPrefix(tt.challenge, "Bearer")])
					w.WriteHeader(http.StatusUnauthorized)
				case isBlob(r):
					http.Redirect(w, r, "https://cdn.example.com"+r.URL.Path+"?signature=secret", http.StatusTemporaryRedirect)
				default:
					return false
				}
				return true
			}
			_, err := a.add("oci://example.com/pdf:1")
			code := metier.CodeOf(err)
			if err == nil {
				code = "none"
			}
			if diff := cmp.Diff(tt.code, code); diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			if diff := cmp.Diff(int64(0), leaked.Load()); diff != "" {
				t.Errorf("credentials were sent (-want +got):\n%s", diff)
			}
			for _, secret := range []string{password, base64.StdEncoding.EncodeToString([]byte("user:" + password)), "signature"} {
				if err != nil && strings.Contains(err.Error(), secret) {
					t.Errorf("a secret is in the error: %v", err)
				}
			}
		})
	}
}

func TestArtifact_KeepsBadCredentialsOutOfErrors(t *testing.T) {
	t.Parallel()
	decoded := base64.StdEncoding.EncodeToString([]byte(password)) // without a user name
	for name, config := range map[string]string{
		"no JSON":        `{"auths":` + password,
		"no user":        `{"auths":{"example.com":{"auth":"` + decoded + `"}}}`,
		"missing helper": `{"credHelpers":{"example.com":"none-` + password + `"}}`,
		"wrong type":     `{"auths":{"example.com":"` + password + `"}}`,
	} {
		a := newArtifacts(t)
		a.signIn(config)
		a.Before = func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
		_, err := a.add("oci://example.com/pdf:1")
		if diff := cmp.Diff("registry_credentials", metier.CodeOf(err)); diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
		if err != nil && strings.Contains(err.Error(), password) {
			t.Errorf("%s: a secret is in the error: %v", name, err)
		}
	}
}

func TestArtifact_RefusesARelativeConfigurationOfDocker(t *testing.T) {
	t.Parallel()
	a := newArtifacts(t)
	a.env = []string{"DOCKER_CONFIG=.docker"}
	a.Before = func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	_, err := a.add("oci://example.com/pdf:1")
	if diff := cmp.Diff("registry_credentials", metier.CodeOf(err)); diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
