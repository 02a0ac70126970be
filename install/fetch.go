package install

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"metier"
)

// Fetch fetches a source. The caller closes what it returns.
func Fetch(ctx context.Context, s Source) (*Fetched, error) {
	switch s.Kind {
	case Folder:
		return fetchFolder(s)
	}
	return nil, metier.Fieldf(metier.Unsupported, "Request.Source", "source_unsupported", "use a local folder", "this build cannot install from a source of kind %s", s.Kind)
}

// fetchFolder opens a folder on this machine. If it is named by its SKILL.md, the folder is meant.
func fetchFolder(s Source) (*Fetched, error) {
	info, err := os.Stat(s.Location)
	if err == nil && !info.IsDir() && (filepath.Base(s.Location) == "SKILL.md" || filepath.Base(s.Location) == "skill.md") {
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
