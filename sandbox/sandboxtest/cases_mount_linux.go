package sandboxtest

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

func itoa(n int) string { return strconv.Itoa(n) }

// Cases 87 and 88: mounts and namespaces.
func mountWays() []way {
	var list []way
	for _, args := range [][]string{
		{"mount-tmpfs", "/tmp"}, {"mount-bind", "/usr", "/tmp"}, {"mount-remount", attackTree, "/usr", "/"}, {"mount-umount", attackTree, "/usr", "/proc"},
		{"mount-new", "/tmp"}, {"mount-tree", "/usr", "/tmp"}, {"mount-setattr", attackTree, "/usr", "/"}, {"pivot", "/usr"}, {"chroot", "/tmp"},
	} {
		list = append(list, way{number: 87, name: "change mounts or root", by: args[0], do: func(c *cell) { c.changed(args...) }})
	}
	for _, ns := range []string{"user", "mnt", "net", "pid"} {
		by := ns
		if ns == "pid" { // applies to later children, so only clone shows it
			continue
		}
		list = append(list, way{number: 88, name: "new namespaces", by: "unshare " + by, do: func(c *cell) { c.changed("unshare", ns) }})
	}
	for _, ns := range []string{"user", "mnt", "pid", "net"} {
		list = append(list,
			way{number: 88, name: "new namespaces", by: "clone " + ns, do: func(c *cell) { c.changed("clone", ns) }},
			way{number: 88, name: "new namespaces", by: "clone3 " + ns, do: func(c *cell) { c.changed("clone3", ns) }})
	}
	for _, ns := range []string{"net", "mnt", "ipc"} {
		list = append(list, way{number: 88, name: "namespaces of another process", by: "setns " + ns, do: func(c *cell) {
			c.changed("setns", ns, itoa(c.elsewhere()), itoa(os.Getpid()))
		}})
	}
	return list
}

// elsewhere returns a process outside the job's namespaces: the victim, or in a
// control, where jobs share ours, a new process in its own namespaces.
func (c *cell) elsewhere() int {
	if !c.spec.Control {
		return c.bait.victim.pid
	}
	cmd := exec.Command(attackFile, "victim")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWIPC}
	in, err := cmd.StdinPipe()
	c.must(err)
	c.bait.kept = append(c.bait.kept, in)
	out, err := cmd.StdoutPipe()
	c.must(err)
	c.must(cmd.Start())
	_, err = out.Read(make([]byte, 64))
	c.must(err)
	c.known[cmd.Process.Pid] = true
	return cmd.Process.Pid
}
