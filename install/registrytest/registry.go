// Package registrytest is a registry of artifacts in memory, for tests. It speaks the part of the OCI
// distribution specification that clients need to push and pull.
package registrytest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"metier/internal/digest"
)

// Registry is a registry. Its zero value is empty.
type Registry struct {
	// Before handles a request first, and returns true if it answered. It can be nil.
	Before func(w http.ResponseWriter, r *http.Request) bool

	mu        sync.Mutex
	blobs     map[string][]byte   // by digest
	manifests map[string]document // by repository and digest
	tags      map[string]string   // digests by repository and tag
	uploads   int
	requests  []string
}

// document is a manifest, and the media type with which it was pushed.
type document struct {
	raw       []byte
	mediaType string
}

// Descriptor describes a blob or a manifest.
type Descriptor struct {
	MediaType string   `json:"mediaType"`
	Digest    string   `json:"digest"`
	Size      int      `json:"size"`
	URLs      []string `json:"urls,omitempty"`
}

// Requests returns the methods and paths of all requests, in order.
func (g *Registry) Requests() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.requests)
}

// Tag returns the digest that a tag of a repository names, or "".
func (g *Registry) Tag(repository, tag string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.tags[repository+"\n"+tag]
}

// Manifest returns a manifest by its digest.
func (g *Registry) Manifest(repository, digest string) []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.manifests[repository+"\n"+digest].raw
}

// Blob stores a blob.
func (g *Registry) Blob(mediaType string, raw []byte) Descriptor {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.blob(mediaType, raw)
}

func (g *Registry) blob(mediaType string, raw []byte) Descriptor {
	if g.blobs == nil {
		g.blobs = map[string][]byte{}
	}
	d := Descriptor{MediaType: mediaType, Digest: digest.Bytes(raw), Size: len(raw)}
	g.blobs[d.Digest] = raw
	return d
}

// Put stores a manifest, and lets tags name it. It returns its digest.
func (g *Registry) Put(repository, mediaType string, raw []byte, tags ...string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.manifests == nil {
		g.manifests, g.tags = map[string]document{}, map[string]string{}
	}
	d := digest.Bytes(raw)
	g.manifests[repository+"\n"+d] = document{raw, mediaType}
	for _, t := range tags {
		g.tags[repository+"\n"+t] = d
	}
	return d
}

// Image stores an image manifest with these layers.
func (g *Registry) Image(repository string, layers []Descriptor, tags ...string) string {
	const mediaType = "application/vnd.oci.image.manifest.v1+json"
	config := g.Blob("application/vnd.oci.empty.v1+json", []byte("{}"))
	raw, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": mediaType, "config": config, "layers": layers})
	if err != nil {
		panic("registrytest: " + err.Error()) // strings and numbers can always be encoded
	}
	return g.Put(repository, mediaType, raw, tags...)
}

var route = regexp.MustCompile(`^/v2/(.+)/(manifests|blobs)/(uploads/)?([^/]*)$`)

// ServeHTTP answers a request.
func (g *Registry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	g.requests = append(g.requests, r.Method+" "+r.URL.Path)
	g.mu.Unlock()
	if g.Before != nil && g.Before(w, r) {
		return
	}
	at := route.FindStringSubmatch(r.URL.Path)
	switch {
	case r.URL.Path == "/v2/":
		w.WriteHeader(http.StatusOK)
	case at == nil:
		refuse(w, http.StatusNotFound, "NAME_UNKNOWN")
	case at[2] == "manifests":
		g.serveManifest(w, r, at[1], at[4])
	default:
		g.serveBlob(w, r, at[1], at[4])
	}
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"errors":[{"code":%q}]}`, code)
}

func (g *Registry) serveManifest(w http.ResponseWriter, r *http.Request, repository, reference string) {
	if r.Method == http.MethodPut {
		raw, err := io.ReadAll(r.Body)
		if err != nil || strings.HasPrefix(reference, "sha256:") && reference != digest.Bytes(raw) {
			refuse(w, http.StatusBadRequest, "MANIFEST_INVALID")
			return
		}
		d := g.Put(repository, r.Header.Get("Content-Type"), raw)
		if !strings.HasPrefix(reference, "sha256:") {
			g.Put(repository, r.Header.Get("Content-Type"), raw, reference)
		}
		w.Header().Set("Docker-Content-Digest", d)
		w.WriteHeader(http.StatusCreated)
		return
	}
	g.mu.Lock()
	d := reference
	if t, ok := g.tags[repository+"\n"+reference]; ok {
		d = t
	}
	m, ok := g.manifests[repository+"\n"+d]
	g.mu.Unlock()
	if !ok {
		refuse(w, http.StatusNotFound, "MANIFEST_UNKNOWN")
		return
	}
	w.Header().Set("Content-Type", m.mediaType)
	w.Header().Set("Docker-Content-Digest", d)
	w.Header().Set("Content-Length", fmt.Sprint(len(m.raw)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(m.raw)
	}
}

func (g *Registry) serveBlob(w http.ResponseWriter, r *http.Request, repository, name string) {
	switch r.Method {
	case http.MethodPost:
		g.mu.Lock()
		g.uploads++
		w.Header().Set("Location", fmt.Sprintf("/v2/%s/blobs/uploads/%d", repository, g.uploads))
		g.mu.Unlock()
		w.WriteHeader(http.StatusAccepted)
		return
	case http.MethodPut:
		raw, err := io.ReadAll(r.Body)
		if want := r.URL.Query().Get("digest"); err != nil || want != digest.Bytes(raw) {
			refuse(w, http.StatusBadRequest, "DIGEST_INVALID")
			return
		}
		g.Blob("", raw)
		w.WriteHeader(http.StatusCreated)
		return
	}
	g.mu.Lock()
	raw, ok := g.blobs[name]
	g.mu.Unlock()
	if !ok {
		refuse(w, http.StatusNotFound, "BLOB_UNKNOWN")
		return
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(raw)))
	w.Header().Set("Docker-Content-Digest", name)
	if r.Method != http.MethodHead {
		_, _ = w.Write(raw)
	}
}
