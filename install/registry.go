package install

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"metier"
	"metier/internal/digest"
	"metier/internal/termtext"
)

// registryRepo is a repository in a registry.
type registryRepo struct {
	source Source
	remote *remote.Repository
	web    *web
	at     *url.URL // of the registry
	o      FetchOptions
	ready  bool     // connect was called
	keeper *Fetched // gets the notes about downloads that cannot be kept; nil: none are kept
}

// openRegistry returns the repository of a source, which may come from a lock. Nothing is sent.
func openRegistry(s Source, o FetchOptions) (*registryRepo, error) {
	if clean, err := parseArtifact(s.String()); err != nil || clean != s {
		return nil, cmp.Or(err, wrongSource(s.String()))
	}
	repo, err := remote.NewRepository(strings.TrimPrefix(s.Location, "oci://"))
	if err != nil {
		return nil, wrongSource(s.Location)
	}
	w, at, err := newWeb("https://"+repo.Reference.Host()+"/", o.web)
	if err != nil {
		return nil, err
	}
	w.client.Transport = checkedTransport{w, w.client.Transport}
	client := &auth.Client{Client: w.client, Cache: auth.NewCache(), ClientID: "metier", Credential: credentialsOf(o.Env, repo.Reference.Registry)}
	client.SetUserAgent("metier")
	repo.Client, repo.MaxMetadataBytes = client, maxManifest
	return &registryRepo{source: s, remote: repo, web: w, at: at, o: o}, nil
}

// connect is called before the network is used.
func (r *registryRepo) connect(ctx context.Context) error {
	if r.ready {
		return nil
	}
	if err := r.o.online(r.source); err != nil {
		return err
	}
	if isLoopback(hostForm(r.at)) {
		if err := r.findScheme(ctx); err != nil {
			return err
		}
	}
	r.o.report("connecting to " + termtext.Line(r.at.Host))
	r.ready = true
	return nil
}

func (r *registryRepo) close() { r.web.close() }

// findScheme uses http if a registry on this machine does not use TLS.
func (r *registryRepo) findScheme(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, r.at.JoinPath("v2/").String(), nil)
	if err != nil {
		return err
	}
	res, err := r.web.client.Do(req)
	if err == nil {
		return res.Body.Close()
	}
	if _, plain := errors.AsType[tls.RecordHeaderError](err); plain || strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
		r.at.Scheme, r.remote.PlainHTTP = "http", true
		return nil
	}
	return noAnswer(ctx, r.at, err)
}

// checkedTransport checks the address of each request: registries name the addresses of their token servers
// and uploads.
type checkedTransport struct {
	web *web
	http.RoundTripper
}

// CloseIdleConnections ends the connections that are not used.
func (t checkedTransport) CloseIdleConnections() {
	if c, ok := t.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// RoundTrip sends a request if its address is allowed. Only the host that the user named receives files.
func (t checkedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	err := t.web.checkAddress(r.URL)
	if sends := r.Method == http.MethodPut || r.Method == http.MethodPatch; err == nil && sends && hostForm(r.URL) != t.web.named {
		err = metier.Fieldf(metier.Denied, "Request.Target", "upload_redirected", "use another registry", "the registry wants the files at another host, %s", termtext.Line(r.URL.Host))
	}
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	return t.RoundTripper.RoundTrip(r)
}

// credentialsOf returns a function that reads the credentials of a registry from Docker's configuration of
// the user, or from the credential helper that it names. It is called only if a registry asks for them.
// Its errors contain no text of the configuration and of helpers, which could be a password.
func credentialsOf(env []string, registry string) auth.CredentialFunc {
	return func(ctx context.Context, host string) (auth.Credential, error) {
		file, err := dockerConfig(env)
		if file == "" || err != nil {
			return auth.EmptyCredential, err
		}
		store, err := credentials.NewStore(file, credentials.StoreOptions{})
		if err != nil {
			return auth.EmptyCredential, metier.Fieldf(metier.Invalid, "Request.Source", "registry_credentials", "fix the file, or sign in again with 'docker login'", "%s is not a configuration of Docker", file)
		}
		found, err := credentials.Credential(store)(ctx, host)
		if err != nil && ctx.Err() == nil {
			err = metier.Fieldf(metier.Invalid, "Request.Source", "registry_credentials", "sign in again with 'docker login "+registry+"'", "the credentials of %s in %s, or its credential helper, do not work", registry, file)
		}
		return found, err
	}
}

// dockerConfig returns the path of Docker's configuration of the user, or "". A relative path would be
// in the project.
func dockerConfig(env []string) (string, error) {
	vars := map[string]string{}
	for _, v := range env {
		if name, value, ok := strings.Cut(v, "="); ok {
			vars[name] = value
		}
	}
	home := vars["HOME"]
	if home == "" {
		home = vars["USERPROFILE"]
	}
	dir := vars["DOCKER_CONFIG"]
	switch {
	case dir != "" && !filepath.IsAbs(dir):
		return "", metier.Fieldf(metier.Invalid, "Request.Source", "registry_credentials", "set DOCKER_CONFIG to an absolute path", "DOCKER_CONFIG is the relative path %s", termtext.Quote(dir))
	case dir != "":
		return filepath.Join(dir, "config.json"), nil
	case !filepath.IsAbs(home):
		return "", nil
	}
	return filepath.Join(home, ".docker", "config.json"), nil
}

// manifest fetches a manifest or an index by its tag or digest.
func (r *registryRepo) manifest(ctx context.Context, reference string) (manifest, error) {
	if raw := r.kept().bytes(reference, maxManifest); raw != nil {
		var m manifest
		if json.Unmarshal(raw, &m) == nil && m.MediaType != "" {
			return parseManifest(raw, m.MediaType, r.source.Location+" "+reference)
		}
	}
	if err := r.connect(ctx); err != nil {
		return manifest{}, err
	}
	desc, body, err := r.remote.Manifests().FetchReference(ctx, reference)
	if err != nil {
		return manifest{}, r.failed(ctx, reference, err)
	}
	defer body.Close()
	what := r.source.Location + " " + reference
	if desc.Size > maxManifest {
		return manifest{}, metier.Fieldf(metier.LimitReached, "Request.Source", "download_too_large", "use another artifact", "the manifest of %s has more than %d bytes", what, maxManifest)
	}
	raw, err := io.ReadAll(io.LimitReader(body, desc.Size))
	if err == nil && int64(len(raw)) < desc.Size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return manifest{}, r.cut(ctx, int64(len(raw)), err)
	}
	want := desc.Digest.String()
	if digest.Valid(reference) {
		want = reference
	}
	if err := locked(want, digest.Bytes(raw), "the manifest of "+what, reportHint); err != nil {
		return manifest{}, err
	}
	m, err := parseManifest(raw, desc.MediaType, what)
	if err == nil && m.MediaType != "" { // a kept one must say its own type
		r.keep(m.digest, bytes.NewReader(raw))
	}
	return m, err
}

func (r *registryRepo) kept() downloads { return downloads{dir: r.o.Downloads} }

// keep keeps a manifest or a layer.
func (r *registryRepo) keep(digest string, from io.Reader) {
	if r.keeper != nil {
		r.keeper.keep(r.o, digest, from)
	}
}

// reportHint is the fix if a registry sends other bytes than it promised.
const reportHint = "try again; if it stays, report it to the operator of the registry"

// save writes a blob to an empty file, unless it is kept.
func (r *registryRepo) save(ctx context.Context, d ocispec.Descriptor, to *os.File) error {
	switch n, kept, err := r.kept().get(d.Digest.String(), to); {
	case err != nil:
		return err
	case kept && n != d.Size:
		return r.invalid(fmt.Errorf("its layer has %d bytes, not %d", n, d.Size))
	case kept:
		return nil
	}
	if err := r.connect(ctx); err != nil {
		return err
	}
	r.o.report("downloading " + r.source.String())
	body, err := r.remote.Blobs().Fetch(ctx, d)
	if err != nil {
		return r.failed(ctx, d.Digest.String(), err)
	}
	defer body.Close()
	h := digest.New()
	n, err := io.Copy(io.MultiWriter(to, h), io.LimitReader(resumedBlob(ctx, body), d.Size+1))
	switch {
	case err != nil:
		return r.cut(ctx, n, err)
	case n < d.Size:
		return r.cut(ctx, n, io.ErrUnexpectedEOF)
	}
	err = locked(d.Digest.String(), h.Sum(), "a layer of "+r.source.String(), reportHint)
	if err == nil {
		r.keep(d.Digest.String(), io.NewSectionReader(to, 0, n))
	}
	return err
}

// cut explains why a response ended early.
func (r *registryRepo) cut(ctx context.Context, n int64, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return cutOff(r.at, n, err)
}

// errorCode matches the codes of errors that registries send.
var errorCode = regexp.MustCompile(`^[A-Z_]{1,40}$`)

// failed explains why a request about a tag or a digest failed. It shows no text of the server, which can
// repeat credentials.
func (r *registryRepo) failed(ctx context.Context, reference string, err error) error {
	if _, ok := errors.AsType[*os.PathError](err); ok || err == nil {
		return err
	}
	if e, ok := errors.AsType[*metier.Error](err); ok {
		return e
	}
	res, answered := errors.AsType[*errcode.ErrorResponse](err)
	_, unanswered := errors.AsType[*url.Error](err)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, errdef.ErrNotFound) || answered && res.StatusCode == http.StatusNotFound:
		return metier.Fieldf(metier.NotFound, "Request.Source", "reference_missing", "check the address; some registries also answer so if you are not signed in", "%s has no %s", r.source.Location, termtext.Quote(reference))
	case errors.Is(err, auth.ErrBasicCredentialNotFound) || answered && (res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden):
		return metier.Fieldf(metier.Denied, "Request.Source", "registry_denied", "sign in with 'docker login "+r.remote.Reference.Registry+"' as a user who may do this", "%s needs permission", r.source.Location)
	case answered:
		code := ""
		if len(res.Errors) > 0 && errorCode.MatchString(res.Errors[0].Code) {
			code = " (" + res.Errors[0].Code + ")"
		}
		return metier.Fieldf(metier.Unavailable, "Request.Source", "registry_failed", "try again later", "%s: status %d %s%s", r.source.Location, res.StatusCode, http.StatusText(res.StatusCode), code)
	case unanswered:
		return noAnswer(ctx, r.at, err)
	}
	return metier.Fieldf(metier.Unavailable, "Request.Source", "registry_failed", reportHint, "%s: %s", r.source.Location, unquoted(err))
}

// query matches the queries of addresses, which can be secrets.
var query = regexp.MustCompile(`\?[^\s"]*`)

// unquoted returns the start of an error that a library reports about a response, without queries.
func unquoted(err error) string {
	const most = 300
	return fmt.Sprintf("%.*s", most, termtext.Line(query.ReplaceAllString(err.Error(), "")))
}
