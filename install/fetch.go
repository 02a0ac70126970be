package install

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"metier"
	"metier/harness"
)

// FetchOptions configure [Fetch].
type FetchOptions struct {
	Dir      string            // an empty folder for what is fetched; no command reads skills from it
	Env      []string          // environment of git, and of the search for credentials of registries; nil: an empty one
	Progress func(line string) // receives lines that are safe to print; nil: they are dropped
	Commit   string            // of a repository: the full commit to fetch, instead of what Source.Ref names
	Digest   string            // of an archive or a file: what its bytes must have; of an artifact: what to fetch instead of Source.Ref; "": any
	Paths    []string          // of a repository: only skills in these folders; nil: all

	Offline   bool   // do not use the network
	Downloads string // folder that keeps downloaded archives, files, and artifacts by digest; "": none

	Wrapped bool     // of an archive or an artifact: it must have one folder, with the name of the skill
	Skills  []string // of an index: only these skills; nil: the only one
	All     bool     // of an index: all skills

	web       webOptions
	harnesses bool // fetch harnesses instead of skills
}

// report reports progress.
func (o FetchOptions) report(line string) {
	if o.Progress != nil {
		o.Progress(line)
	}
}

// Fetch fetches a source. The caller closes what it returns.
func Fetch(ctx context.Context, s Source, o FetchOptions) (*Fetched, error) {
	switch s.Kind {
	case Folder:
		return fetchFolder(s)
	case Git:
		return fetchGit(ctx, s, o)
	case Archive:
		return fetchArchive(ctx, s, o)
	case File:
		return fetchFile(ctx, s, o)
	case Index:
		return fetchIndex(ctx, s, o)
	case OCI:
		return fetchArtifact(ctx, s, o)
	}
	return nil, metier.Fieldf(metier.Unsupported, "Request.Source", "source_unsupported", "use a folder, an archive, a repository, or an index", "this build cannot install from a source of kind %s", s.Kind)
}

// fetch fetches a source into a new folder in the staging folder, which closing the result removes.
func (s *Store) fetch(ctx context.Context, src Source, o FetchOptions) (*Fetched, error) {
	src, err := s.located(src)
	if err == nil {
		err = src.whole()
	}
	if err != nil {
		return nil, err
	}
	name := "fetch-" + s.o.ID()
	if err := s.work.Mkdir(name, 0o700); err != nil {
		return nil, s.fault(err, "")
	}
	remove := func() error { return s.work.RemoveAll(name) }
	o = s.options(o)
	o.Dir = s.path(work, name)
	f, err := Fetch(ctx, src, o)
	if err != nil {
		return nil, errors.Join(s.fault(err, ""), remove())
	}
	f.done, f.harnesses = remove, s.o.Harnesses
	return f, nil
}

// options adds the options of the store.
func (s *Store) options(o FetchOptions) FetchOptions {
	o.Env, o.Progress, o.Offline, o.Downloads, o.web, o.harnesses = s.o.Env, s.o.Progress, s.o.Offline, s.o.Downloads, s.o.web, s.o.Harnesses
	return o
}

// fetchFolder opens a folder on this machine. If it is named by its SKILL.md, the folder is meant.
func fetchFolder(s Source) (*Fetched, error) {
	info, err := os.Stat(s.Location)
	if err == nil && !info.IsDir() && slices.Contains([]string{"SKILL.md", "skill.md", harness.File}, filepath.Base(s.Location)) {
		s.Location = filepath.Dir(s.Location)
		info, err = os.Stat(s.Location)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, metier.Fieldf(metier.NotFound, "Request.Source", "source_missing", forms, "there is no folder %s", s.Location)
	case err != nil:
		return nil, metier.Fieldf(metier.Invalid, "Request.Source", "source_unreadable", "check its permissions", "%v", err)
	case !info.IsDir():
		return nil, metier.Fieldf(metier.Invalid, "Request.Source", "source_invalid", forms, "%s is not a folder, and not an archive", s.Location)
	}
	return &Fetched{Source: s, Dir: s.Location}, nil
}
