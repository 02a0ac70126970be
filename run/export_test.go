package run

import (
	"context"
	"path/filepath"
)

// FailureText is the sentence for a code in artifacts.
var FailureText = failureText

// Collected returns the content of a file as an export takes it, after the verification.
func (f *Folder) Collected(ctx context.Context, name string) ([]byte, error) {
	files := map[string]func() ([]byte, error){}
	if err := f.collect(ctx, VerifyReport{}, files); err != nil {
		return nil, err
	}
	return files[name]()
}

// Path returns the host path of an artifact.
func (f *Folder) Path(name string) string { return filepath.Join(f.dir, filepath.FromSlash(name)) }
