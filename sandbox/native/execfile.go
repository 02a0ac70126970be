//go:build linux && (amd64 || arm64)

package native

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// root finds files in the root of a sandbox.
type root struct {
	fd   int
	top  unix.Stat_t
	proc uint64 // device of its /proc, or 0
}

// file is a file of a sandbox. The zero file, with the descriptor -1, does not exist.
type file struct {
	fd                    int
	names                 []string // the links to it, and its own
	interpreter, argument string   // of a script
	loader                string   // of an ELF file
}

func (f *file) close() {
	if f.fd >= 0 {
		_ = unix.Close(f.fd)
		f.fd = -1
	}
}

// open opens the root, once it is complete.
func (r *root) open(first int) error {
	if r.fd >= 0 {
		return nil
	}
	fd, err := unix.Open("/proc/"+strconv.Itoa(first)+"/root", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	var proc unix.Stat_t
	switch err := unix.Fstatat(fd, "proc", &proc, unix.AT_SYMLINK_NOFOLLOW); {
	case err == nil:
		r.proc = proc.Dev
	case !errors.Is(err, unix.ENOENT):
		return errors.Join(err, unix.Close(fd))
	}
	if err := unix.Fstat(fd, &r.top); err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	r.fd = fd
	return nil
}

func (r *root) close() {
	if r.fd >= 0 {
		_ = unix.Close(r.fd)
	}
}

// errHidden is the error for a file that a process can reach and metier cannot.
var errHidden = errors.New("the file cannot be determined")

// find finds the file that a process would start by a path. A file that does not exist is no error.
// One in a folder that is closed to metier is, because the process may be allowed to enter it.
func (r *root) find(c call, name string) (f file, err error) {
	fd, links, err := r.lookup(c, name)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENAMETOOLONG):
		return file{fd: -1}, nil
	case errors.Is(err, unix.EACCES):
		return file{fd: -1}, errHidden
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
	own, err := os.Readlink(opened(fd))
	if err != nil {
		return f, err
	}
	if st.Nlink == 0 {
		own = strings.TrimSuffix(own, " (deleted)")
	}
	f.names = append(links, own)
	f.interpreter, f.argument, err = script(fd)
	if err == nil && f.interpreter == "" {
		f.loader, err = loaderOf(fd)
	}
	return f, err
}

func opened(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// lookup opens the file at a path. A relative path starts in the folder itself, which may have no path
// any more.
func (r *root) lookup(c call, name string) (fd int, links []string, err error) {
	folder := "/proc/" + strconv.Itoa(c.tid)
	if c.at == unix.AT_FDCWD {
		folder += "/cwd"
	} else {
		folder += "/fd/" + strconv.Itoa(int(c.at))
	}
	switch {
	case name == "" && !c.empty:
		return -1, nil, unix.ENOENT
	case name == "":
		fd, err = direct(folder)
		return fd, nil, err
	case name[0] == '/':
		fd, err = r.start()
	default:
		fd, err = direct(folder)
	}
	if err != nil {
		return -1, nil, err
	}
	return r.walk(c.tid, fd, name)
}

// start opens the root again.
func (r *root) start() (int, error) {
	return unix.Openat(r.fd, ".", unix.O_PATH|unix.O_CLOEXEC, 0)
}

// mostLinks is the maximum number of links in a path, as the kernel's.
const mostLinks = 40

// walk follows a path as a process would. It reads links itself, because absolute ones lead to the
// root of the sandbox, and those in /proc depend on the process.
type walk struct {
	root  *root
	tid   int
	at    int // descriptor of a folder or, at the end, a file
	parts []string
	links int
	names []string // of the links that lead to the file itself
}

// walk opens a path in a folder, which it closes.
func (r *root) walk(tid, at int, name string) (int, []string, error) {
	w := walk{root: r, tid: tid, at: at, parts: strings.Split(name, "/")}
	for len(w.parts) > 0 {
		if err := w.step(); err != nil {
			_ = unix.Close(w.at)
			return -1, nil, err
		}
	}
	return w.at, w.names, nil
}

func (w *walk) step() error {
	var here, there unix.Stat_t
	if err := unix.Fstat(w.at, &here); err != nil {
		return err
	}
	part := w.parts[0]
	w.parts = w.parts[1:]
	switch {
	case here.Mode&unix.S_IFMT != unix.S_IFDIR:
		return unix.ENOTDIR
	case part == "", part == ".", part == ".." && here.Dev == w.root.top.Dev && here.Ino == w.root.top.Ino:
		return nil
	case here.Dev == w.root.proc:
		return errHidden // a process has opened a folder there
	}
	next, err := unix.Openat(w.at, part, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	err = unix.Fstat(next, &there)
	switch {
	case err == nil && there.Dev == w.root.proc:
		err = w.ofProcess()
	case err == nil && there.Mode&unix.S_IFMT == unix.S_IFLNK:
		err = w.follow(next, part)
	case err == nil:
		return w.move(next, nil)
	}
	_ = unix.Close(next)
	return err
}

// move goes to a file or folder that was opened.
func (w *walk) move(next int, err error) error {
	if err == nil {
		_ = unix.Close(w.at)
		w.at = next
	}
	return err
}

// follow continues at the target of a link.
func (w *walk) follow(link int, name string) error {
	var b [unix.PathMax]byte
	n, err := unix.Readlinkat(link, "", b[:])
	if err != nil {
		return err
	}
	if w.links++; w.links > mostLinks {
		return unix.ELOOP
	}
	if len(w.parts) == 0 {
		folder, err := os.Readlink(opened(w.at))
		if err != nil {
			return err
		}
		w.names = append(w.names, strings.TrimSuffix(folder, "/")+"/"+name)
	}
	target := string(b[:n])
	w.parts = append(strings.Split(target, "/"), w.parts...)
	if strings.HasPrefix(target, "/") {
		return w.move(w.root.start())
	}
	return nil
}

// ofProcess continues in /proc, where each process sees its own program and files.
func (w *walk) ofProcess() error {
	parts := slices.DeleteFunc(w.parts, func(p string) bool { return p == "" || p == "." })
	if len(parts) < 2 || parts[0] != "self" && parts[0] != "thread-self" {
		return errHidden
	}
	pid := w.tid
	if parts[0] == "self" {
		pid = leader(pid)
	}
	folder := "/proc/" + strconv.Itoa(pid)
	if parts[1] == "exe" {
		w.parts = parts[2:]
		return w.move(direct(folder + "/exe"))
	}
	if parts[1] == "fd" && len(parts) > 2 {
		if n, err := strconv.ParseUint(parts[2], 10, 31); err == nil {
			w.parts = parts[3:]
			return w.move(direct(folder + "/fd/" + strconv.FormatUint(n, 10)))
		}
	}
	return errHidden
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
	text, is := bytes.CutPrefix(b[:max(n, 0)], []byte("#!"))
	if err != nil || !is {
		return "", "", err
	}
	line, _, whole := bytes.Cut(text, []byte("\n"))
	if !whole && n == len(b) {
		line = line[:len(line)-1] // the kernel uses the last byte for the end
	}
	line, _, _ = bytes.Cut(line, []byte{0})
	words := strings.Trim(string(line), " \t")
	if i := strings.IndexAny(words, " \t"); i >= 0 {
		return words[:i], strings.TrimLeft(words[i:], " \t"), nil
	}
	return words, "", nil
}
