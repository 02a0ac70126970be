//go:build linux && (amd64 || arm64)

package pid1

import (
	"syscall"

	"metier/sandbox/native/internal/plan"
)

// workTree returns the workspace as a detached mount, or -1.
func workTree(p *plan.Plan) int {
	attr := mountAttr{set: attrNoSUID | attrNoDev, propagation: syscall.MS_PRIVATE}
	if !p.Work.Writable {
		attr.set |= attrReadOnly
	}
	var tree int
	switch p.Work.How {
	case plan.NoWork:
		return -1
	case plan.FromParent:
		tree = plan.Workspace
	default:
		fd, errno := openPath(atFDCWD, p.Work.Host, false)
		need("openat2", errno, p.Work.Host)
		var st syscall.Stat_t
		must("workspace", syscall.Fstat(fd, &st), p.Work.Host)
		if st.Dev != p.Work.Device || st.Ino != p.Work.Inode || st.Mode&syscall.S_IFMT != syscall.S_IFDIR {
			refuse("the workspace was replaced", syscall.ESTALE, p.Work.Host)
		}
		tree, errno = openTree(fd, "", atEmptyPath|atRecursive)
		need("open_tree", errno, p.Work.Host)
		closefd(fd)
	}
	need("mount_setattr", setattr(tree, "", atEmptyPath|atRecursive, attr), "the workspace")
	return tree
}

// The empty folder and the empty file that are mounted over hidden paths. They are removed from the
// root once it is complete.
const (
	blankDir  = ".empty"
	blankFile = ".empty-file"
)

// workspace attaches the workspace and protects its guarded paths. No path is looked up twice:
// links are rejected, and the mounts cover exactly the opened files.
func workspace(p *plan.Plan, tree int) {
	if tree < 0 {
		return
	}
	at := p.Work.At
	folder(at)
	need("move_mount", moveMount(tree, atFDCWD, rel(at)), at)
	closefd(tree)
	root, errno := openPath(atFDCWD, rel(at), false)
	need("openat2", errno, at)
	if len(p.Work.Guards) > 0 {
		must("root", syscall.Mkdir(blankDir, 0o555), blankDir)
		empty(blankFile, 0o444)
	}
	for _, g := range p.Work.Guards {
		if p.Work.Writable {
			pin(root, g.Path)
		}
		if g.Hidden || p.Work.Writable {
			guard(root, g)
		}
	}
	for _, g := range p.Work.Guards {
		fd, errno := openPath(root, g.Path, true)
		if errno != 0 || (p.Work.Writable || g.Hidden) && !mountRoot(fd) {
			refuse("a guarded path moved", syscall.ESTALE, g.Path)
		}
		closefd(fd)
	}
	if len(p.Work.Guards) > 0 {
		must("root", syscall.Rmdir(blankDir), blankDir)
		must("root", syscall.Unlink(blankFile), blankFile)
	}
	closefd(root)
}

// pin makes each folder above a guarded path a mount. A folder that contains a mount can be
// renamed, but a mount cannot.
func pin(root int, path string) {
	for i := range len(path) {
		if path[i] != '/' {
			continue
		}
		fd := beneath(root, path[:i])
		if !mountRoot(fd) {
			attach(fd, fd, path[:i], mountAttr{})
		}
		closefd(fd)
	}
}

// guard covers a path: with itself, read-only, or with an empty folder or file.
func guard(root int, g plan.Guard) {
	fd := beneath(root, g.Path)
	from := fd
	if g.Hidden {
		var st syscall.Stat_t
		must("workspace", syscall.Fstat(fd, &st), g.Path)
		blank := blankFile
		if st.Mode&syscall.S_IFMT == syscall.S_IFDIR {
			blank = blankDir
		}
		var errno syscall.Errno
		from, errno = openPath(atFDCWD, blank, true)
		need("openat2", errno, blank)
		defer closefd(from)
	}
	attach(from, fd, g.Path, mountAttr{set: attrReadOnly | attrNoSUID | attrNoDev})
	closefd(fd)
}

func beneath(root int, path string) int {
	fd, errno := openPath(root, path, true)
	switch errno {
	case 0:
		return fd
	case syscall.ENOENT, syscall.ENOTDIR, syscall.ELOOP, syscall.EXDEV:
		refuse("a guarded path is a link or not there", errno, path)
	}
	need("openat2", errno, path)
	return -1
}

// attach mounts the tree at from over the file to.
func attach(from, to int, path string, attr mountAttr) {
	tree, errno := openTree(from, "", atEmptyPath|atRecursive)
	need("open_tree", errno, path)
	attr.propagation = syscall.MS_PRIVATE
	need("mount_setattr", setattr(tree, "", atEmptyPath|atRecursive, attr), path)
	need("move_mount", moveMount(tree, to, ""), path)
	closefd(tree)
}
