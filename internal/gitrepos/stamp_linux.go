package gitrepos

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// stamp identifies a folder and the last change of its entries. A program can set the modification
// time of a folder, but not this one.
func stamp(dir string) (string, time.Time) {
	var st unix.Stat_t
	if unix.Lstat(dir, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return "", time.Time{}
	}
	return fmt.Sprintf("%d:%d:%d.%d", st.Dev, st.Ino, st.Ctim.Sec, st.Ctim.Nsec), time.Unix(st.Ctim.Unix())
}
