package install

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	godigest "github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote/auth"

	"metier"
	"metier/internal/archive"
	"metier/internal/digest"
	"metier/internal/termtext"
	"metier/scan"
	"metier/settings"
)

// Publication is a skill that was packed and scanned, and can be sent to a registry. The same files
// always have the same digests.
type Publication struct {
	Target Source // a tag in a registry
	Digest string // of the manifest
	Layer  string // digest of the archive with the files
	Change Change // the skill as a new one, with the report of the scanner

	layer    ocispec.Descriptor
	config   []byte
	manifest []byte
	dir      string // the archive is in it
}

// PublishOptions configure how a [Publication] is sent.
type PublishOptions struct {
	Env      []string          // environment in which credentials are looked for
	Progress func(line string) // receives lines that are safe to print; nil: they are dropped
	Force    bool              // replace what the tag names

	web webOptions
}

// ParseTarget reads where a skill is published: oci://HOST/REPOSITORY[:TAG]. The default tag is latest.
func ParseTarget(text string) (Source, error) {
	refused := metier.Fieldf(metier.Invalid, "Request.Target", "target_invalid", "use oci://HOST/REPOSITORY:TAG", "%s is not a tag in a registry", termtext.Quote(text))
	s, err := parseAddress(text)
	switch {
	case metier.CodeOf(err) == "source_password":
		return s, err
	case err != nil && strings.HasPrefix(text, "oci://"):
		return s, metier.Fieldf(metier.Invalid, "Request.Target", "target_invalid", "use oci://HOST/REPOSITORY:TAG", "%v", err)
	case err != nil || s.Kind != OCI || s.Path != "" || s.Pinned():
		return s, refused
	}
	return s, nil
}

// NewPublication packs the only skill in a folder for a registry, and scans it. A skill that could not
// be installed by set is an error. Nothing is sent. The caller closes it.
func NewPublication(ctx context.Context, dir string, target Source, set settings.Settings) (_ *Publication, err error) {
	if !target.tagged() {
		return nil, metier.Fieldf(metier.Invalid, "Request.Target", "target_invalid", "use oci://HOST/REPOSITORY:TAG", "%s is not a tag in a registry", target)
	}
	from, err := openPackable(ctx, dir, set)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, from.bundle.Close()) }()
	tmp, err := os.MkdirTemp("", "metier-publish-")
	if err != nil {
		return nil, err
	}
	p := &Publication{Target: target, dir: tmp}
	if err := p.pack(ctx, from); err != nil {
		return nil, errors.Join(about(from.skill, err), p.Close())
	}
	return p, nil
}

// tagged reports whether a source is a tag in a registry, and nothing else.
func (s Source) tagged() bool {
	clean, err := ParseTarget(s.String())
	return err == nil && clean == s
}

// Close removes what was packed.
func (p *Publication) Close() error { return os.RemoveAll(p.dir) }

// Pinned returns the reference that always names this content.
func (p *Publication) Pinned() string { return p.Target.Location + "@" + p.Digest }

// Check returns an error if the scanner takes the skill for dangerous.
func (p *Publication) Check() error { return dangerous(p.Change, "publish it") }

// pack copies the files of a skill, so that the same bytes are scanned and published, and writes the
// archive, the configuration, and the manifest.
func (p *Publication) pack(ctx context.Context, from packable) error {
	files, err := p.copy(ctx, from)
	if err != nil {
		return err
	}
	defer files.Close()
	c := Change{Name: from.skill.Slug, Action: Add, Skill: from.skill, Entry: Entry{Source: p.Target, Tree: string(from.manifest.Tree), Files: lockedFiles(from.manifest)}}
	for _, f := range from.manifest.Files {
		c.Bytes += f.Size
	}
	if c.Signature, err = from.signatures(ctx); err != nil {
		return err
	}
	r, err := scan.Skill(ctx, files.FS(), nil)
	if err != nil {
		return err
	}
	c.Scan, c.Entry.Scanner = &r, r.Rules
	p.Change = c
	if err := p.archive(ctx, from, files); err != nil {
		return err
	}
	return p.describe(from.skill)
}

// copy copies the files of a skill into a folder, which the caller closes.
func (p *Publication) copy(ctx context.Context, from packable) (*os.Root, error) {
	dir := filepath.Join(p.dir, "files")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	to, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	for _, f := range from.manifest.Files {
		if err := copyFile(ctx, from.bundle, f, to); err != nil {
			return nil, errors.Join(err, to.Close())
		}
	}
	return to, nil
}

// archive writes the archive of the copied files.
func (p *Publication) archive(ctx context.Context, from packable, files *os.Root) error {
	out, err := os.OpenFile(p.archiveFile(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	h := digest.New()
	err = archive.Write(ctx, io.MultiWriter(out, h), archive.TarGz, from.files(ctx, func(_ context.Context, file string) (io.ReadCloser, error) {
		return files.Open(filepath.FromSlash(file))
	}))
	if err := errors.Join(err, out.Close()); err != nil {
		return err
	}
	info, err := os.Stat(p.archiveFile())
	if err != nil {
		return err
	}
	p.Layer = h.Sum()
	p.layer = ocispec.Descriptor{MediaType: contentType, Digest: godigest.Digest(p.Layer), Size: info.Size()}
	return nil
}

func (p *Publication) archiveFile() string { return filepath.Join(p.dir, "layer.tar.gz") }

// describe writes the configuration and the manifest. They have no time, so that the same skill always
// has the same digest.
func (p *Publication) describe(sk metier.Skill) (err error) {
	front := sk.Head.Front
	p.config = front.JSON()
	annotations := map[string]string{"io.agentskills.skill.name": sk.Name, ocispec.AnnotationTitle: sk.Name,
		ocispec.AnnotationDescription: front.Description, ocispec.AnnotationLicenses: front.License, ocispec.AnnotationVersion: versionOf(sk)}
	for k, v := range annotations {
		if v == "" {
			delete(annotations, k)
		}
	}
	p.manifest, err = json.Marshal(ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: artifactType,
		Config: described(configType, p.config), Layers: []ocispec.Descriptor{p.layer}, Annotations: annotations})
	p.Digest = digest.Bytes(p.manifest)
	if err == nil && len(p.manifest)+len(p.config) > maxManifest {
		err = metier.Errorf(metier.LimitReached, "skill_frontmatter_large", "shorten the frontmatter", "the frontmatter is too long for a registry: the most are %d bytes", maxManifest)
	}
	return err
}

func described(mediaType string, raw []byte) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: mediaType, Digest: godigest.Digest(digest.Bytes(raw)), Size: int64(len(raw))}
}

// open opens the repository for reading and writing: registries give out tokens for what the first
// request names.
func (p *Publication) open(ctx context.Context, o PublishOptions) (context.Context, *registryRepo, error) {
	r, err := openRegistry(p.Target, FetchOptions{Env: o.Env, Progress: o.Progress, web: o.web})
	if err != nil {
		return nil, nil, err
	}
	if err := r.connect(ctx); err != nil {
		r.close()
		return nil, nil, err
	}
	ref := registry.Reference{Registry: r.remote.Reference.Registry, Repository: r.remote.Reference.Repository}
	return auth.AppendRepositoryScope(ctx, ref, auth.ActionPull, auth.ActionPush), r, nil
}

// Current returns the digest that the tag names now, or "" if the registry does not have the tag.
func (p *Publication) Current(ctx context.Context, o PublishOptions) (string, error) {
	ctx, r, err := p.open(ctx, o)
	if err != nil {
		return "", err
	}
	defer r.close()
	return r.tag(ctx)
}

// tag returns the digest that the tag of the source names now, or "".
func (r *registryRepo) tag(ctx context.Context) (string, error) {
	m, err := r.remote.Manifests().Resolve(ctx, r.source.Ref)
	if err = r.failed(ctx, r.source.Ref, err); metier.CodeOf(err) == "reference_missing" {
		return "", nil
	}
	return m.Digest.String(), err
}

// Push sends the skill, and lets the tag name it. A tag that names something else is an error without
// Force. Registries cannot compare and set a tag: if another program changes it at the same time, the
// last one wins.
func (p *Publication) Push(ctx context.Context, o PublishOptions) error {
	ctx, r, err := p.open(ctx, o)
	if err != nil {
		return err
	}
	defer r.close()
	switch now, err := r.tag(ctx); {
	case err != nil || now == p.Digest:
		return err
	case now != "" && !o.Force:
		return p.Taken(now)
	}
	if err := r.put(ctx, described(configType, p.config), func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(p.config)), nil }); err != nil {
		return err
	}
	r.o.report("sending " + p.Change.Name + " to " + p.Target.Location)
	if err := r.put(ctx, p.layer, func() (io.ReadCloser, error) { return os.Open(p.archiveFile()) }); err != nil {
		return err
	}
	err = r.remote.Manifests().PushReference(ctx, described(ocispec.MediaTypeImageManifest, p.manifest), bytes.NewReader(p.manifest), p.Target.Ref)
	return r.failed(ctx, p.Target.Ref, err)
}

// Taken returns the error about a tag that names something else.
func (p *Publication) Taken(now string) error {
	return metier.Fieldf(metier.Conflict, "Request.Force", "tag_exists", "use another tag, or set Request.Force to replace it", "%s is already published, with the digest %s", p.Target, now)
}

// put sends a blob, unless the registry has it.
func (r *registryRepo) put(ctx context.Context, d ocispec.Descriptor, open func() (io.ReadCloser, error)) error {
	if there, err := r.remote.Blobs().Exists(ctx, d); err != nil || there {
		return r.failed(ctx, d.Digest.String(), err)
	}
	content, err := open()
	if err != nil {
		return err
	}
	defer content.Close()
	return r.failed(ctx, d.Digest.String(), r.remote.Blobs().Push(ctx, d, content))
}
