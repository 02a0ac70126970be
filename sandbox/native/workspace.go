//go:build linux && (amd64 || arm64)

package native

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"metier/sandbox"
	"metier/sandbox/native/internal/plan"
)

// work is a workspace prepared on the host.
type work struct {
	plan  plan.Work
	who   ids
	tree  *os.File // the mount for the first process, or nil
	notes []string
}

func (w *work) close() {
	if w.tree != nil {
		_ = w.tree.Close() // a descriptor of a mount
	}
}

// strict disallows links and leaving the folder.
const strict = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

func openat2(at int, name string, flags, resolve uint64) (int, error) {
	for range 100 { // interrupted by a concurrent rename elsewhere in the tree
		fd, err := unix.Openat2(at, name, &unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: resolve})
		if err != unix.EAGAIN && err != unix.EINTR {
			return fd, err
		}
	}
	return -1, unix.EAGAIN
}

// prepare opens the workspace, chooses the program's IDs, and lists what it cannot change.
func (s *Sandbox) prepare(j sandbox.Job, who ids) (*work, error) {
	w := &work{who: who}
	if j.Workspace == nil {
		return w, nil
	}
	if err := s.openWork(w, j.Workspace); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (s *Sandbox) openWork(w *work, ws *sandbox.Workspace) error {
	dir, err := openat2(unix.AT_FDCWD, ws.Host, unix.O_PATH|unix.O_DIRECTORY, unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_MAGICLINKS)
	switch {
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM):
		return unavailable("openat2", err.Error(), err)
	case descriptors(err):
		return unavailable("file-descriptors", err.Error(), err)
	case err != nil:
		return fmt.Errorf("the workspace %s: %w", ws.Host, err)
	}
	defer unix.Close(dir)
	var st unix.Stat_t
	if err := unix.Fstat(dir, &st); err != nil {
		return fmt.Errorf("the workspace %s: %w", ws.Host, err)
	}
	w.plan = plan.Work{How: plan.ByPath, At: sandbox.WorkspaceDir, Host: ws.Host, Device: st.Dev, Inode: st.Ino, Writable: ws.Writable}
	if w.who.other {
		if err := s.mapWork(w, dir, int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	return w.guard(dir, ws)
}

// mapWork maps the workspace's owner to the program, if this process is root and the program has an
// unused ID.
func (s *Sandbox) mapWork(w *work, dir, uid, gid int) error {
	tree, err := unix.OpenTree(dir, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	switch {
	case err == nil:
		w.tree, w.plan.How = os.NewFile(uintptr(tree), "workspace"), plan.FromParent
		ns, err := s.holders.userns(uid, gid, w.who)
		if err != nil {
			return notStarted(err)
		}
		err = unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(ns.Fd())})
		if err == nil {
			return nil
		}
		return w.unmapped("mount_setattr", err, uid, gid)
	case descriptors(err):
		return primitive("file-descriptors", err)
	}
	return w.unmapped("open_tree", err, uid, gid)
}

// unmapped handles a workspace whose owner cannot be mapped: the program runs as the owner, unless
// that is root.
func (w *work) unmapped(call string, err error, uid, gid int) error {
	switch {
	case errors.Is(err, unix.ENOSYS):
		return unavailable(call, err.Error(), err)
	case uid != 0:
		w.who.uid = uid
		if gid != 0 {
			w.who.gid = gid
		}
		return nil
	case w.plan.Writable:
		return unavailable("idmapped-mounts", "the workspace belongs to root, which no program may be: "+call+": "+err.Error(), err)
	}
	w.notes = append(w.notes, NoteUnmapped)
	return nil
}

// guard lists the protected paths that exist.
func (w *work) guard(dir int, ws *sandbox.Workspace) error {
	hidden := map[string]bool{}
	for _, p := range ws.Hidden {
		hidden[p] = true
	}
	paths := slices.Clone(ws.Hidden)
	if ws.Writable {
		paths = append(paths, ws.ReadOnly...)
	}
	slices.Sort(paths)
	for _, p := range slices.Compact(paths) {
		if slices.ContainsFunc(w.plan.Guards, func(g plan.Guard) bool { return g.Hidden && strings.HasPrefix(p, g.Path+"/") }) {
			continue // hidden by its parent
		}
		fd, err := openat2(dir, p, unix.O_PATH, strict)
		switch {
		case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
			continue
		case errors.Is(err, unix.ELOOP):
			err = errors.New("a symbolic link cannot be guarded; put a folder or a file there")
		case err == nil:
			err = unix.Close(fd)
		}
		if err != nil {
			return fmt.Errorf("the workspace's %s: %w", p, err)
		}
		w.plan.Guards = append(w.plan.Guards, plan.Guard{Path: p, Hidden: hidden[p]})
	}
	return nil
}

func descriptors(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE)
}
