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
// always give the same bytes. A skill that would not load, or with a file that cannot be packed, is an
// error.
func Pack(ctx context.Context, dir, file string, w io.Writer, set settings.Settings) (Packed, error) {
	format, ok := archive.FormatOf(file)
	if !ok {
		return Packed{}, metier.Errorf(metier.Invalid, "archive_name_unknown", "use .zip, .skill, .tar, or .tar.gz", "%q does not end like an archive", filepath.Base(file))
	}
	sk, b, m, err := openFolder(ctx, dir, set)
	if err != nil {
		return Packed{}, err
	}
	defer b.Close()
	files := make([]archive.File, 0, len(m.Files))
	var secrets []string
	for _, f := range m.Files {
		if secretFile.MatchString(f.Path) {
			secrets = append(secrets, f.Path)
		}
		files = append(files, archive.File{Path: path.Join(sk.Slug, f.Path), Size: f.Size, Executable: f.Exec, Open: func() (io.ReadCloser, error) { return b.Open(ctx, f.Path) }})
	}
	h := digest.New()
	if err := archive.Write(ctx, io.MultiWriter(w, h), format, files); err != nil {
		return Packed{}, about(sk, err)
	}
	return Packed{Name: sk.Name, Folder: sk.Slug, Files: len(files), Digest: h.Sum(), Tree: string(m.Tree), Secrets: secrets}, nil
}

// openFolder opens the only skill in a folder. It must be one that can be installed.
func openFolder(ctx context.Context, dir string, set settings.Settings) (sk metier.Skill, _ metier.Bundle, m metier.Manifest, err error) {
	found, err := Find(ctx, &Fetched{Source: Source{Kind: Folder, Location: dir}, Dir: dir}, set)
	if err != nil {
		return sk, nil, m, err
	}
	skills, err := found.Choose(nil, false)
	if err != nil {
		return sk, nil, m, err
	}
	sk = skills[0]
	if err := (Request{validation: set.Install.Validation}).check(sk); err != nil {
		return sk, nil, m, about(sk, err)
	}
	src, err := local.New(filepath.Join(dir, filepath.FromSlash(sk.ID.Path)), &local.Options{})
	if err != nil {
		return sk, nil, m, err
	}
	b, err := src.Open(ctx, ".")
	if err != nil {
		return sk, nil, m, err
	}
	if m, err = b.Manifest(ctx); err == nil {
		err = complete(m)
	}
	if err != nil {
		return sk, nil, m, errors.Join(about(sk, err), b.Close())
	}
	return sk, b, m, nil
}
