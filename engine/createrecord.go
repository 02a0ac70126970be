package engine

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"metier"
	"metier/internal/atomicfile"
	"metier/record"
	"metier/run"
)

// CreateRecord creates the folder of a run in a workspace, and makes git ignore records.
func (e *Engine) CreateRecord(ctx context.Context, workspace, artifacts, id string, secrets ...record.Secret) (*run.Folder, error) {
	if err := errors.Join(e.remember(knownProjects, workspace), e.rememberRecords(workspace, artifacts), e.Claim(ctx, artifacts)); err != nil {
		return nil, err
	}
	folder, err := run.Create(artifacts, id, e.RunOptions(secrets...))
	if err != nil {
		return nil, err
	}
	if err := ignoreRecords(artifacts); err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	return folder, nil
}

// ignored makes git ignore everything in .metier except skills.json, in which a project disables
// skills.
const ignored = "*\n!skills.json\n"

// ignoreRecords writes .metier/.gitignore unless it exists. For records kept elsewhere, the
// operator decides what git ignores.
func ignoreRecords(artifacts string) error {
	dir := filepath.Dir(artifacts)
	if filepath.Base(dir) != ".metier" || filepath.Base(artifacts) != "runs" {
		return nil
	}
	path := filepath.Join(dir, ".gitignore")
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err := atomicfile.Write(path, []byte(ignored), 0o644)
	if err == nil {
		return nil
	}
	e := &metier.Error{Op: "create", Path: dir, Kind: metier.Unavailable, Code: "read_only", Hint: "make the folder writable, or choose another one with Request.Artifacts", Err: err}
	if atomicfile.IsFull(err) {
		e.Code, e.Hint = "disk_full", "free some space, or choose another folder with Request.Artifacts"
	}
	return e
}
