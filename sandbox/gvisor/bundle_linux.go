package gvisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"metier/sandbox"
	"metier/sandbox/gvisor/internal/guest"
)

// prefix is the name prefix of job folders, which are private to the user.
const prefix = "metier-gvisor-"

// bundle is a job's folder on the host: the input and state of runsc, and the empty root for
// mounts. It holds no data of the job.
type bundle struct {
	dir  string
	lock *os.File // held while the job's owner lives
}

func (b *bundle) path(name string) string { return filepath.Join(b.dir, name) }

// spec is the part of an OCI runtime specification that is used.
type spec struct {
	Version string `json:"ociVersion"`
	Process struct {
		User         struct{}            `json:"user"`
		Args         []string            `json:"args"`
		Env          []string            `json:"env"`
		Cwd          string              `json:"cwd"`
		Capabilities map[string][]string `json:"capabilities"`
	} `json:"process"`
	Root struct {
		Path     string `json:"path"`
		ReadOnly bool   `json:"readonly"`
	} `json:"root"`
	Hostname string  `json:"hostname"`
	Mounts   []mount `json:"mounts"`
	Linux    struct {
		Namespaces []namespace `json:"namespaces"`
	} `json:"linux"`
}

type mount struct {
	Destination string   `json:"destination"`
	Type        string   `json:"type"`
	Source      string   `json:"source"`
	Options     []string `json:"options,omitempty"`
}

type namespace struct {
	Type string `json:"type"`
}

// capabilities are those of the first process, valid only within gVisor's kernel. The program has
// none.
var capabilities = []string{"CAP_SYS_ADMIN", "CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_NET_ADMIN"}

// newBundle creates the folder of one job.
func (s *Sandbox) newBundle(j sandbox.Job, w *work) (*bundle, error) {
	dir, err := os.MkdirTemp(s.o.Temp, prefix)
	if err != nil {
		return nil, unavailable("temporary-folder", err.Error(), err)
	}
	b := &bundle{dir: dir}
	if err := b.fill(j, w, s.o.Visible); err != nil {
		s.discard(b.remove)
		if err = short(err); errors.As(err, new(*sandbox.Unavailable)) {
			return nil, err
		}
		return nil, unavailable("temporary-folder", err.Error(), err)
	}
	return b, nil
}

func (b *bundle) fill(j sandbox.Job, w *work, visible []string) error {
	var err error
	if b.lock, err = os.OpenFile(b.path("lock"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return err
	}
	if err := syscall.Flock(int(b.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return err
	}
	for _, d := range []string{"state", "root", "root/proc", "root/dev", "root/sys", "root/tmp", "root/etc", "root" + guest.Hide, "root" + sandbox.SkillsDir, "root" + sandbox.WorkspaceDir} {
		if err := os.Mkdir(b.path(d), 0o755); err != nil {
			return err
		}
	}
	if err := os.Chmod(b.path("state"), 0o700); err != nil {
		return err
	}
	sp := spec{Version: "1.0.2", Hostname: "sandbox", Mounts: []mount{{"/proc", "proc", "proc", nil}}}
	sp.Process.Args, sp.Process.Env, sp.Process.Cwd = []string{guest.First}, []string{"GOMAXPROCS=2", "GOTRACEBACK=none"}, "/"
	sp.Process.Capabilities = map[string][]string{"bounding": capabilities, "effective": capabilities, "permitted": capabilities}
	sp.Root.Path, sp.Root.ReadOnly = "root", true
	for _, n := range []string{"pid", "network", "ipc", "uts", "mount"} {
		sp.Linux.Namespaces = append(sp.Linux.Namespaces, namespace{n})
	}
	for _, p := range visible {
		m, err := b.show(p)
		if err != nil {
			return err
		}
		if m.Source != "" {
			sp.Mounts = append(sp.Mounts, m)
		}
	}
	if j.Workspace != nil {
		how := "ro"
		if j.Workspace.Writable {
			how = "rw"
		}
		sp.Mounts = append(sp.Mounts, mount{sandbox.WorkspaceDir, "bind", j.Workspace.Host, []string{"rbind", how, "nosuid", "nodev"}})
	}
	for name, text := range etc(w) {
		if err := os.WriteFile(b.path("root/etc/"+name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	text, err := json.MarshalIndent(sp, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(b.path("config.json"), text, 0o600)
}

// show creates the mount point for a host path in the root. It copies links, and skips missing
// paths.
func (b *bundle) show(p string) (mount, error) {
	at := b.path("root" + p)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return mount{}, err
	}
	info, err := os.Lstat(p)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return mount{}, nil
	case err != nil:
		return mount{}, err
	case info.Mode()&fs.ModeSymlink != 0:
		to, err := os.Readlink(p)
		if err != nil {
			return mount{}, err
		}
		return mount{}, os.Symlink(to, at)
	case info.IsDir():
		err = os.MkdirAll(at, 0o755)
	case info.Mode().IsRegular():
		err = os.WriteFile(at, nil, 0o644)
	default:
		err = fmt.Errorf("%s is neither file nor folder", p)
	}
	return mount{p, "bind", p, []string{"rbind", "ro", "nosuid", "nodev"}}, err
}

// etc returns the generated files in /etc.
func etc(w *work) map[string]string {
	passwd := fmt.Sprintf("skill:x:%d:%d::/tmp:/bin/sh\n", w.uid, w.gid)
	group := fmt.Sprintf("skill:x:%d:\n", w.gid)
	if w.uid != 0 {
		passwd, group = "root:x:0:0::/nonexistent:/bin/false\n"+passwd, "root:x:0:\n"+group
	}
	return map[string]string{"passwd": passwd, "group": group, "hosts": "127.0.0.1 localhost\n", "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n"}
}

// remove deletes the folder unless something, such as a workspace, is still mounted in it. It
// reports whether the folder is gone.
func (b *bundle) remove() (gone bool) {
	gone = !mounted(b.dir) && os.RemoveAll(b.dir) == nil
	if b.lock != nil {
		_ = b.lock.Close()
		b.lock = nil
	}
	return gone
}

// mounted reports whether there is, or may be, a mount at or below dir.
func mounted(dir string) bool {
	list, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return true
	}
	real, err := filepath.EvalSymlinks(dir)
	return err != nil || strings.Contains(string(list), " "+strings.ReplaceAll(real, " ", `\040`))
}

// maxSwept is the maximum number of leftover folders that one start removes.
const maxSwept = 1000

// sweep removes the folders of jobs whose owner was killed: folders of the current user, older than
// a minute, and with no lock held.
func (s *Sandbox) sweep(now time.Time) {
	names, err := filepath.Glob(filepath.Join(s.o.Temp, prefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range names[:min(len(names), maxSwept)] {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || now.Sub(info.ModTime()) < time.Minute {
			continue
		}
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() || info.Mode().Perm() != 0o700 {
			continue
		}
		lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		b := &bundle{dir: dir, lock: lock}
		if lock != nil && syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
			_ = lock.Close()
			continue
		}
		s.o.Log.Info("a folder that a killed job left is removed", "folder", dir)
		b.remove()
	}
}
