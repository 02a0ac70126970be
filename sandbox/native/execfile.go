//go:build linux && (amd64 || arm64)

package native

import (
	"bytes"
	"errors"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// root finds files in the root of a sandbox.
type root struct{ fd int }

// file is a file of a sandbox. The zero file, with the descriptor -1, does not exist.
type file struct {
	fd                    int
	name                  string // after links
	interpreter, argument string // of a script
}

func (f *file) close() {
	if f.fd >= 0 {
		_ = unix.Close(f.fd)
		f.fd = -1
	}
}

// open opens the root, once it is complete.
func (r *root) open(first int) (err error) {
	if r.fd < 0 {
		r.fd, err = unix.Open("/proc/"+strconv.Itoa(first)+"/root", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	}
	return err
}

func (r *root) close() {
	if r.fd >= 0 {
		_ = unix.Close(r.fd)
	}
}

// errHidden is the error for a file that a process can reach and metier cannot.
var errHidden = errors.New("the file cannot be determined")

// find finds the file that a process would start by a path. A file that does not exist is no error.
func (r *root) find(c call, name string) (f file, err error) {
	fd, err := r.lookup(c, name)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.EACCES):
		return file{fd: -1}, nil
	case err != nil:
		return file{fd: -1}, err
	}
	f = file{fd: fd}
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return f, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return f, nil
	}
	if f.name, err = os.Readlink(opened(fd)); err != nil {
		return f, err
	}
	if st.Nlink == 0 {
		f.name = strings.TrimSuffix(f.name, " (deleted)")
	}
	f.interpreter, f.argument, err = script(fd)
	return f, err
}

func opened(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

func (r *root) lookup(c call, name string) (int, error) {
	proc := "/proc/" + strconv.Itoa(c.tid)
	folder := proc + "/cwd"
	if c.at != unix.AT_FDCWD {
		folder = proc + "/fd/" + strconv.Itoa(int(c.at))
	}
	switch {
	case name == "" && !c.empty:
		return -1, unix.ENOENT
	case name == "":
		return direct(folder)
	case name[0] != '/':
		at, err := os.Readlink(folder)
		if err != nil {
			return -1, linked(err)
		}
		name = at + "/" + name
	}
	if link, is := own(name); is && link == "" {
		return -1, errHidden
	} else if is {
		return direct(proc + link)
	}
	fd, err := r.resolve(name, 0)
	switch {
	case err == nil:
		return fd, nil
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.EACCES):
		if r.hidden(name, 40) {
			return -1, errHidden
		}
	}
	return -1, err
}

// direct opens a file through a link of /proc.
func direct(link string) (int, error) {
	fd, err := unix.Open(link, unix.O_PATH|unix.O_CLOEXEC, 0)
	return fd, linked(err)
}

// linked returns the error for a link of /proc: it does not exist, or the process hides it.
func linked(err error) error {
	if err == nil || errors.Is(err, unix.ENOENT) {
		return err
	}
	return errHidden
}

// own returns where a path that each process sees differently leads to, below the folder of the
// process in /proc. It returns "" if that is unknown.
func own(name string) (link string, is bool) {
	if !strings.Contains(name, "..") { // which may follow a link
		name = path.Clean(name)
	}
	for from, to := range map[string]string{"/dev/stdin": "/fd/0", "/dev/stdout": "/fd/1", "/dev/stderr": "/fd/2", "/proc/self/exe": "/exe", "/proc/thread-self/exe": "/exe"} {
		if name == from {
			return to, true
		}
	}
	for _, folder := range []string{"/dev/fd/", "/proc/self/fd/", "/proc/thread-self/fd/"} {
		if n, in := strings.CutPrefix(name, folder); in {
			if _, err := strconv.ParseUint(n, 10, 31); err == nil {
				return "/fd/" + n, true
			}
			return "", true
		}
	}
	return "", name == "/dev/fd" || name == "/proc" || strings.HasPrefix(name, "/proc/")
}

// resolve opens a path in the root.
func (r *root) resolve(name string, flags uint64) (fd int, err error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | flags, Resolve: unix.RESOLVE_IN_ROOT}
	for range 100 { // interrupted by a concurrent rename
		if fd, err = unix.Openat2(r.fd, name, &how); !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
	return -1, err
}

// hidden reports whether a path that does not exist for metier may exist for the process, because a
// link leads to its own part of /proc.
func (r *root) hidden(name string, links int) bool {
	if _, is := own(name); is || links == 0 {
		return true
	}
	at := ""
	parts := strings.Split(name, "/")
	for i, part := range parts {
		if part == "" || part == "." {
			continue
		}
		fd, err := r.resolve(at+"/"+part, unix.O_NOFOLLOW)
		if err != nil {
			return !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.EACCES)
		}
		to, err := os.Readlink(opened(fd))
		var b [unix.PathMax]byte
		n, linkErr := unix.Readlinkat(fd, "", b[:])
		_ = unix.Close(fd)
		switch {
		case err != nil:
			return true
		case strings.HasPrefix(to, "/proc/"):
			return true
		case linkErr != nil: // no link
			at += "/" + part
			continue
		}
		if to = string(b[:n]); !path.IsAbs(to) {
			to = at + "/" + to
		}
		return r.hidden(to+"/"+strings.Join(parts[i+1:], "/"), links-1)
	}
	return false
}

// script returns the interpreter of a script and its one argument, as the kernel reads them.
func script(fd int) (interpreter, argument string, err error) {
	in, err := unix.Open(opened(fd), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", "", err
	}
	defer unix.Close(in)
	b := make([]byte, 256)
	n, err := unix.Pread(in, b, 0)
	for errors.Is(err, unix.EINTR) {
		n, err = unix.Pread(in, b, 0)
	}
	line, is := bytes.CutPrefix(b[:max(n, 0)], []byte("#!"))
	if err != nil || !is {
		return "", "", err
	}
	line, _, _ = bytes.Cut(line, []byte("\n"))
	line, _, _ = bytes.Cut(line, []byte{0})
	text := strings.Trim(string(line), " \t")
	if i := strings.IndexAny(text, " \t"); i >= 0 {
		return text[:i], strings.TrimLeft(text[i:], " \t"), nil
	}
	return text, "", nil
}
