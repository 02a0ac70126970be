//go:build !unix

package confine

import "io/fs"

// OthersWrite reports false: modes show nothing about access on this system.
func OthersWrite(fs.FileInfo) bool { return false }
