//go:build linux && (amd64 || arm64)

package native

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"metier/sandbox"
	"metier/sandbox/native/internal/plan"
)

// work is a workspace made ready on the host's side.
type work struct {
	plan  plan.Work
	who   ids
	tree  *os.File // the mount for the first process, or nil
	held  []held
	notes []string
}

func (w *work) close() {
	if w.tree != nil {
		_ = w.tree.Close() // a descriptor of a mount
	}
	for _, h := range slices.Backward(w.held) {
		h.release()
	}
}

// strict never follows a link and never leaves.
const strict = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

func openat2(at int, name string, flags, resolve uint64) (int, error) {
	for range 100 { // a rename elsewhere in the tree interrupts it
		fd, err := unix.Openat2(at, name, &unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: resolve})
		if err != unix.EAGAIN && err != unix.EINTR {
			return fd, err
		}
	}
	return -1, unix.EAGAIN
}

// prepare opens the workspace, decides who the program is, and sees to it that
// every guarded path is there.
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
	return w.guard(dir, ws, int(st.Uid), int(st.Gid))
}

// mapWork makes the workspace's owner and the program the same, where this
// process is root and the program is nobody.
func (s *Sandbox) mapWork(w *work, dir, uid, gid int) error {
	tree, err := unix.OpenTree(dir, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if err == nil {
		w.tree, w.plan.How = os.NewFile(uintptr(tree), "workspace"), plan.FromParent
		var ns *os.File
		if ns, err = s.holders.userns(uid, gid, w.who); err == nil {
			err = unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(ns.Fd())})
		}
	}
	switch {
	case err == nil:
		return nil
	case descriptors(err):
		return unavailable("file-descriptors", err.Error(), err)
	case uid != 0: // then the program is the owner
		w.who.uid = uid
		if gid != 0 {
			w.who.gid = gid
		}
		return nil
	case w.plan.Writable:
		return unavailable("idmapped-mounts", "the workspace belongs to root, which no program may be: "+err.Error(), err)
	}
	w.notes = append(w.notes, NoteUnmapped)
	return nil
}

// guard makes the list of what the program cannot change. A path that is not
// there is held by an empty folder at the first part of it that is missing, for
// as long as jobs run that need it.
func (w *work) guard(dir int, ws *sandbox.Workspace, uid, gid int) error {
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
			continue // hidden with what is above it
		}
		there, h, err := hold(dir, p, ws.Writable, uid, gid)
		if err != nil {
			return fmt.Errorf("the workspace's %s: %w", p, err)
		}
		if h.fd >= 0 {
			w.held = append(w.held, h)
		}
		g := plan.Guard{Path: there, Hidden: hidden[p] && there == p}
		if there != "" && !slices.ContainsFunc(w.plan.Guards, func(o plan.Guard) bool { return o.Path == there }) {
			w.plan.Guards = append(w.plan.Guards, g)
		}
	}
	slices.SortFunc(w.plan.Guards, func(a, b plan.Guard) int { return strings.Compare(a.Path, b.Path) })
	return nil
}

// held is a folder that must stay where it is while a job runs. Jobs of this
// and of other processes share a lock on it; the last one to let go removes what
// one of them made.
type held struct {
	parent, fd int // fd -1: nothing is held
	name       string
	made       bool
}

func (h held) release() {
	if h.made {
		// A process that is being forked holds the lock too, until it is another.
		syscall.ForkLock.RLock()
		if unix.Flock(h.fd, unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = unix.Unlinkat(h.parent, h.name, unix.AT_REMOVEDIR) // what is not empty stays
		}
		syscall.ForkLock.RUnlock()
	}
	_ = unix.Close(h.fd)
	if h.parent >= 0 {
		_ = unix.Close(h.parent)
	}
}

// hold finds what there is of the path p, and holds it. Where nothing may be
// written, a path that is not there needs nothing: there is "".
func hold(dir int, p string, writable bool, uid, gid int) (there string, h held, err error) {
	none := held{-1, -1, "", false}
	for range 100 { // until nobody removes what was found
		there := p
		fd, err := openat2(dir, p, unix.O_PATH, strict)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
			if !writable {
				return "", none, nil
			}
			if there, err = placeholder(dir, p, uid, gid); err == nil {
				fd, err = openat2(dir, there, unix.O_PATH, strict)
			}
		}
		switch {
		case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EEXIST):
			continue
		case errors.Is(err, unix.ELOOP):
			return "", none, errors.New("a symbolic link cannot be guarded; put a folder or a file there")
		case err != nil:
			return "", none, err
		}
		h, kept, err := lock(dir, fd, there)
		_ = unix.Close(fd)
		if err != nil {
			return "", none, err
		}
		if kept {
			return there, h, nil
		}
	}
	return "", none, errors.New("it keeps changing")
}

// lock shares the lock on a folder; false: it was removed meanwhile.
func lock(dir, fd int, p string) (held, bool, error) {
	none := held{-1, -1, "", false}
	var st, now unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return none, false, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return none, true, nil
	}
	f, err := openat2(dir, p, unix.O_RDONLY|unix.O_DIRECTORY, strict)
	if errors.Is(err, unix.EACCES) { // not one of ours: those can be read
		return none, true, nil
	}
	if err != nil {
		return none, false, gone(err)
	}
	h := held{-1, f, path.Base(p), st.Mode&(unix.S_ISVTX|0o700) == ours&(unix.S_ISVTX|0o700)}
	if err := unix.Flock(f, unix.LOCK_SH|unix.LOCK_NB); err != nil { // its last holder removes it
		_ = unix.Close(f)
		return none, false, nil
	}
	again, err := openat2(dir, p, unix.O_PATH, strict)
	if err != nil {
		_ = unix.Close(f)
		return none, false, gone(err)
	}
	err = errors.Join(unix.Fstat(f, &st), unix.Fstat(again, &now))
	_ = unix.Close(again)
	if err != nil || st.Ino != now.Ino || st.Dev != now.Dev {
		_ = unix.Close(f)
		return none, false, err
	}
	if h.parent, err = openat2(dir, path.Dir(p), unix.O_PATH|unix.O_DIRECTORY, strict); err != nil {
		_ = unix.Close(f)
		return none, false, err
	}
	return h, true, nil
}

// gone passes errors on that are not about a file that just went away.
func gone(err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	return err
}

// ours is the mode by which a folder is known as a placeholder: nobody makes
// one that is sticky and that its owner cannot write. So one that was left behind
// by a process that was killed goes away with the next job.
const ours = unix.S_ISVTX | 0o555

// placeholder makes an empty folder at the first part of p that is missing; a
// part that is a file is held itself.
func placeholder(dir int, p string, uid, gid int) (string, error) {
	parts := strings.Split(p, "/")
	for i := range parts {
		at := strings.Join(parts[:i+1], "/")
		fd, err := openat2(dir, at, unix.O_PATH, strict)
		if err == nil {
			var st unix.Stat_t
			err = unix.Fstat(fd, &st)
			_ = unix.Close(fd)
			if err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
				return at, nil
			}
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, unix.ENOENT) {
			return "", err
		}
		parent, err := openat2(dir, path.Dir(at), unix.O_PATH|unix.O_DIRECTORY, strict)
		if err != nil {
			return "", err
		}
		defer unix.Close(parent)
		if err := unix.Mkdirat(parent, parts[i], ours); err != nil {
			return "", err
		}
		if os.Geteuid() == 0 {
			err = unix.Fchownat(parent, parts[i], uid, gid, unix.AT_SYMLINK_NOFOLLOW)
		}
		return at, err
	}
	return p, unix.ENOENT // it came into being
}

func descriptors(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE)
}
