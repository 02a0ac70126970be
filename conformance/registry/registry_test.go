package registry_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/distribution/distribution/v3/configuration"
	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd"
	"github.com/distribution/distribution/v3/registry/handlers"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/crane"
	ggcr "github.com/google/go-containerregistry/pkg/registry"
	"golang.org/x/crypto/bcrypt"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/file"
	"oras.land/oras-go/v2/content/memory"
	"oras.land/oras-go/v2/registry/remote"

	"metier/config"
	"metier/engine"
	"metier/install"
)

// registries are started on this machine by the tests.
var registries = map[string]func(t *testing.T) http.Handler{
	"distribution": func(t *testing.T) http.Handler {
		t.Helper()
		return handlers.NewApp(t.Context(), &configuration.Configuration{Storage: configuration.Storage{"inmemory": configuration.Parameters{}}})
	},
	"go-containerregistry": func(*testing.T) http.Handler { return ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0))) },
}

// user is a user with a project and a home.
type user struct {
	t    *testing.T
	e    *engine.Engine
	dir  string
	host string // of the registry
}

func newUser(t *testing.T, h http.Handler) *user {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	u := &user{t: t, dir: t.TempDir(), host: strings.TrimPrefix(s.URL, "http://")}
	for _, dir := range []string{"ws", "home"} {
		if err := os.Mkdir(filepath.Join(u.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	env := config.NewEnv([]string{"HOME=" + filepath.Join(u.dir, "home")}, filepath.Join(u.dir, "ws"))
	u.e = engine.New(env, engine.Options{})
	u.write("pdf/SKILL.md", "---\nname: pdf\ndescription: Reads PDF files.\nlicense: MIT\n---\nRead scripts/run.sh.\n", 0o644)
	u.write("pdf/scripts/run.sh", "#!/bin/sh\necho 1\n", 0o755)
	return u
}

func (u *user) write(name, text string, mode os.FileMode) {
	u.t.Helper()
	file := filepath.Join(u.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		u.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), mode); err != nil {
		u.t.Fatal(err)
	}
}

// publish publishes the skill pdf, and returns its digest.
func (u *user) publish(target string) (string, error) {
	u.t.Helper()
	p, err := u.e.Publish(u.t.Context(), engine.Request{}, filepath.Join(u.dir, "pdf"), target)
	if err != nil {
		return "", err
	}
	defer p.Close()
	return p.Digest, p.Push(u.t.Context(), false)
}

// add installs from a source, and returns the lock.
func (u *user) add(source string) (install.Lock, error) {
	u.t.Helper()
	in, err := u.e.Install(u.t.Context(), engine.Request{}, false, true)
	if err != nil {
		return install.Lock{}, err
	}
	defer in.Close()
	src, err := in.Source(source, u.dir)
	if err != nil {
		return install.Lock{}, err
	}
	p, err := in.Prepare(u.t.Context(), install.Request{Source: src}, in.Settings)
	if err == nil {
		err = p.Apply(u.t.Context())
	}
	return in.Lock(), err
}

// installed compares the installed skill with its source.
func (u *user) installed() {
	u.t.Helper()
	for _, name := range []string{"SKILL.md", "scripts/run.sh"} {
		want, err := os.ReadFile(filepath.Join(u.dir, "pdf", name))
		if err != nil {
			u.t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(u.dir, "ws/.agents/skills/pdf", name))
		if err != nil {
			u.t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			u.t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func (u *user) repository(name string) *remote.Repository {
	u.t.Helper()
	r, err := remote.NewRepository(u.host + "/" + name)
	if err != nil {
		u.t.Fatal(err)
	}
	r.PlainHTTP = true
	return r
}

func TestRegistry_StoresWhatMetierPublishes(t *testing.T) {
	t.Parallel()
	for name, start := range registries {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUser(t, start(t))
			digest, err := u.publish("oci://" + u.host + "/acme/pdf:1.0")
			if err != nil {
				t.Fatal(err)
			}
			lock, err := u.add("oci://" + u.host + "/acme/pdf:1.0")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(digest, lock.Skills["pdf"].Digest); diff != "" {
				t.Errorf("digest (-want +got):\n%s", diff)
			}
			u.installed()
		})
	}
}

func TestRegistry_GivesArtifactsOfMetierToOtherClients(t *testing.T) {
	t.Parallel()
	for name, start := range registries {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUser(t, start(t))
			digest, err := u.publish("oci://" + u.host + "/acme/pdf:1.0")
			if err != nil {
				t.Fatal(err)
			}
			got, err := oras.Copy(t.Context(), u.repository("acme/pdf"), "1.0", memory.New(), "1.0", oras.DefaultCopyOptions)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(digest, got.Digest.String()); diff != "" {
				t.Errorf("oras (-want +got):\n%s", diff)
			}
			seen, err := crane.Digest(u.host+"/acme/pdf:1.0", crane.Insecure)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(digest, seen); diff != "" {
				t.Errorf("crane (-want +got):\n%s", diff)
			}
		})
	}
}

// orasPush packs the folder of the skill as `oras push` does, and pushes it.
func (u *user) orasPush(ctx context.Context, tag string) error {
	store, err := file.New(u.dir)
	if err != nil {
		return err
	}
	defer store.Close()
	store.TarReproducible = true
	layer, err := store.Add(ctx, "pdf", "", filepath.Join(u.dir, "pdf"))
	if err != nil {
		return err
	}
	m, err := oras.PackManifest(ctx, store, oras.PackManifestVersion1_1, "application/vnd.example.skill", oras.PackManifestOptions{Layers: layers(layer)})
	if err != nil {
		return err
	}
	if err := store.Tag(ctx, m, tag); err != nil {
		return err
	}
	_, err = oras.Copy(ctx, store, tag, u.repository("acme/pdf"), tag, oras.DefaultCopyOptions)
	return err
}

func layers[T any](all ...T) []T { return all }

func TestRegistry_InstallsWhatOrasPushes(t *testing.T) {
	t.Parallel()
	for name, start := range registries {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUser(t, start(t))
			if err := u.orasPush(t.Context(), "2.0"); err != nil {
				t.Fatal(err)
			}
			if _, err := u.add("oci://" + u.host + "/acme/pdf:2.0"); err != nil {
				t.Fatal(err)
			}
			u.installed()
		})
	}
}

func TestRegistry_InstallsImages(t *testing.T) {
	t.Parallel()
	for name, start := range registries {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUser(t, start(t))
			files := map[string][]byte{}
			for _, name := range []string{"SKILL.md", "scripts/run.sh"} {
				raw, err := os.ReadFile(filepath.Join(u.dir, "pdf", name))
				if err != nil {
					t.Fatal(err)
				}
				files[name] = raw
			}
			image, err := crane.Image(files)
			if err != nil {
				t.Fatal(err)
			}
			if err := crane.Push(image, u.host+"/acme/pdf:3.0", crane.Insecure); err != nil {
				t.Fatal(err)
			}
			if _, err := u.add("oci://" + u.host + "/acme/pdf:3.0"); err != nil {
				t.Fatal(err)
			}
			u.installed()
		})
	}
}

func TestRegistry_AcceptsTheCredentialsOfDocker(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "htpasswd")
	hash, err := bcrypt.GenerateFromPassword([]byte("sesame"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append([]byte("user:"), hash...), 0o600); err != nil {
		t.Fatal(err)
	}
	u := newUser(t, handlers.NewApp(t.Context(), &configuration.Configuration{
		Storage: configuration.Storage{"inmemory": configuration.Parameters{}},
		Auth:    configuration.Auth{"htpasswd": configuration.Parameters{"realm": "skills", "path": file}},
	}))
	if _, err := u.publish("oci://" + u.host + "/acme/pdf:1.0"); err == nil {
		t.Error("it was published without credentials")
	}
	auth := base64.StdEncoding.EncodeToString([]byte("user:sesame"))
	u.write("home/.docker/config.json", fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, u.host, auth), 0o600)
	if _, err := u.publish("oci://" + u.host + "/acme/pdf:1.0"); err != nil {
		t.Fatal(err)
	}
	if _, err := u.add("oci://" + u.host + "/acme/pdf:1.0"); err != nil {
		t.Fatal(err)
	}
	u.installed()
}
