package install

import (
	"bytes"
	"encoding/base64"
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
)

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
		"blob of another host is longer":   {"longer", "registry_failed"},
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
				case cdn && tt.challenge == "longer":
					w.Write(make([]byte, d.Size+1))
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
