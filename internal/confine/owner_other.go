//go:build !unix

package confine

import "io/fs"

// OthersWrite reports false: modes show nothing about access on this system.
func OthersWrite(fs.FileInfo) bool { return false }

// HeldLike reports true: modes show nothing about access on this system.
func HeldLike(_, _ fs.FileInfo) bool { return true }
