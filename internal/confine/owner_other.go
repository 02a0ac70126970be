//go:build !unix

package confine

import "io/fs"

// Owner returns "": owners have no numbers on this system.
func Owner(fs.FileInfo) string { return "" }

// OthersWrite reports false: modes show nothing about access on this system.
func OthersWrite(fs.FileInfo) bool { return false }

// HeldLike reports true: modes show nothing about access on this system.
func HeldLike(_, _ fs.FileInfo) bool { return true }
