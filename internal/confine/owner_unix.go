//go:build unix

package confine

import (
	"io/fs"
	"os"
	"strconv"
	"syscall"
)

// Direct makes an open fail for symbolic links and not block on pipes.
const Direct = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// Owner returns the ID of a file's owner, or "".
func Owner(info fs.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return strconv.FormatUint(uint64(st.Uid), 10)
}

// OthersWrite reports whether a user other than the one of this process and root
// can write a file or folder: its owner, its group, or every user.
func OthersWrite(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return !ok || info.Mode().Perm()&0o022 != 0 || st.Uid != 0 && int(st.Uid) != os.Geteuid()
}

// HeldLike reports whether only root, this user, and the owner of like can
// create files in a folder. Members of its group count as its owner.
func HeldLike(dir, like fs.FileInfo) bool {
	st, ok := dir.Sys().(*syscall.Stat_t)
	if !ok {
		return true
	}
	if dir.Mode().Perm()&0o002 != 0 {
		return false
	}
	if st.Uid == 0 || int(st.Uid) == os.Geteuid() {
		return true
	}
	if like == nil {
		return false
	}
	other, ok := like.Sys().(*syscall.Stat_t)
	return ok && other.Uid == st.Uid
}
