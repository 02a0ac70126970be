//go:build linux && (amd64 || arm64)

package pid1

import (
	"syscall"
	"unsafe"

	"metier/sandbox/native/internal/plan"
)

// over is where the new root is mounted at first: a folder that exists on every host.
const over = "/proc"

// shown is a host path that is visible in the new root.
type shown struct {
	path string
	tree int    // its mount, or -1 for a link
	to   string // target of a link
	dir  bool
}

// build creates an empty root, fills it, and switches to it. The host's trees are cloned before
// anything covers them.
func build(p *plan.Plan) {
	var all []shown
	for _, path := range p.Visible {
		if s, ok := clone(path, mountAttr{set: attrReadOnly | attrNoSUID | attrNoDev, propagation: syscall.MS_PRIVATE}); ok {
			all = append(all, s)
		}
	}
	work := workTree(p)
	must("mount", syscall.Mount("tmpfs", over, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV,
		"mode=755,size="+itoa(p.RootBytes)+",nr_inodes="+itoa(p.RootFiles)), "the root")
	must("mount", syscall.Chdir(over), "the root")
	must("mount", syscall.Mount("", ".", "", syscall.MS_PRIVATE, ""), "the root")
	for _, d := range p.Dirs {
		folder(d)
	}
	for _, s := range all {
		show(s)
	}
	for _, d := range p.Devices {
		device(d)
	}
	for _, l := range p.Links {
		above(l.Path)
		must("root", syscall.Symlink(l.To, rel(l.Path)), l.Path)
	}
	for i := range p.Files {
		write(&p.Files[i])
	}
	must("proc", syscall.Mount("proc", "proc", "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, "subset=pid,hidepid=invisible"), "")
	must("tmpfs", syscall.Mount("tmpfs", "tmp", "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV,
		"mode=1777,size="+itoa(p.Scratch)+",nr_inodes="+itoa(p.ScratchMax)), "/tmp")
	workspace(p, work)
	must("pivot_root", syscall.PivotRoot(".", "."), "")
	must("umount", syscall.Unmount(".", mntDetach), "the host's root")
	must("pivot_root", syscall.Chdir("/"), "")
	need("mount_setattr", setattr(atFDCWD, "/", 0, mountAttr{set: attrReadOnly}), "the root")
}

// clone clones a host path as a separate mount. It returns false if the path does not exist.
func clone(path string, attr mountAttr) (shown, bool) {
	var st syscall.Stat_t
	switch err := syscall.Lstat(path, &st); err {
	case nil:
	case syscall.ENOENT, syscall.ENOTDIR:
		return shown{}, false
	default:
		fail("stat", err, path)
	}
	switch st.Mode & syscall.S_IFMT {
	case syscall.S_IFLNK:
		b := make([]byte, 4096)
		n, err := syscall.Readlink(path, b)
		must("readlink", err, path)
		return shown{path, -1, string(b[:n]), false}, true
	case syscall.S_IFDIR, syscall.S_IFREG:
	default:
		fail("visible", syscall.EINVAL, path)
	}
	fd, errno := openPath(atFDCWD, path, false)
	need("openat2", errno, path)
	tree, errno := openTree(fd, "", atEmptyPath|atRecursive)
	need("open_tree", errno, path)
	closefd(fd)
	need("mount_setattr", setattr(tree, "", atEmptyPath|atRecursive, attr), path)
	return shown{path, tree, "", st.Mode&syscall.S_IFMT == syscall.S_IFDIR}, true
}

// show attaches a clone at the same path of the new root.
func show(s shown) {
	switch {
	case s.tree < 0:
		above(s.path)
		must("root", syscall.Symlink(s.to, rel(s.path)), s.path)
		return
	case s.dir:
		folder(s.path)
	default:
		above(s.path)
		empty(rel(s.path), 0o444)
	}
	need("move_mount", moveMount(s.tree, atFDCWD, rel(s.path)), s.path)
	closefd(s.tree)
}

// device binds a device of the host. It verifies the result: any other file would be a writable
// file of the host.
func device(d plan.Device) {
	to := rel(d.Path)
	empty(to, 0o444)
	must("devices", syscall.Mount(d.Path, to, "", syscall.MS_BIND, ""), d.Path)
	var st syscall.Stat_t
	must("devices", syscall.Lstat(to, &st), d.Path)
	if st.Mode&syscall.S_IFMT != syscall.S_IFCHR || st.Rdev != d.Number {
		fail("devices", syscall.ENODEV, d.Path)
	}
}

// rel converts an absolute path to one relative to the new root, which is the working folder. The
// only links in the new root come from the plan or the host's /, and nothing is written below them.
func rel(path string) string {
	if path == "/" {
		return "."
	}
	return path[1:]
}

// above creates the parent folders of path.
func above(path string) {
	for i := len(path) - 1; i > 0; i-- {
		if path[i] == '/' {
			folder(path[:i])
			return
		}
	}
}

// folder creates a folder and its parents.
func folder(path string) {
	switch err := syscall.Mkdir(rel(path), 0o755); err {
	case nil, syscall.EEXIST:
	case syscall.ENOENT:
		above(path)
		must("root", syscall.Mkdir(rel(path), 0o755), path)
	default:
		fail("root", err, path)
	}
}

func empty(path string, mode uint32) {
	fd, err := syscall.Open(path, syscall.O_WRONLY|syscall.O_CREAT|syscall.O_EXCL|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, mode)
	must("root", err, path)
	closefd(fd)
}

func write(f *plan.File) {
	above(f.Path)
	mode := uint32(0o444)
	if f.Exec {
		mode = 0o555
	}
	fd, err := syscall.Open(rel(f.Path), syscall.O_WRONLY|syscall.O_CREAT|syscall.O_EXCL|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, mode)
	must("stage", err, f.Path)
	for b := f.Data; len(b) > 0; {
		n, errno := call(syscall.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), 0, 0, 0)
		if errno == syscall.EINTR {
			continue
		}
		need("stage", errno, f.Path)
		b = b[n:]
	}
	closefd(fd)
}

func itoa(n uint64) string {
	var b [20]byte
	i := len(b)
	for {
		i--
		b[i] = byte('0' + n%10)
		if n /= 10; n == 0 {
			return string(b[i:])
		}
	}
}
