package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

var _ = learn(map[string]func([]string) error{
	"args":     args,
	"environ":  environ,
	"ok":       func(a []string) error { fmt.Println(a[0]); return nil },
	"cat":      cat,
	"cat-late": func(a []string) error { hold(); return cat(a) },
	"ls":       ls,
	"scan":     scan,
	"set":      func(a []string) error { return os.WriteFile(a[0], []byte(a[1]), 0) },
	"write":    func(a []string) error { return write(a[0]) },
	"plant":    plant,
	"replant":  replant,
	"peek":     peek,
	"handle":   handle,
	"mknod":    holding(mknod),
	"setid":    setid,
	"sysctl":   sysctl,
	"register": register,
	"fds":      fds,
	"linger":   linger,
	"count":    count,
})

// args prints its arguments quoted, so that they cannot be confused.
func args(a []string) error {
	for _, s := range a {
		fmt.Printf("%q\n", s)
	}
	return nil
}

func environ([]string) error {
	for _, s := range os.Environ() {
		fmt.Printf("%q\n", s)
	}
	return nil
}

func cat(a []string) error {
	var failed error
	for _, p := range a {
		b, err := os.ReadFile(p)
		if err != nil {
			failed = err
			continue
		}
		fmt.Printf("%s\n", b)
	}
	return failed
}

func ls(a []string) error {
	list, err := os.ReadDir(a[0])
	for _, e := range list {
		fmt.Println(e.Name())
	}
	return err
}

// scan searches every file it can open, environments and command lines of other
// processes, and file names for a word.
func scan(a []string) error {
	word := []byte(a[0])
	return filepath.WalkDir("/", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if strings.Contains(p, a[0]) {
			fmt.Println("name", p)
		}
		depth := strings.Count(p, "/")
		switch {
		case d.IsDir() && (p == "/usr" || p == "/sys" || p == "/skills/attack" || strings.HasPrefix(p, "/proc/") && (depth > 2 || !strings.ContainsAny(d.Name()[:1], "123456789"))):
			return fs.SkipDir
		case strings.HasPrefix(p, "/proc/") && d.Name() != "environ" && d.Name() != "cmdline":
			return nil
		case !d.Type().IsRegular():
			return nil
		}
		f, err := os.Open(p)
		if err != nil {
			return nil
		}
		defer f.Close()
		b, _ := io.ReadAll(io.LimitReader(f, 1<<16))
		for rest := b; ; {
			i := bytes.Index(rest, word)
			if i < 0 {
				return nil
			}
			fmt.Printf("%s %q\n", p, rest[i:min(len(rest), i+64)])
			rest = rest[i+len(word):]
		}
	})
}

// write changes or creates a file, with all the rights of its owner.
func write(p string) error {
	_ = os.Chmod(filepath.Dir(p), 0o700)
	_ = os.Chmod(p, 0o700)
	if err := os.WriteFile(p, []byte("harmed\n"), 0o755); err != nil {
		return err
	}
	fmt.Println("WROTE", p)
	return nil
}

// plant tries to write each path and then holds, if one was written.
func plant(a []string) error {
	var failed error
	done := false
	for _, p := range a {
		if err := write(p); err != nil {
			failed = err
		} else {
			done = true
		}
	}
	if done {
		hold()
	}
	return failed
}

// replant creates a file in a folder that must not change, by moving a folder
// above it away: DIR SUB FILE.
func replant(a []string) error {
	dir, sub := a[0], filepath.Join(a[0], a[1])
	for _, move := range []func() error{
		func() error { return os.Rename(dir, dir+".away") },
		func() error { return os.Rename(sub, sub+".away") },
		func() error { return os.RemoveAll(sub) },
		func() error { return os.RemoveAll(dir) },
	} {
		if err := move(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	if err := os.MkdirAll(sub, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return write(filepath.Join(sub, a[2]))
}

// peek moves a folder and reads a file at its new path: FOLDER FILE.
func peek(a []string) error {
	to := a[0] + ".away"
	if err := os.Rename(a[0], to); err != nil {
		fmt.Fprintln(os.Stderr, err)
		to = a[0]
	}
	return cat([]string{filepath.Join(to, a[1])})
}

// handle opens a folder by its handle, without a path, and reads a file in it:
// FOLDER TYPE HANDLE NAME.
func handle(a []string) error {
	mount, err := unix.Open(a[0], unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	kind, err := strconv.ParseInt(a[1], 10, 32)
	if err != nil {
		return err
	}
	var b []byte
	if _, err := fmt.Sscanf(a[2], "%x", &b); err != nil {
		return err
	}
	dir, err := unix.OpenByHandleAt(mount, unix.NewFileHandle(int32(kind), b), unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	fd, err := unix.Openat(dir, a[3], unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	return show(os.NewFile(uintptr(fd), "handle"))
}

func show(f *os.File) error {
	b, err := io.ReadAll(io.LimitReader(f, 1<<16))
	fmt.Printf("%s\n", b)
	return err
}

// setid tries every way to give a file the set-user-ID and set-group-ID bits: FOLDER.
func setid(a []string) error {
	const mode = 0o6755
	flags := unix.O_WRONLY | unix.O_CREAT
	unix.Umask(0)
	file := func(name string) string { return filepath.Join(a[0], name) }
	opened := func(fd int, err error) error {
		if err == nil {
			err = unix.Close(fd)
		}
		return err
	}
	changed := func(name string, change func(fd int, path string) error) error {
		f, err := os.Create(file(name))
		if err != nil {
			return err
		}
		defer f.Close()
		return change(int(f.Fd()), f.Name())
	}
	return errors.Join(
		opened(unix.Open(file("open"), flags, mode)),
		opened(unix.Openat2(unix.AT_FDCWD, file("openat2"), &unix.OpenHow{Flags: uint64(flags), Mode: mode})),
		opened(unix.Creat(file("creat"), mode)),
		unix.Mknod(file("mknod"), unix.S_IFREG|mode, 0),
		unix.Mkdir(file("mkdir"), mode),
		changed("chmod", func(_ int, path string) error { return unix.Chmod(path, mode) }),
		changed("fchmod", func(fd int, _ string) error { return unix.Fchmod(fd, mode) }),
		changed("fchmodat", func(_ int, path string) error { return unix.Fchmodat(unix.AT_FDCWD, path, mode, 0) }),
		changed("fchmodat2", func(_ int, path string) error {
			return unix.Fchmodat(unix.AT_FDCWD, path, mode, unix.AT_SYMLINK_NOFOLLOW)
		}),
		changed("chmod, with a high bit", func(_ int, path string) error {
			at, err := unix.BytePtrFromString(path)
			if err != nil {
				return err
			}
			here := unix.AT_FDCWD
			if _, _, e := unix.Syscall(unix.SYS_FCHMODAT, uintptr(here), uintptr(unsafe.Pointer(at)), 1<<32|mode); e != 0 {
				return e
			}
			return nil
		}),
	)
}

func mknod(a []string) error {
	return unix.Mknod(a[0], unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5)))
}

// sysctl writes the current content back to a file in /proc, so that a success
// changes nothing.
func sysctl(a []string) error {
	b, err := os.ReadFile(a[0])
	if err != nil {
		return err
	}
	f, err := os.OpenFile(a[0], os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Write(b)
	return err
}

// register registers an interpreter for a file type with the kernel.
func register(a []string) error {
	dir := "/proc/sys/fs/binfmt_misc"
	if _, err := os.Stat(dir + "/register"); err != nil {
		dir = a[0]
		if err := unix.Mount("binfmt_misc", dir, "binfmt_misc", 0, ""); err != nil {
			return err
		}
	}
	return os.WriteFile(dir+"/register", []byte(":"+a[1]+":M::METIERXX::/tmp/evil:"), 0)
}

// fds prints each descriptor beyond the first three, and what can be read from
// it.
func fds([]string) error {
	for fd := 3; fd < 1024; fd++ {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) != nil {
			continue
		}
		link, _ := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
		if strings.HasPrefix(link, "anon_inode:[event") {
			continue // opened by the Go runtime
		}
		b := make([]byte, 256)
		n, _ := unix.Pread(fd, b, 0)
		fmt.Printf("fd %d %o %s %q\n", fd, st.Mode, link, b[:max(n, 0)])
	}
	return nil
}

// linger sleeps for some seconds and then writes a file.
func linger(a []string) error {
	s, err := strconv.ParseFloat(a[0], 64)
	if err != nil {
		return err
	}
	time.Sleep(time.Duration(s * float64(time.Second)))
	if len(a) > 1 {
		return write(a[1])
	}
	return nil
}

func count([]string) error {
	n, err := io.Copy(io.Discard, stdin)
	fmt.Println(n)
	return err
}
