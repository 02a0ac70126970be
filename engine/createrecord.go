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
	return unwritable(dir, atomicfile.Write(path, []byte(ignored), 0o644))
}

// CheckRecords fails if no record can be created in a folder of records, which may be missing, or if
// its heads cannot be stored. It leaves no files behind.
func (e *Engine) CheckRecords(artifacts string) error {
	if err := unwritable(artifacts, writable(artifacts)); err != nil {
		return err
	}
	state := e.Env.StateDir()
	if state == "" {
		return nil
	}
	if err := writable(state); err != nil {
		return run.StateUnwritable(state, err)
	}
	return nil
}

// writable fails if a folder, or the deepest one above it that exists, cannot be written.
func writable(dir string) error {
	for _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir); _, err = os.Lstat(dir) {
		dir = filepath.Dir(dir)
	}
	made, err := os.MkdirTemp(dir, ".metier-check-*")
	if err != nil {
		return err
	}
	return os.Remove(made)
}

// unwritable returns the error for a folder of records that cannot be written, or nil.
func unwritable(dir string, err error) error {
	if err == nil {
		return nil
	}
	e := &metier.Error{Op: "create", Path: dir, Kind: metier.Unavailable, Code: "read_only", Field: "Request.Artifacts", Hint: "make the folder writable, or choose another one with Request.Artifacts", Err: err}
	if atomicfile.IsFull(err) {
		e.Code, e.Hint = "disk_full", "free some space, or choose another folder with Request.Artifacts"
	}
	return e
}
