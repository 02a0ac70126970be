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

// look is how often memory and time of a job are added up.
const look = 50 * time.Millisecond

// patience is how long a sandbox may take to be there. Its making is not the
// program's time: on a busy machine it can take longer than a short limit.
const patience = 30 * time.Second

// watch ends the job at its limits, which count from when the program starts.
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

// over names the limit that all processes together are over, or "".
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

// seen is the time of processes as it was looked at. The kernel forgets that of
// a process whose parent ignores its end.
type seen struct {
	last map[string]time.Duration // of those that were there
	sum  time.Duration
}

// add takes the time of those that are there now, and returns that of all that
// ever were.
func (s *seen) add(now map[string]time.Duration) time.Duration {
	for pid, own := range now {
		if own >= s.last[pid] {
			own -= s.last[pid]
		} // else it is another one with the same number
		s.sum += own
	}
	s.last = now
	return s.sum
}

// watched is the most processes that are added up.
const watched = 4096

// descendants are the processes below one, which are all of its sandbox. Who
// ends while this looks is not there.
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

// resident is the memory of a process but for what it maps of files: its pages,
// wherever the kernel keeps them, and the tables that the kernel keeps of them,
// which can be larger than the pages.
func resident(pid string) (n int64) {
	b, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return 0
	}
	return kilobytes(b, "RssAnon:") + kilobytes(b, "RssShmem:") + unshared(b)
}

// unshared is what of resident belongs to one process alone, or to nobody that
// could be counted once.
func unshared(status []byte) int64 {
	return kilobytes(status, "VmSwap:") + kilobytes(status, "VmPTE:") + kilobytes(status, "HugetlbPages:")
}

// A socket may hold as much as its buffer, and is the memory of no process. A
// few are free of charge: most programs have some, and next to nothing in them.
const (
	freeSockets = 64
	bufferSize  = 212992 // net.core.wmem_default, where the kernel does not say
)

// waiting is the most that sockets of a sandbox hold, as far as it is known.
// Buffers of TCP, which is there with a network only, grow beyond the default.
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
		return bufferSize // in a network namespace, for one
	}
	v, err := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64)
	if err != nil {
		return bufferSize
	}
	return v
})

// shared adds up what processes share only once. It costs more than resident,
// so it is asked where that says too much.
func shared(pids []string) (n int64) {
	for _, pid := range pids {
		b, err := os.ReadFile("/proc/" + pid + "/smaps_rollup")
		if err != nil {
			n += resident(pid) // it ended, or the kernel does not say
			continue
		}
		n += kilobytes(b, "Pss_Anon:") + kilobytes(b, "Pss_Shmem:")
		if b, err = os.ReadFile("/proc/" + pid + "/status"); err == nil {
			n += unshared(b)
		}
	}
	return n
}

// kilobytes is the value of a line of /proc, in bytes.
func kilobytes(text []byte, name string) int64 { return number(text, "\n"+name) << 10 }

// number is what follows name.
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

// spent is the time a process took, and that of children it has waited for. The
// kernel counts in hundredths of a second.
func spent(pid string) (own, children time.Duration) {
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0, 0
	}
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:]) // the name before it may hold anything
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
