package guest

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// hide is where the first process keeps what the program must not access. It is covered before the
// program starts.
const (
	hide  = Hide
	group = hide + "/pids"
	join  = group + "/job/cgroup.procs"
)

// build creates what runsc does not: scratch folders, trees, guards, and the cgroup that limits
// processes. None of it is visible on the host.
func build(p *Plan) {
	opts := fmt.Sprintf("mode=1777,size=%d,nr_inodes=%d", p.Scratch, p.Files)
	for _, dir := range []string{"/tmp", "/dev/shm"} {
		must("tmpfs", syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, opts))
	}
	must("tmpfs", syscall.Mount("tmpfs", "/skills", "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=755"))
	for _, t := range p.Trees {
		stage(t, p.Owner)
	}
	must("tmpfs", syscall.Mount("", "/skills", "", syscall.MS_REMOUNT|syscall.MS_RDONLY|syscall.MS_NOSUID|syscall.MS_NODEV, ""))
	must("tmpfs", syscall.Mount("tmpfs", hide, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=700"))
	guard(p)
	must("cgroup", os.Mkdir(group, 0o700))
	must("cgroup", syscall.Mount("cgroup2", group, "cgroup2", 0, ""))
	// A cgroup with child groups must not contain processes, so this process moves out.
	must("cgroup", os.Mkdir(group+"/first", 0o700))
	must("cgroup", os.WriteFile(group+"/first/cgroup.procs", []byte("1"), 0))
	must("cgroup", os.WriteFile(group+"/cgroup.subtree_control", []byte("+pids"), 0))
	must("cgroup", os.Mkdir(path.Dir(join), 0o700))
	must("cgroup", os.WriteFile(path.Dir(join)+"/pids.max", fmt.Append(nil, p.Processes), 0))
	must("cgroup", give(group, p.Owner))
}

// give changes the owner of everything in a folder. The program may have the ID of the process that
// created it, and could lift its limits if it ever saw the files.
func give(dir string, owner int) error {
	return filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(name, owner, -1)
	})
}

// stage writes a tree. Its files are owned by an ID that the program cannot assume.
func stage(t Tree, owner int) {
	made := map[string]bool{"/skills": true}
	folder := func(dir string) {
		var above []string
		for d := dir; !made[d]; d = path.Dir(d) {
			above, made[d] = append(above, d), true
		}
		for i := len(above) - 1; i >= 0; i-- {
			if err := os.Mkdir(above[i], 0o755); !os.IsExist(err) {
				must("stage", err)
				must("stage", os.Chown(above[i], owner, owner))
			}
		}
	}
	folder(t.Path)
	for _, f := range t.Files {
		name := t.Path + "/" + f.Path
		folder(path.Dir(name))
		mode := os.FileMode(0o444)
		if f.Exec {
			mode = 0o555
		}
		w, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, mode)
		must("stage", err)
		_, err = w.Write(f.data)
		must("stage", err)
		must("stage", w.Chown(owner, owner))
		must("stage", w.Close())
	}
}

const workspace = "/workspace"

// guard protects paths of the workspace from the program. Each parent folder becomes a mount too: a
// folder that contains a mount can be renamed, but a mount cannot.
func guard(p *Plan) {
	if len(p.Guards) == 0 {
		return
	}
	must("tmpfs", os.Mkdir(hide+"/empty", 0o555))
	must("tmpfs", os.WriteFile(hide+"/none", nil, 0o444))
	pinned := map[string]bool{}
	for _, g := range p.Guards {
		name := workspace
		parts := strings.Split(g.Path, "/")
		for i, part := range parts {
			name += "/" + part
			var st syscall.Stat_t
			err := syscall.Lstat(name, &st)
			if err == nil && st.Mode&syscall.S_IFMT != syscall.S_IFDIR && (i < len(parts)-1 || st.Mode&syscall.S_IFMT != syscall.S_IFREG) {
				err = fmt.Errorf("%s is a link or no file, and cannot be guarded", g.Path)
			}
			if err != nil {
				refuse("workspace", err)
			}
			switch last := i == len(parts)-1; {
			case last && g.Hidden:
				from := hide + "/none"
				if st.Mode&syscall.S_IFMT == syscall.S_IFDIR {
					from = hide + "/empty"
				}
				cover(from, name)
			case last && p.Writable:
				cover(name, name)
			case p.Writable && !pinned[name]:
				pinned[name] = true
				must("mount", syscall.Mount(name, name, "", syscall.MS_BIND, ""))
			}
		}
	}
}

// cover mounts from over name, read-only.
func cover(from, name string) {
	must("mount", syscall.Mount(from, name, "", syscall.MS_BIND, ""))
	must("mount", syscall.Mount("", name, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY|syscall.MS_NOSUID|syscall.MS_NODEV, ""))
}
