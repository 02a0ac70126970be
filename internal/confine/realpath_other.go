//go:build !linux

package confine

import "path/filepath"

func realPath(path string) (string, error) { return filepath.EvalSymlinks(path) }
