//go:build linux && (amd64 || arm64)

package native

import (
	"bytes"
	"context"
	"os"
	"strconv"
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
	var memory int64
	cpu := time.Duration(0)
	for _, pid := range all {
		memory += resident(pid)
		cpu += spent(pid, false)
	}
	cpu += spent(first, true)
	r.cpu = cpu // read after watch returned
	switch {
	case cpu >= r.job.Limits.CPU+look:
		return sandbox.LimitCPU
	case memory > r.job.Limits.Memory && shared(all) > r.job.Limits.Memory:
		return sandbox.LimitMemory
	}
	return ""
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

// resident is the memory of a process but for what it maps of files.
func resident(pid string) (n int64) {
	b, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return 0
	}
	return kilobytes(b, "RssAnon:") + kilobytes(b, "RssShmem:")
}

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
	}
	return n
}

// kilobytes is the value of a line of /proc, in bytes.
func kilobytes(text []byte, name string) int64 {
	_, rest, ok := bytes.Cut(text, []byte("\n"+name))
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
	return n << 10
}

// spent is the time a process took, with that of children it has waited for,
// or of these alone. The kernel counts in hundredths of a second.
func spent(pid string, children bool) (d time.Duration) {
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0
	}
	_, rest, ok := bytes.Cut(b, []byte(") ")) // the name may hold anything, so from its end
	if i := bytes.LastIndex(b, []byte(") ")); i >= 0 {
		rest = b[i+2:]
	}
	f := bytes.Fields(rest)
	if !ok || len(f) < 15 {
		return 0
	}
	from := 11 // utime, stime, cutime, cstime
	if children {
		from = 13
	}
	for _, x := range f[from:15] {
		if n, err := strconv.ParseInt(string(x), 10, 64); err == nil {
			d += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return d
}
