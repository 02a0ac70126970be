package install

import (
	"context"
	"errors"
	"io"
	"path"
	"path/filepath"
	"regexp"

	"metier"
	"metier/internal/archive"
	"metier/internal/digest"
	"metier/settings"
	"metier/source/local"
)

// Packed is an archive of a skill.
type Packed struct {
	Name   string `json:"name"`
	Folder string `json:"folder"` // in the archive
	Files  int    `json:"files"`
	Digest string `json:"digest"` // of the bytes of the archive
	Tree   string `json:"tree"`   // over the files
	// Secrets are files whose names are usual for credentials.
	Secrets []string `json:"secrets,omitempty"`
}

// secretFile matches the usual names of files with credentials.
var secretFile = regexp.MustCompile(`(?i)(^|/)(\.env(\..+)?|\.netrc|\.npmrc|\.pypirc|\.pgpass|\.git-credentials|credentials(\.json)?|id_(rsa|dsa|ecdsa|ed25519)|.+\.(pem|key|p12|pfx|keystore|kdbx))$`)

// Pack writes an archive of the skill in a folder. The name of file decides the format: zip, also for
// .skill, tar, or tar.gz. The archive contains one folder with the skill's name, and the same files
// always give the same bytes. A skill that would not load, or has a bad signature or a file that cannot be
// packed, is an error.
func Pack(ctx context.Context, dir, file string, w io.Writer, set settings.Settings) (Packed, error) {
	format, ok := archive.FormatOf(file)
	if !ok {
		return Packed{}, metier.Errorf(metier.Invalid, "archive_name_unknown", "use .zip, .skill, .tar, or .tar.gz", "%q does not end like an archive", filepath.Base(file))
	}
	p, err := openPackable(ctx, dir, set)
	if err != nil {
		return Packed{}, err
	}
	defer p.bundle.Close()
	if _, err := p.signatures(ctx); err != nil {
		return Packed{}, about(p.skill, err)
	}
	h := digest.New()
	if err := archive.Write(ctx, io.MultiWriter(w, h), format, p.files(ctx, p.bundle.Open)); err != nil {
		return Packed{}, about(p.skill, err)
	}
	var secrets []string
	for _, f := range p.manifest.Files {
		if secretFile.MatchString(f.Path) {
			secrets = append(secrets, f.Path)
		}
	}
	return Packed{Name: p.skill.Name, Folder: p.skill.Slug, Files: len(p.manifest.Files), Digest: h.Sum(), Tree: string(p.manifest.Tree), Secrets: secrets}, nil
}

// packable is a skill in a folder that can be packed.
type packable struct {
	skill    metier.Skill
	bundle   metier.Bundle
	manifest metier.Manifest
}

// openPackable opens the only skill in a folder. The caller closes its bundle.
func openPackable(ctx context.Context, dir string, set settings.Settings) (packable, error) {
	f, err := fetchFolder(Source{Kind: Folder, Location: dir})
	if e, ok := errors.AsType[*metier.Error](err); ok {
		e.Field, e.Hint = "", "specify the folder of a skill"
	}
	if err != nil {
		return packable{}, err
	}
	dir = f.Dir
	found, err := Find(ctx, f, set)
	if err != nil {
		return packable{}, err
	}
	skills, err := found.Choose(nil, false)
	if err != nil {
		return packable{}, err
	}
	p := packable{skill: skills[0]}
	if err := (Request{validation: set.Install.Validation}).check(p.skill); err != nil {
		return p, about(p.skill, err)
	}
	src, err := local.New(filepath.Join(dir, filepath.FromSlash(p.skill.ID.Path)), &local.Options{Installed: true})
	if err != nil {
		return p, err
	}
	if p.bundle, err = src.Open(ctx, "."); err != nil {
		return p, err
	}
	if p.manifest, err = p.bundle.Manifest(ctx); err == nil {
		err = complete(p.manifest)
	}
	if err != nil {
		return p, errors.Join(about(p.skill, err), p.bundle.Close())
	}
	return p, nil
}

// files returns the files of the archive: one folder with the name of the skill.
func (p packable) files(ctx context.Context, open func(ctx context.Context, file string) (io.ReadCloser, error)) []archive.File {
	out := make([]archive.File, 0, len(p.manifest.Files))
	for _, f := range p.manifest.Files {
		out = append(out, archive.File{Path: path.Join(p.skill.Slug, f.Path), Size: f.Size, Executable: f.Exec, Open: func() (io.ReadCloser, error) { return open(ctx, f.Path) }})
	}
	return out
}
