package sandboxtest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// The cell's own files. Everything else in its root is bait, or mounted
// read-only from the host.
const (
	cellDir    = "/cell"
	testFile   = cellDir + "/test"
	attackFile = cellDir + "/attack"
)

// fromHost lists the host paths that a cell mounts read-only.
var fromHost = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
	"/etc/alternatives", "/etc/ssl", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/nsswitch.conf", "/etc/localtime", "/etc/python3", "/etc/python3.11", "/etc/perl"}

var devices = []string{"null", "zero", "full", "random", "urandom", "tty", "vsock", "net/tun"}

// taken is a cloned mount that is not yet attached to the new root.
type taken struct {
	fd   int
	to   string
	dir  bool
	link string
}

// build creates the cell: root folder, devices, network. It runs as the first
// process of the new namespaces, with all capabilities in them.
func build(sp *spec, w *way) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	mounts, err := take(sp)
	if err != nil {
		return err
	}
	const root = "/tmp"
	if err := unix.Mount("cell", root, "tmpfs", 0, "size=1g,mode=0755"); err != nil {
		return fmt.Errorf("root of the cell: %w", err)
	}
	for _, m := range mounts {
		if err := m.put(root); err != nil {
			return fmt.Errorf("%s: %w", m.to, err)
		}
	}
	if err := folders(root); err != nil {
		return err
	}
	if err := systems(root); err != nil {
		return err
	}
	if err := errors.Join(unix.Chdir(root), unix.PivotRoot(".", "."), unix.Unmount(".", unix.MNT_DETACH), unix.Chdir("/")); err != nil {
		return fmt.Errorf("pivot: %w", err)
	}
	if err := network(); err != nil {
		return fmt.Errorf("network: %w", err)
	}
	if err := unix.Sethostname([]byte("victim")); err != nil {
		return err
	}
	if w.tty {
		if sp.TTY, err = terminal(); err != nil {
			return fmt.Errorf("terminal: %w", err)
		}
	}
	if w.prepare != nil {
		if err := w.prepare(sp); err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
	}
	return nil
}

// take clones the mounts from the host before anything covers them.
func take(sp *spec) (out []taken, err error) {
	list := map[string]string{testFile: sp.Test, attackFile: sp.Attack}
	for to, from := range sp.Programs {
		list[to] = from
	}
	for _, p := range fromHost {
		list[p] = p
	}
	for _, d := range devices {
		list["/dev/"+d] = "/dev/" + d
	}
	for to, from := range list {
		st, err := os.Lstat(from)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if st.Mode()&fs.ModeSymlink != 0 {
			link, err := os.Readlink(from)
			if err != nil {
				return nil, err
			}
			out = append(out, taken{fd: -1, to: to, link: link})
			continue
		}
		fd, err := unix.OpenTree(unix.AT_FDCWD, from, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		if err != nil {
			return nil, fmt.Errorf("take %s: %w", from, err)
		}
		if st.Mode()&fs.ModeDevice == 0 {
			if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
				return nil, fmt.Errorf("take %s: %w", from, err)
			}
		}
		out = append(out, taken{fd: fd, to: to, dir: st.IsDir()})
	}
	return out, nil
}

func (m *taken) put(root string) error {
	at := root + m.to
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	switch {
	case m.fd < 0:
		return os.Symlink(m.link, at)
	case m.dir:
		if err := os.Mkdir(at, 0o755); err != nil {
			return err
		}
	default:
		if err := os.WriteFile(at, nil, 0o644); err != nil {
			return err
		}
	}
	defer unix.Close(m.fd)
	return unix.MoveMount(m.fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

func folders(root string) error {
	for dir, mode := range map[string]fs.FileMode{"tmp": 0o1777, "var/tmp": 0o1777, "run": 0o755, "root": 0o700, "home/victim": 0o700, "proc": 0o755, "sys": 0o755,
		"dev/shm": 0o1777, "dev/pts": 0o755, "mnt": 0o755, "opt": 0o755, "srv": 0o755} {
		at := filepath.Join(root, dir)
		if err := os.MkdirAll(at, 0o755); err != nil {
			return err
		}
		if err := os.Chmod(at, mode&0o777|fs.ModeSticky*(mode>>9&1)); err != nil {
			return err
		}
	}
	for to, link := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx"} {
		if err := os.Symlink(link, filepath.Join(root, "dev", to)); err != nil {
			return err
		}
	}
	return nil
}

// systems mounts the kernel's virtual file systems.
func systems(root string) error {
	for _, m := range []struct{ kind, at, data string }{
		{"proc", "proc", ""},
		{"sysfs", "sys", ""},
		{"devpts", "dev/pts", "newinstance,ptmxmode=0666,mode=0620"},
	} {
		if err := unix.Mount(m.kind, filepath.Join(root, m.at), m.kind, unix.MS_NOSUID|unix.MS_NOEXEC, m.data); err != nil {
			return fmt.Errorf("mount %s: %w", m.kind, err)
		}
	}
	return nil
}

// metadata is the address at which clouds serve credentials.
const metadata = "169.254.169.254"

// network brings up loopback with the address of the metadata service, and lets
// every user listen on every port.
func network() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	up := func(name string) error {
		r, err := unix.NewIfreq(name)
		if err != nil {
			return err
		}
		r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
		return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, r)
	}
	if err := up("lo"); err != nil {
		return err
	}
	r, err := unix.NewIfreq("lo:1")
	if err != nil {
		return err
	}
	if err := r.SetInet4Addr([]byte{169, 254, 169, 254}); err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFADDR, r); err != nil {
		return err
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_unprivileged_port_start", []byte("0"), 0)
}

// terminal gives this process a terminal and returns its master side.
func terminal() (int, error) {
	master, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return 0, err
	}
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return 0, err
	}
	n, err := unix.IoctlGetInt(master, unix.TIOCGPTN)
	if err != nil {
		return 0, err
	}
	slave, err := unix.Open("/dev/pts/"+strconv.Itoa(n), unix.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return 0, err
	}
	return master, unix.IoctlSetInt(slave, unix.TIOCSCTTY, 0)
}

// become turns the builder into the judge: the same process, without the rights
// of the cell's root.
func become(sp *spec) error {
	runtime.LockOSThread()
	if sp.AsUser {
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
			return fmt.Errorf("drop the capabilities of the cell: %w", err)
		}
	}
	sp.Test, sp.Attack = testFile, attackFile
	return syscall.Exec(testFile, sp.args(), sp.env("judge"))
}
