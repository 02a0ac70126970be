//go:build unix && !linux

package confine

import (
	"errors"
	"syscall"
)

const nonblock = syscall.O_NONBLOCK

func openBackend(path string) (backend, error) { return openRoot(path) }

func fillSys(info *Info, sys any) {
	if st, ok := sys.(*syscall.Stat_t); ok {
		info.Dev, info.Ino, info.Nlink, info.Owner = uint64(st.Dev), uint64(st.Ino), uint64(st.Nlink), st.Uid
	}
}

func codeOfErrno(err error) Code {
	var e syscall.Errno
	if !errors.As(err, &e) {
		return ""
	}
	switch e {
	case syscall.ELOOP, syscall.EXDEV:
		return Outside
	case syscall.ENOTDIR:
		return NotFound
	case syscall.ENAMETOOLONG:
		return PathInvalid
	case syscall.ENXIO, syscall.EOPNOTSUPP:
		return NotRegular
	case syscall.EISDIR:
		return IsDir
	}
	return ""
}
