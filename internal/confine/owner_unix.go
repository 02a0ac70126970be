//go:build unix

package confine

import (
	"io/fs"
	"os"
	"syscall"
)

// Direct opens neither what a link leads to nor a pipe that nobody writes to.
const Direct = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// OthersWrite reports whether a user other than the one of this process and root
// can write a file or folder: its owner, its group, or every user.
func OthersWrite(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return !ok || info.Mode().Perm()&0o022 != 0 || st.Uid != 0 && int(st.Uid) != os.Geteuid()
}
