package quarantine

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// born returns when a file was created or, if the file system does not store that, when it was last
// changed or renamed.
func born(p string) (time.Time, error) {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, p, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME|unix.STATX_CTIME, &st); err != nil {
		return time.Time{}, err
	}
	t := st.Btime
	if st.Mask&unix.STATX_BTIME == 0 {
		t = st.Ctime
	}
	return time.Unix(t.Sec, int64(t.Nsec)), nil
}

// node identifies a file, also among those that had its inode before. It returns "" if there is no
// file.
func node(p string) string {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, p, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_INO|unix.STATX_BTIME, &st); err != nil {
		return ""
	}
	return fmt.Sprintf("%d:%d:%d:%d.%d", st.Dev_major, st.Dev_minor, st.Ino, st.Btime.Sec, st.Btime.Nsec)
}

// changed returns when the permissions or the name of a file last changed.
func changed(p string) (time.Time, error) {
	var st unix.Stat_t
	if err := unix.Lstat(p, &st); err != nil {
		return time.Time{}, err
	}
	return time.Unix(st.Ctim.Unix()), nil
}

// giveTo changes the owner of p to that of another file, if this process may.
func giveTo(root *os.Root, p string, other fs.FileInfo) error {
	if st, ok := other.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 {
		return root.Lchown(p, int(st.Uid), int(st.Gid))
	}
	return nil
}

// folderID identifies a folder even after it is moved within its file system, also among those that
// had its inode before. It returns "" if there is no ID.
func folderID(dir string) string {
	var st unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, dir, 0, unix.STATX_TYPE|unix.STATX_INO|unix.STATX_BTIME, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return ""
	}
	return fmt.Sprintf("%d:%d:%d.%d", unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino, st.Btime.Sec, st.Btime.Nsec)
}

// hasID reports whether a folder with the ID is the one that an entry names. Entries of earlier
// versions have IDs without the birth time.
func hasID(id, noted string) bool {
	return id == noted || strings.Count(noted, ":") == 1 && strings.HasPrefix(id, noted+":")
}
