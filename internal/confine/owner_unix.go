//go:build unix

package confine

import (
	"io/fs"
	"os"
	"syscall"
)

// OthersWrite reports whether a user other than the one of this process and root
// can write a file or folder: its owner, its group, or every user.
func OthersWrite(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return !ok || info.Mode().Perm()&0o022 != 0 || st.Uid != 0 && int(st.Uid) != os.Geteuid()
}
