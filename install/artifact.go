package install

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/registry"

	"metier"
	"metier/internal/digest"
	"metier/internal/plural"
	"metier/internal/termtext"
)

// Media types of the artifacts that are published.
const (
	artifactType = "application/vnd.agentskills.skill.v1"
	configType   = "application/vnd.agentskills.skill.config.v1+json"
	contentType  = "application/vnd.agentskills.skill.content.v1.tar+gzip"
)

// contentTypes are the media types of layers that contain skills.
var contentTypes = []string{
	contentType,
	"application/vnd.agent.skill.content.v1.tar+gzip",
	ocispec.MediaTypeImageLayerGzip, ocispec.MediaTypeImageLayer,
	"application/vnd.docker.image.rootfs.diff.tar.gzip",
}

// Media types of Docker that have the form of those of OCI.
const (
	dockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	dockerList     = "application/vnd.docker.distribution.manifest.list.v2+json"
)

const (
	maxManifest  = 4 << 20 // bytes, which every registry must accept
	maxPlatforms = 20      // manifests of an index
)

// parseArtifact reads oci://HOST/REPOSITORY[:TAG|@DIGEST][#FOLDER].
func parseArtifact(text string) (Source, error) {
	refused := func(why string) (Source, error) {
		return Source{}, metier.Fieldf(metier.Invalid, "Request.Source", "source_invalid", "use oci://HOST/REPOSITORY:TAG, or oci://HOST/REPOSITORY@sha256:DIGEST", "%s: %s", termtext.Line(text), why)
	}
	location, folder, _ := strings.Cut(text, "#")
	name := strings.TrimPrefix(location, "oci://")
	host, rest, _ := strings.Cut(name, "/")
	if strings.Contains(host, "@") {
		return Source{}, metier.Fieldf(metier.Invalid, "Request.Source", "source_password", "remove it, and sign in with 'docker login'", "the address contains a user name or a password")
	}
	ref, err := registry.ParseReference(name)
	before, _, pinned := strings.Cut(rest, "@")
	switch {
	case err != nil && strings.HasSuffix(name, ":"):
		return refused("the tag is missing")
	case err != nil:
		return refused(strings.TrimPrefix(err.Error(), "invalid reference: "))
	case pinned && strings.Contains(before, ":"):
		return refused("it has a tag and a digest")
	case pinned && !digest.Valid(ref.Reference):
		return refused("only digests with sha256 are supported")
	case strings.HasSuffix(name, ":"):
		return refused("the tag is missing")
	}
	s := Source{Kind: OCI, Location: "oci://" + ref.Registry + "/" + ref.Repository, Ref: cmp.Or(ref.Reference, "latest")}
	if folder = strings.Trim(folder, "/"); folder != "" {
		s.Path = path.Clean(folder)
	}
	if s.Path != "" && (!filepath.IsLocal(filepath.FromSlash(s.Path)) || strings.Contains(s.Path, `\`)) {
		return refused("the folder is not in the artifact")
	}
	return s, nil
}

// fetchArtifact fetches the skills of an artifact in a registry. The tag is resolved once; everything
// else is fetched by digest.
func fetchArtifact(ctx context.Context, s Source, o FetchOptions) (_ *Fetched, err error) {
	if o.Digest != "" && !digest.Valid(o.Digest) {
		return nil, metier.Errorf(metier.Invalid, "lock_invalid", "restore the lock from version control", "%s is not a digest", termtext.Quote(o.Digest))
	}
	r, err := openRegistry(s, o)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if s.Pinned() {
		if err := locked(o.Digest, s.Ref, s.Location, "restore metier.lock from version control"); err != nil {
			return nil, err
		}
	}
	f := &Fetched{Source: s, harnesses: o.harnesses}
	r.keeper = f
	top, err := r.manifest(ctx, cmp.Or(o.Digest, s.Ref))
	if err != nil {
		return nil, err
	}
	f.Digest = top.digest
	layer, err := r.layerOf(ctx, f, top)
	if err != nil {
		return nil, err
	}
	c, err := openContent(o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	file, err := c.create("archive")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := r.save(ctx, layer, file); err != nil {
		return nil, err
	}
	entries, err := c.extract(ctx, f, file, layer.Size, "work/files", s.String())
	if err != nil {
		return nil, err
	}
	return f, c.placeArtifact(f, entries, o)
}

// placeArtifact chooses the folder in which the skills of an artifact are found. SKILL.md can be at the
// top, or in any folder.
func (c *content) placeArtifact(f *Fetched, entries []string, o FetchOptions) error {
	f.Dir = filepath.Join(o.Dir, "work", "files")
	if o.Wrapped && !o.harnesses {
		wrapper, err := layoutOf(f, entries, true)
		if err != nil {
			return err
		}
		f.wrapper = wrapper
	} else if slices.ContainsFunc(entries, f.isEntry) {
		f.Dir = filepath.Join(o.Dir, "files")
		if err := c.place("work/files"); err != nil {
			return err
		}
	}
	rel, err := filepath.Rel(o.Dir, filepath.Join(f.Dir, filepath.FromSlash(f.Source.Path)))
	if err != nil {
		return err
	}
	if info, err := c.root.Stat(rel); errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return metier.Fieldf(metier.NotFound, "Request.Source", "source_missing", "use a folder of the artifact", "%s has no folder %s", f.Source.Location, termtext.Quote(f.Source.Path))
	}
	return nil
}

// newestArtifact returns the digest of the manifest that a source names now.
func newestArtifact(ctx context.Context, s Source, o FetchOptions) (string, error) {
	r, err := openRegistry(s, o)
	if err != nil {
		return "", err
	}
	defer r.close()
	m, err := r.manifest(ctx, s.Ref)
	return m.digest, err
}

// manifest is a manifest or an index of a registry.
type manifest struct {
	digest    string // of its bytes
	mediaType string
	ocispec.Index
	Layers []ocispec.Descriptor `json:"layers"`
}

// parseManifest reads a manifest that the registry sends with a media type.
func parseManifest(raw []byte, mediaType, what string) (manifest, error) {
	m := manifest{digest: digest.Bytes(raw), mediaType: mediaType}
	err := json.Unmarshal(raw, &m)
	switch {
	case err != nil:
		err = errors.New(termtext.Line(err.Error()))
	case m.SchemaVersion != 2:
		err = fmt.Errorf("its schema version is %d, not 2", m.SchemaVersion)
	case m.MediaType != "" && m.MediaType != mediaType:
		err = fmt.Errorf("its media type is %s, but the registry sent it as %s", termtext.Quote(m.MediaType), termtext.Quote(mediaType))
	case len(m.Layers) > 0 && len(m.Manifests) > 0:
		err = errors.New("it is a manifest and an index")
	default:
		return m, nil
	}
	return m, &metier.Error{Path: what, Field: "Request.Source", Kind: metier.Invalid, Code: "artifact_invalid", Hint: "report it to the publisher of the artifact", Err: err}
}

// unsupported returns an error about an artifact that is not a skill.
func (r *registryRepo) unsupported(hint, format string, args ...any) error {
	return &metier.Error{Path: r.source.String(), Field: "Request.Source", Kind: metier.Unsupported, Code: "artifact_unsupported", Hint: hint, Err: fmt.Errorf(format, args...)}
}

// layerOf returns the layer that contains the files of an artifact. If the artifact is an index, all its
// manifests must have that layer, so that every machine installs the same files.
func (r *registryRepo) layerOf(ctx context.Context, f *Fetched, m manifest) (ocispec.Descriptor, error) {
	switch m.mediaType {
	case ocispec.MediaTypeImageManifest, dockerManifest:
		return r.onlyLayer(m)
	case ocispec.MediaTypeImageIndex, dockerList:
	default:
		return ocispec.Descriptor{}, r.unsupported("use a reference to a skill", "its manifest has the unknown media type %s", termtext.Quote(m.mediaType))
	}
	var images []ocispec.Descriptor
	for _, d := range m.Manifests {
		if kind := d.Annotations["vnd.docker.reference.type"]; kind != "" {
			f.Notes = append(f.Notes, fmt.Sprintf("the artifact has data about an image that was not checked: %s", termtext.Quote(kind)))
		} else {
			images = append(images, d)
		}
	}
	if len(images) == 0 || len(images) > maxPlatforms {
		return ocispec.Descriptor{}, r.unsupported("use a reference to one skill", "it is an index of %s; the most are %d", plural.Of(len(images), "manifest"), maxPlatforms)
	}
	var first ocispec.Descriptor
	for i, d := range images {
		if err := checkDescriptor(d, maxManifest); err != nil {
			return ocispec.Descriptor{}, r.invalid(err)
		}
		sub, err := r.manifest(ctx, d.Digest.String())
		if err != nil {
			return ocispec.Descriptor{}, err
		}
		layer, err := r.onlyLayer(sub)
		if err != nil {
			return ocispec.Descriptor{}, err
		}
		if i > 0 && layer.Digest != first.Digest {
			return ocispec.Descriptor{}, r.unsupported(fmt.Sprintf("use a reference to one of them, such as %s@%s", r.source.Location, images[0].Digest), "it is an index of %s with different files", plural.Of(len(images), "manifest"))
		}
		first = layer
	}
	return first, nil
}

// onlyLayer returns the layer of a manifest.
func (r *registryRepo) onlyLayer(m manifest) (ocispec.Descriptor, error) {
	var types []string
	for _, l := range m.Layers {
		types = append(types, termtext.Quote(l.MediaType))
	}
	if m.mediaType != ocispec.MediaTypeImageManifest && m.mediaType != dockerManifest {
		return ocispec.Descriptor{}, r.unsupported("use a reference to a skill", "its index contains a manifest with the media type %s", termtext.Quote(m.mediaType))
	}
	if len(types) != 1 {
		return ocispec.Descriptor{}, r.unsupported("publish the skill as one layer", "it has %s instead of one: %s", plural.Of(len(types), "layer"), strings.Join(types[:min(len(types), maxNote)], ", "))
	}
	l := m.Layers[0]
	switch {
	case !slices.Contains(contentTypes, l.MediaType):
		return l, r.unsupported("use a reference to a skill", "its layer has the unknown media type %s", types[0])
	case len(l.URLs) > 0:
		return l, r.unsupported("publish the skill with its files", "its layer is not in the registry, but at other addresses")
	case l.Size > maxDownload:
		return l, metier.Fieldf(metier.LimitReached, "Request.Source", "download_too_large", "use a smaller one", "%s has more than %d bytes", r.source, maxDownload)
	}
	if err := checkDescriptor(l, maxDownload); err != nil {
		return l, r.invalid(err)
	}
	return l, nil
}

// checkDescriptor reports a descriptor that cannot be of bytes that exist.
func checkDescriptor(d ocispec.Descriptor, most int64) error {
	switch {
	case !digest.Valid(d.Digest.String()):
		return fmt.Errorf("%s is not a digest with sha256", termtext.Quote(d.Digest.String()))
	case d.Size <= 0 || d.Size > most:
		return fmt.Errorf("it names %d bytes", d.Size)
	}
	return nil
}

// invalid returns an error about an artifact that no client can use.
func (r *registryRepo) invalid(err error) error {
	return &metier.Error{Path: r.source.String(), Field: "Request.Source", Kind: metier.Invalid, Code: "artifact_invalid", Hint: "report it to the publisher of the artifact", Err: err}
}
