//go:build linux && (amd64 || arm64)

package native

import (
	"errors"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// places counts the jobs of one sandbox that hold a folder.
type places struct {
	mu   sync.Mutex
	jobs map[[2]uint64]int // by device and inode
}

// held is a folder that must stay where it is while a job runs. Jobs of this
// and of other processes share a lock on it; the last one to let go removes what
// one of them made.
type held struct {
	parent, fd int // fd -1: nothing is held
	key        [2]uint64
	name       string
	made       bool
}

// briefly is how often something is tried that is in the way for a moment, once
// a millisecond: a process that is being forked holds a lock until it is another.
const briefly = 50

func (pl *places) release(h held) {
	pl.mu.Lock()
	pl.jobs[h.key]--
	last := pl.jobs[h.key] == 0
	if last {
		delete(pl.jobs, h.key)
	}
	pl.mu.Unlock()
	for try := 0; last && h.made && try < briefly; try++ {
		if unix.Flock(h.fd, unix.LOCK_EX|unix.LOCK_NB) == nil {
			if h.still() {
				_ = unix.Unlinkat(h.parent, h.name, unix.AT_REMOVEDIR) // what is not empty stays
			}
			break
		}
		time.Sleep(time.Millisecond)
	}
	_ = unix.Close(h.fd)
	_ = unix.Close(h.parent)
}

// still reports whether the name is that of the folder that is held: a lock that
// could not be made exclusive is lost, so another may have removed it since, and a
// third made one anew, which is that one's.
func (h held) still() bool {
	var st unix.Stat_t
	return unix.Fstatat(h.parent, h.name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && h.key == [2]uint64{st.Dev, st.Ino}
}

// hold finds what there is of the path p, and holds it. Where nothing may be
// written, a path that is not there needs nothing: there is "".
func (pl *places) hold(dir int, p string, writable bool, uid, gid int) (there string, h held, err error) {
	none := held{parent: -1, fd: -1}
	for range briefly { // until nobody removes what was found
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
		h, kept, err := pl.lock(dir, fd, there)
		_ = unix.Close(fd)
		if err != nil {
			return "", none, err
		}
		if kept {
			return there, h, nil
		}
		time.Sleep(time.Millisecond)
	}
	return "", none, errors.New("it keeps changing")
}

// lock shares the lock on a folder; false: it was removed meanwhile.
func (pl *places) lock(dir, fd int, p string) (held, bool, error) {
	none := held{parent: -1, fd: -1}
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
	h := held{-1, f, [2]uint64{st.Dev, st.Ino}, path.Base(p), isOurs(st.Mode)}
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
	pl.mu.Lock()
	defer pl.mu.Unlock()
	if pl.jobs == nil {
		pl.jobs = map[[2]uint64]int{}
	}
	pl.jobs[h.key]++
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

func isOurs(mode uint32) bool { // whatever the umask was
	const sure = unix.S_IFMT | unix.S_ISVTX | 0o700
	return mode&sure == unix.S_IFDIR|ours&sure
}

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
			if err == nil && (st.Mode&unix.S_IFMT != unix.S_IFDIR || isOurs(st.Mode)) {
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
