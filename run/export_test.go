package run

import "path/filepath"

// FailureText is the sentence for a code in artifacts.
var FailureText = failureText

// Path returns the host path of an artifact.
func (f *Folder) Path(name string) string { return filepath.Join(f.dir, filepath.FromSlash(name)) }
