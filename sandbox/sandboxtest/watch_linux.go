package sandboxtest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// process is one entry of the process list.
type process struct {
	pid, parent int
	name        string
	state       string
}

func (p process) String() string { return fmt.Sprintf("%d %s (%s)", p.pid, p.name, p.state) }

// processes lists the processes of the cell, including zombies, without this
// process.
func processes() (out []process) {
	list, _ := os.ReadDir("/proc")
	for _, e := range list {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		b, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		head, rest, _ := strings.Cut(string(b), "(")
		name, rest, _ := cutLast(rest, ")")
		f := strings.Fields(rest)
		if head == "" || len(f) < 2 {
			continue
		}
		p := process{pid: pid, name: name, state: f[0]}
		p.parent, _ = strconv.Atoi(f[1])
		out = append(out, p)
	}
	return out
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// view is the mounts, root, and namespaces of a process.
type view struct {
	mounts, root string
	spaces       map[string]string
}

func look(pid int) view {
	dir := "/proc/" + strconv.Itoa(pid)
	v := view{spaces: map[string]string{}}
	b, _ := os.ReadFile(dir + "/mountinfo")
	v.mounts = string(b)
	v.root, _ = os.Readlink(dir + "/root")
	for _, ns := range []string{"user", "mnt", "net", "pid", "ipc", "uts", "cgroup", "time"} {
		v.spaces[ns], _ = os.Readlink(dir + "/ns/" + ns)
	}
	return v
}

// changes reports how processes differ from before. A new process has to be in
// existing namespaces.
func changes(before map[int]view, now []process) (out []string) {
	for _, p := range now {
		v := look(p.pid)
		old, was := before[p.pid]
		if was && v.mounts != old.mounts {
			out = append(out, fmt.Sprintf("the mounts of %v changed: %s", p, firstDifference(old.mounts, v.mounts)))
		}
		if was && v.root != old.root {
			out = append(out, fmt.Sprintf("the root of %v was %s and is %s", p, old.root, v.root))
		}
		for ns, id := range v.spaces {
			known := id == ""
			for _, o := range before {
				known = known || o.spaces[ns] == id
			}
			if !known || was && old.spaces[ns] != "" && id != "" && id != old.spaces[ns] {
				out = append(out, fmt.Sprintf("%v entered another %s namespace: %s", p, ns, id))
			}
		}
	}
	return out
}

func firstDifference(a, b string) string {
	old := strings.Split(a, "\n")
	for _, l := range strings.Split(b, "\n") {
		if !slices.Contains(old, l) {
			return "+" + l
		}
	}
	now := strings.Split(b, "\n")
	for _, l := range old {
		if !slices.Contains(now, l) {
			return "-" + l
		}
	}
	return "the order"
}

// changed runs an attack that holds before and after it changes its own mounts,
// root, or namespaces.
func (c *cell) changed(args ...string) {
	before := map[int]view{}
	r := c.hold(c.attack(args...),
		func(pids []process) {
			for _, p := range pids {
				before[p.pid] = look(p.pid)
			}
			if len(before) == 0 {
				c.broken("found no process of the job")
			}
		},
		func(pids []process) {
			if _, err := os.Stat("/proc/self"); err != nil {
				c.harm("the root of the whole cell changed: %v", err)
			}
			for _, s := range changes(before, pids) {
				c.harm("%s", s)
			}
		})
	if c.ownKernel() && r.Exit == 0 { // no process of the host shows it
		c.harm("the kernel of the sandbox allowed it")
	}
}

// descriptors lists what the processes of a job have open: the kind of each, as
// the kernel names it, and the families of sockets.
func descriptors(pids []process) (out []string) {
	for _, p := range pids {
		dir := "/proc/" + strconv.Itoa(p.pid) + "/fd"
		list, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range list {
			link, err := os.Readlink(filepath.Join(dir, e.Name()))
			if err != nil {
				continue
			}
			if strings.HasPrefix(link, "socket:") {
				link = "socket of family " + family(p.pid, e.Name())
			}
			out = append(out, link)
		}
	}
	return out
}

// family duplicates the socket from the process and reads its family.
func family(pid int, fd string) string {
	n, err := strconv.Atoi(fd)
	if err != nil {
		return err.Error()
	}
	p, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err.Error()
	}
	defer unix.Close(p)
	got, err := unix.PidfdGetfd(p, n, 0)
	if err != nil {
		return err.Error()
	}
	defer unix.Close(got)
	f, err := unix.GetsockoptInt(got, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil {
		return err.Error()
	}
	return strconv.Itoa(f)
}

// holds runs an attack that keeps a descriptor of a kind.
func (c *cell) holds(kind string, args ...string) {
	c.hold(c.attack(args...), func(pids []process) {
		if found := descriptors(pids); slices.ContainsFunc(found, func(s string) bool { return strings.HasPrefix(s, kind) }) {
			c.harm("a process of the job has %s", kind)
		} else if !c.ownKernel() {
			c.broken("the attack holds, but no process has %s: %q", kind, found)
		}
	})
}

// status returns one field of a process's status file.
func status(pid int, field string) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}
