package confine

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const nonblock = unix.O_NONBLOCK

const (
	resolve   = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV
	flagsFile = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_NOCTTY
	// O_NOFOLLOW is not used for folders: with O_DIRECTORY, the error for a link would be ENOTDIR.
	// RESOLVE_NO_SYMLINKS returns ELOOP.
	flagsDir  = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC
	flagsList = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NONBLOCK | unix.O_CLOEXEC
	maxAgain  = 64 // openat2 returns EAGAIN while renames race with it
)

// fdDir is the openat2 backend: one O_PATH descriptor.
type fdDir struct {
	fd    int
	mount atomic.Uint64 // ID of its mount; 0 before the first glance, or if the kernel does not report it
}

func openBackend(path string) (backend, error) {
	fd, err := openat2(unix.AT_FDCWD, path, flagsDir, unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_MAGICLINKS)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		return openRoot(path) // an old kernel, or a filter that does not know openat2
	}
	if err != nil {
		return nil, notFolder(err)
	}
	return &fdDir{fd: fd}, nil
}

func openat2(at int, path string, flags, resolve uint64) (int, error) {
	how := unix.OpenHow{Flags: flags, Resolve: resolve}
	for again := 0; ; {
		fd, err := unix.Openat2(at, path, &how)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN && again < maxAgain:
			again++
		default:
			return fd, err
		}
	}
}

func (d *fdDir) open(rel string) (handle, Info, error) {
	fd, err := openat2(d.fd, rel, flagsFile, resolve)
	if err != nil {
		return nil, Info{}, err
	}
	info, err := fstat(fd)
	if err == nil {
		err = regular(info)
	}
	if err != nil {
		unix.Close(fd)
		return nil, info, err
	}
	return fdHandle(fd), info, nil
}

func (d *fdDir) sub(rel string) (backend, error) {
	fd, err := openat2(d.fd, rel, flagsDir, resolve)
	if err != nil {
		return nil, notFolder(err)
	}
	return &fdDir{fd: fd}, nil
}

func (d *fdDir) stat(rel string) (Info, error) {
	fd, err := openat2(d.fd, rel, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, resolve)
	if err == unix.ELOOP {
		return d.statLink(rel)
	}
	if err != nil {
		return Info{}, err
	}
	defer unix.Close(fd)
	return fstat(fd)
}

// glance is a single statx call. It also returns the mount, so a file covered by another mount is
// rejected as with openat2.
func (d *fdDir) glance(rel string) (Info, error) {
	var st unix.Statx_t
	mount := d.mount.Load()
	if mount == 0 {
		if err := unix.Statx(d.fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &st); err != nil || st.Mask&unix.STATX_MNT_ID == 0 {
			return d.stat(rel)
		}
		mount = st.Mnt_id
		d.mount.Store(mount)
	}
	err := unix.Statx(d.fd, rel, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, &st)
	switch {
	case err != nil:
		return Info{}, err
	case st.Mnt_id != mount:
		return Info{}, unix.EXDEV
	}
	return Info{
		Size:  int64(st.Size),
		Mode:  modeOf(uint32(st.Mode)),
		Mtime: time.Unix(st.Mtime.Sec, int64(st.Mtime.Nsec)),
		Ctime: time.Unix(st.Ctime.Sec, int64(st.Ctime.Nsec)),
		Dev:   unix.Mkdev(st.Dev_major, st.Dev_minor),
		Ino:   st.Ino,
		Nlink: uint64(st.Nlink),
		Owner: st.Uid,
	}, nil
}

// statLink describes a symlink at the end of rel, which NO_SYMLINKS cannot open at all. It opens
// the parent folder with all checks.
func (d *fdDir) statLink(rel string) (Info, error) {
	at, name := d.fd, rel
	if i := strings.LastIndexByte(rel, '/'); i >= 0 {
		fd, err := openat2(d.fd, rel[:i], flagsDir, resolve)
		if err != nil {
			return Info{}, err
		}
		defer unix.Close(fd)
		at, name = fd, rel[i+1:]
	}
	var st unix.Stat_t
	if err := unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return Info{}, err
	}
	return infoFromStat(&st), nil
}

func (d *fdDir) names(rel string) (namer, error) {
	fd, err := openat2(d.fd, rel, flagsList, resolve)
	if err != nil {
		return nil, notFolder(err)
	}
	return &fdNames{fd: fd}, nil
}

func (d *fdDir) close() error { return unix.Close(d.fd) }

// notFolder converts ENOTDIR to NotRegular. The cause may also be a parent that is not a folder.
func notFolder(err error) error {
	if err == unix.ENOTDIR {
		return &Error{Code: NotRegular, Err: errors.New("not a folder")}
	}
	return err
}

// fdHandle is a plain descriptor: for a file that is read and closed at once, os.File costs more
// than the read.
type fdHandle int

func (h fdHandle) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		n, err := unix.Read(int(h), p)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

func (h fdHandle) Close() error              { return unix.Close(int(h)) }
func (h fdHandle) stat() (Info, error)       { return fstat(int(h)) }
func (h fdHandle) file(name string) *os.File { return os.NewFile(uintptr(h), name) }

func fstat(fd int) (Info, error) {
	var st unix.Stat_t
	for {
		err := unix.Fstat(fd, &st)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return Info{}, err
		}
		return infoFromStat(&st), nil
	}
}

func infoFromStat(st *unix.Stat_t) Info {
	return Info{
		Size:  st.Size,
		Mode:  modeOf(st.Mode),
		Mtime: time.Unix(st.Mtim.Unix()),
		Ctime: time.Unix(st.Ctim.Unix()),
		Dev:   uint64(st.Dev),
		Ino:   st.Ino,
		Nlink: uint64(st.Nlink),
		Owner: st.Uid,
	}
}

func modeOf(m uint32) fs.FileMode {
	mode := fs.FileMode(m & 0o777)
	switch m & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		mode |= fs.ModeDir
	case unix.S_IFLNK:
		mode |= fs.ModeSymlink
	case unix.S_IFIFO:
		mode |= fs.ModeNamedPipe
	case unix.S_IFSOCK:
		mode |= fs.ModeSocket
	case unix.S_IFCHR:
		mode |= fs.ModeDevice | fs.ModeCharDevice
	case unix.S_IFBLK:
		mode |= fs.ModeDevice
	default:
		mode |= fs.ModeIrregular
	}
	return mode
}

func fillSys(info *Info, sys any) {
	if st, ok := sys.(*syscall.Stat_t); ok {
		info.Dev, info.Ino, info.Nlink = uint64(st.Dev), st.Ino, uint64(st.Nlink)
		info.Ctime, info.Owner = time.Unix(st.Ctim.Unix()), st.Uid
	}
}

// fdNames reads a folder with getdents, which includes the types.
type fdNames struct {
	fd  int
	buf *[32 << 10]byte
}

var nameBufs = sync.Pool{New: func() any { return new([32 << 10]byte) }}

func (n *fdNames) next(into []Entry) ([]Entry, error) {
	if n.buf == nil {
		n.buf = nameBufs.Get().(*[32 << 10]byte)
	}
	got, err := unix.Getdents(n.fd, n.buf[:])
	for err == unix.EINTR {
		got, err = unix.Getdents(n.fd, n.buf[:])
	}
	if err != nil {
		return into, err
	}
	if got == 0 {
		return into, io.EOF
	}
	const header = int(unsafe.Offsetof(unix.Dirent{}.Name))
	for buf := n.buf[:got]; len(buf) > header; {
		size := int(binary.NativeEndian.Uint16(buf[unsafe.Offsetof(unix.Dirent{}.Reclen):]))
		if size <= header || size > len(buf) {
			return into, unix.EIO
		}
		name := buf[header:size]
		if i := strings.IndexByte(unsafe.String(&name[0], len(name)), 0); i >= 0 {
			name = name[:i]
		}
		kind := buf[unsafe.Offsetof(unix.Dirent{}.Type)]
		buf = buf[size:]
		if s := string(name); s != "." && s != ".." {
			into = append(into, Entry{s, n.typeOf(s, kind)})
		}
	}
	return into, nil
}

func (n *fdNames) typeOf(name string, kind byte) fs.FileMode {
	if kind == unix.DT_UNKNOWN { // some file systems do not store it in the folder
		var st unix.Stat_t
		if err := unix.Fstatat(n.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return fs.ModeIrregular
		}
		return modeOf(st.Mode).Type()
	}
	return modeOf(uint32(kind) << 12).Type() // DT_x is S_IFx >> 12
}

func (n *fdNames) close() {
	unix.Close(n.fd)
	if n.buf != nil {
		nameBufs.Put(n.buf)
		n.buf = nil
	}
}

func codeOfErrno(err error) Code {
	var e syscall.Errno
	if !errors.As(err, &e) {
		return ""
	}
	switch e {
	case unix.ELOOP, unix.EXDEV:
		return Outside
	case unix.ENOENT, unix.ENOTDIR:
		return NotFound
	case unix.ENAMETOOLONG:
		return PathInvalid
	case unix.ENXIO, unix.ENODEV:
		return NotRegular
	case unix.EAGAIN:
		return Busy
	case unix.EISDIR:
		return IsDir
	}
	return ""
}
