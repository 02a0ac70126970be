package sandboxtest

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"metier/sandbox"
)

// Cases 89 to 92, 97 and 98: other processes, and what can be taken from them.
func processWays() []way {
	into, beyond := "into another process", "beyond its own part of /proc and /sys"
	return []way{
		{number: 89, name: into, by: "ptrace", do: func(c *cell) { c.traces("ptrace", c.bait.pid()) }},
		{number: 89, name: into, by: "ptrace of a child", do: func(c *cell) { c.traces("traceme") }},
		{number: 89, name: into, by: "process_vm_readv", do: func(c *cell) { c.run(c.attack("vmread", c.bait.victim.addr, c.bait.pid())) }},
		{number: 89, name: into, by: "process_vm_writev", do: (*cell).vmwrite},
		{number: 89, name: into, by: "/proc/PID/mem", do: func(c *cell) { c.run(c.attack("procmem", c.bait.victim.addr, c.bait.pid())) }},
		{number: 89, name: into, by: "pidfd_getfd", do: func(c *cell) { c.run(c.attack("fdget", c.bait.victim.fd, c.bait.pid())) }},
		{number: 90, name: beyond, by: "/proc/1/exe", do: (*cell).executables},
		{number: 90, name: beyond, by: "/proc/PID/root and cwd", do: func(c *cell) { c.run(c.attack("root", guarded[0], c.bait.pid())) }},
		{number: 90, name: beyond, by: "/proc/sys", do: (*cell).sysctls},
		{number: 90, name: beyond, by: "/proc/cmdline", do: func(c *cell) { c.prints("/proc/cmdline") }},
		{number: 90, name: beyond, by: "/proc/PID/environ", do: func(c *cell) { c.run(c.attack("cat", "/proc/1/environ", "/proc/"+c.bait.pid()+"/environ")) }},
		{number: 90, name: beyond, by: "/sys", do: func(c *cell) {
			c.prints("/sys/kernel/notes", "/sys/kernel/profiling", "/sys/kernel/uevent_seqnum", "/sys/kernel/mm/transparent_hugepage/enabled")
		}},
		{number: 91, name: "signals", by: "kill the victim and all processes", do: (*cell).kills},
		{number: 91, name: "signals", by: "to the parent and the first process", do: func(c *cell) { c.signals(nil, itoa(os.Getpid())) }},
		{number: 91, name: "signals", by: "to the parent and the first process, from a workspace", do: func(c *cell) {
			c.signals(&sandbox.Workspace{Host: c.workspace(), Writable: true})
		}},
		{number: 92, name: "rights by executing a file", by: "setuid", rootOnly: true, asUser: true, prepare: setuidBait, do: func(c *cell) { c.rises("/srv/setuid") }},
		{number: 92, name: "rights by executing a file", by: "file capabilities", rootOnly: true, asUser: true, prepare: capabilityBait, do: func(c *cell) { c.rises("/srv/capable") }},
		{number: 92, name: "rights by executing a file", by: "set-user-ID files left in the workspace", do: (*cell).leavesSetID},
		{number: 97, name: "inherited descriptors", do: (*cell).inherited},
		{number: 98, name: "descriptors sent over a socket", by: "from the workspace", do: (*cell).sent},
		{number: 98, name: "descriptors sent over a socket", by: "from a path of the host", do: func(c *cell) {
			c.bait.lend("/run/lender")
			c.run(c.attack("receive", "/run/lender"))
		}},
	}
}

// traces runs an attack that traces a process, and reads which processes are
// traced. A virtual machine briefly traces the processes in which it runs
// programs.
func (c *cell) traces(args ...string) {
	const machine = "exe" // the name of its processes; no attack has it
	c.hold(c.attack(args...), func([]process) {
		for _, p := range processes() {
			by, err := strconv.Atoi(status(p.pid, "TracerPid"))
			if err != nil || by == 0 || p.name == machine && status(by, "Name") == machine {
				continue // it ended, or is not traced
			}
			c.harm("%v is traced by %d, %s", p, by, status(by, "Name"))
		}
	})
}

func (c *cell) vmwrite() {
	c.run(c.attack("vmwrite", c.bait.victim.addr, c.bait.pid()))
	var addr int64
	_, err := fmt.Sscan(c.bait.victim.addr, &addr)
	c.must(err)
	f, err := os.Open("/proc/" + c.bait.pid() + "/mem")
	c.must(err)
	defer f.Close()
	b := make([]byte, 6)
	_, err = f.ReadAt(b, addr)
	c.must(err)
	if string(b) == "harmed" {
		c.harm("the victim's memory was written")
	}
}

// executables makes the attack open the executables of other processes,
// including its own first process. A program that holds one can wait until it
// is writable.
func (c *cell) executables() {
	c.hold(c.attack("exe", c.bait.pid()), func(pids []process) {
		for _, p := range pids {
			if p.name != "attack" {
				continue
			}
			for _, d := range descriptors([]process{p}) {
				if strings.HasPrefix(d, cellDir) || strings.HasPrefix(d, "/memfd:") {
					c.harm("%v holds %s", p, d)
				}
			}
		}
	})
}

// sysctls tries a sysctl of the judge's network namespace.
func (c *cell) sysctls() {
	const name = "/proc/sys/net/ipv4/ip_unprivileged_port_start"
	c.run(c.attack("set", name, "77"))
	if !same(name, "0\n") {
		c.harm("%s changed", name)
	}
}

// prints reads kernel files whose content the judge knows.
func (c *cell) prints(paths ...string) {
	r := c.run(c.attack(append([]string{"cat"}, paths...)...))
	for _, p := range paths {
		if b, err := os.ReadFile(p); err == nil && len(bytes.TrimSpace(b)) > 0 && bytes.Contains(r.Stdout, bytes.TrimSpace(b)) {
			c.harm("%s was read", p)
		}
	}
}

func (c *cell) kills() {
	c.run(c.attack("kill", "9", c.bait.pid(), "-1"))
	if !c.bait.lives() {
		c.harm("the victim was killed")
	}
}

// signals listens for a signal that does not end a process that handles it. The
// judge, or its parent, is both the attack's parent and the first process. A
// backend may give the program other IDs if it has a workspace.
func (c *cell) signals(w *sandbox.Workspace, pids ...string) {
	got := make(chan os.Signal, 8)
	signal.Notify(got, syscall.SIGUSR1, syscall.SIGUSR2)
	j := c.attack(append([]string{"kill", itoa(int(syscall.SIGUSR1))}, pids...)...)
	j.Workspace = w
	if r := c.run(j); c.ownKernel() && r.Exit == 0 {
		c.harm("the first process received a signal")
	}
	c.must(syscall.Kill(os.Getpid(), syscall.SIGUSR2)) // signals sent earlier arrive earlier
	for s := range got {
		if s == syscall.SIGUSR2 {
			return
		}
		c.harm("received a signal: %v", s)
	}
}

// attackCopy copies the attacks to a root-owned folder that a job will have as
// its workspace.
func attackCopy(dir string) (string, error) {
	b, err := os.ReadFile(attackFile)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	name := dir + "/attack"
	if err := os.WriteFile(name, b, 0o755); err != nil {
		return "", err
	}
	return name, os.Chown(name, 0, 0)
}

func setuidBait(*spec) error {
	name, err := attackCopy("/srv/setuid")
	if err != nil {
		return err
	}
	return os.Chmod(name, 0o755|os.ModeSetuid|os.ModeSetgid)
}

func capabilityBait(*spec) error {
	name, err := attackCopy("/srv/capable")
	if err != nil {
		return err
	}
	all := bytes.Repeat([]byte{0xff}, 4)
	set := append([]byte{1, 0, 0, 2}, all...) // version 2, effective; permitted
	set = append(append(set, 0, 0, 0, 0), append([]byte{0xff, 1, 0, 0}, 0, 0, 0, 0)...)
	return unix.Setxattr(name, "security.capability", set, 0)
}

// rises runs a file that has more rights than its caller.
func (c *cell) rises(dir string) {
	j := c.attack()
	j.Workspace = &sandbox.Workspace{Host: dir}
	j.Argv = []string{"/workspace/attack", "who"}
	c.hold(j, func(pids []process) {
		seen := false
		for _, p := range pids {
			if p.name != "attack" {
				continue
			}
			seen = true
			uid := strings.Fields(status(p.pid, "Uid"))
			if len(uid) != 4 || uid[0] != uid[1] || uid[0] == "0" {
				c.harm("%v has user IDs %q", p, uid)
			}
			if set := strings.Trim(status(p.pid, "CapEff"), "0"); set != "" {
				c.harm("%v has the capabilities %s", p, set)
			}
		}
		if !seen && !c.ownKernel() {
			c.broken("found no process of the attack while it holds")
		}
	})
}

// leavesSetID looks for files that give every user of the host the rights of their owner.
func (c *cell) leavesSetID() {
	dir := c.workspace()
	j := c.attack("setid", sandbox.WorkspaceDir)
	j.Workspace = &sandbox.Workspace{Host: dir, Writable: true}
	c.run(j)
	list, err := os.ReadDir(dir)
	c.must(err)
	for _, e := range list {
		info, err := e.Info()
		c.must(err)
		if info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
			c.harm("%s is %v", e.Name(), info.Mode())
		}
	}
	if len(list) == 0 {
		c.broken("the attack created no file")
	}
}

// inherited leaves descriptors open, as a careless host does.
func (c *cell) inherited() {
	fd, err := unix.Open(guarded[0], unix.O_RDONLY, 0)
	c.must(err)
	for _, n := range []int{10, 251, 700} {
		c.must(unix.Dup3(fd, n, 0))
	}
	if r := c.run(c.attack("fds")); len(r.Stdout) > 0 {
		c.harm("descriptors beyond stdin, stdout, and stderr: %q", short(r.Stdout))
	}
}

func (c *cell) sent() {
	dir := c.workspace()
	c.bait.lend(dir + "/lender")
	j := c.attack("receive", "/workspace/lender")
	j.Workspace = &sandbox.Workspace{Host: dir, Writable: true}
	c.run(j)
}
