//go:build linux && (amd64 || arm64)

package native

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"sync"
	"time"

	"metier/sandbox"
)

// look is how often the memory and CPU time of a job are measured.
const look = 50 * time.Millisecond

// patience is how long a sandbox may take to start. That time does not count for the program: on a
// busy machine it can exceed a short limit.
const patience = 30 * time.Second

// watch ends the job at its limits, which apply from the start of the program.
func (r *running) watch(ctx context.Context, closed <-chan struct{}) {
	wall := time.NewTimer(patience)
	defer wall.Stop()
	tick := time.NewTicker(look)
	defer tick.Stop()
	tick.Stop()
	starts := r.starts
	for {
		select {
		case <-starts:
			starts = nil
			wall.Reset(r.job.Limits.Wall)
			tick.Reset(look)
			continue
		case <-r.done:
			return
		case <-ctx.Done():
			r.stop(sandbox.LimitCancelled)
		case <-closed:
			r.stop(sandbox.LimitCancelled)
		case <-wall.C:
			r.stop(sandbox.LimitWall)
		case <-tick.C:
			if limit := r.over(); limit != "" {
				r.stop(limit)
			}
			continue
		}
		<-r.done
		return
	}
}

// over returns the limit that all processes together exceed, or "".
func (r *running) over() string {
	first := strconv.Itoa(r.process.Pid)
	all := descendants(first)
	memory := waiting(first, r.job.Serve != nil)
	kernel := memory
	now := make(map[string]time.Duration, len(all))
	_, cpu := spent(first)
	for _, pid := range all {
		memory += resident(pid)
		own, children := spent(pid)
		cpu += own + children
		now[pid] = own
	}
	r.cpu = max(cpu, r.seen.add(now)) // read after watch returned
	switch {
	case r.cpu >= r.job.Limits.CPU+look:
		return sandbox.LimitCPU
	case memory > r.job.Limits.Memory && kernel+shared(all) > r.job.Limits.Memory:
		return sandbox.LimitMemory
	}
	return ""
}

// seen sums the CPU time of processes over all measurements. The kernel discards that of a process
// whose parent ignores its exit.
type seen struct {
	last map[string]time.Duration // of the running processes
	sum  time.Duration
}

// add adds a measurement of the running processes and returns the total of all processes so far.
func (s *seen) add(now map[string]time.Duration) time.Duration {
	for pid, own := range now {
		if own >= s.last[pid] {
			own -= s.last[pid]
		} // otherwise, the process ID was reused
		s.sum += own
	}
	s.last = now
	return s.sum
}

// watched is the maximum number of processes that are measured.
const watched = 4096

// descendants returns the descendants of a process, which are all processes of its sandbox.
// Processes that end meanwhile may be missing.
func descendants(pid string) (all []string) {
	todo := []string{pid}
	for len(todo) > 0 && len(all) < watched {
		at := todo[0]
		todo = todo[1:]
		tasks, err := os.ReadDir("/proc/" + at + "/task")
		if err != nil {
			continue
		}
		for _, t := range tasks {
			b, err := os.ReadFile("/proc/" + at + "/task/" + t.Name() + "/children")
			if err != nil {
				continue
			}
			for _, child := range bytes.Fields(b) {
				all = append(all, string(child))
				todo = append(todo, string(child))
			}
		}
	}
	return all
}

// resident returns the memory of a process without mapped files: its pages, including swapped and
// huge ones, and its page tables, which can be larger than the pages.
func resident(pid string) (n int64) {
	b, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return 0
	}
	return kilobytes(b, "RssAnon:") + kilobytes(b, "RssShmem:") + unshared(b)
}

// unshared returns the part of resident that is private to a process or cannot be attributed to
// several.
func unshared(status []byte) int64 {
	return kilobytes(status, "VmSwap:") + kilobytes(status, "VmPTE:") + kilobytes(status, "HugetlbPages:")
}

// A socket may hold as much as its buffer, which is part of no process's memory. A few sockets are
// not counted: most programs have some that are nearly empty.
const (
	freeSockets = 64
	bufferSize  = 212992 // net.core.wmem_default, if it cannot be read
)

// waiting returns an upper bound of the data in the sandbox's sockets, as far as it is known. TCP,
// which is only available with a network, has buffers that grow beyond the default.
func waiting(first string, network bool) (n int64) {
	dir := "/proc/" + first + "/net/"
	if b, err := os.ReadFile(dir + "sockstat"); err == nil {
		n = max(0, number(b, "sockets: used")-freeSockets) * buffer()
	}
	if !network {
		return n
	}
	for _, name := range []string{"tcp", "tcp6", "udp", "udp6"} {
		b, err := os.ReadFile(dir + name)
		if err != nil {
			continue
		}
		for line := range bytes.Lines(b) {
			f := bytes.Fields(line) // sl local remote state tx:rx …
			if len(f) < 5 {
				continue
			}
			for q := range bytes.SplitSeq(f[4], []byte(":")) {
				if v, err := strconv.ParseInt(string(q), 16, 64); err == nil {
					n += v
				}
			}
		}
	}
	return n
}

var buffer = sync.OnceValue(func() int64 {
	b, err := os.ReadFile("/proc/sys/net/core/wmem_default")
	if err != nil {
		return bufferSize // in a network namespace, for example
	}
	v, err := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64)
	if err != nil {
		return bufferSize
	}
	return v
})

// shared sums memory, counting shared pages only once. It is slower than resident, so it is used
// only if resident exceeds the limit.
func shared(pids []string) (n int64) {
	for _, pid := range pids {
		b, err := os.ReadFile("/proc/" + pid + "/smaps_rollup")
		if err != nil {
			n += resident(pid) // it has ended, or the kernel does not report it
			continue
		}
		n += kilobytes(b, "Pss_Anon:") + kilobytes(b, "Pss_Shmem:")
		if b, err = os.ReadFile("/proc/" + pid + "/status"); err == nil {
			n += unshared(b)
		}
	}
	return n
}

// kilobytes returns the value of a line in /proc in bytes.
func kilobytes(text []byte, name string) int64 { return number(text, "\n"+name) << 10 }

// number returns the number after name.
func number(text []byte, name string) int64 {
	_, rest, ok := bytes.Cut(text, []byte(name))
	if !ok {
		return 0
	}
	f := bytes.Fields(rest)
	if len(f) == 0 {
		return 0
	}
	n, err := strconv.ParseInt(string(f[0]), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// spent returns the CPU time of a process, and that of the children it has waited for. The kernel
// counts in hundredths of a second.
func spent(pid string) (own, children time.Duration) {
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0, 0
	}
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:]) // the name before it may contain any characters
	if len(f) < 15 {
		return 0, 0
	}
	var d [4]time.Duration // utime, stime, cutime, cstime
	for i, x := range f[11:15] {
		if n, err := strconv.ParseInt(string(x), 10, 64); err == nil {
			d[i] = time.Duration(n) * 10 * time.Millisecond
		}
	}
	return d[0] + d[1], d[2] + d[3]
}
