//go:build linux && (amd64 || arm64)

package native

import (
	"bytes"
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// origins determines which processes run programs that the job's own program started, or a program
// that starts only the programs in its arguments. A fork copies the addresses of a process's memory,
// and every start of a program chooses new ones, so they identify the program that a process runs.
// The processes themselves do not: a parent may have started another program since it forked.
type origins struct {
	first   int
	images  map[string]bool // by addresses: whether what it starts is direct
	changes map[process]change
}

// process is a process, even if its ID is used again.
type process struct {
	pid   int
	began string // in clock ticks
}

// change is the last program that a process started, if that did not fail.
type change struct {
	before string // addresses of the program that started it
	direct bool
}

// origin is the program that a process runs.
type origin struct {
	process
	image  string
	direct bool // what it starts is direct
}

// mostOrigins bounds the memory for a job.
const mostOrigins = 1 << 16

func newOrigins(first int) origins {
	return origins{first, map[string]bool{}, map[process]change{}}
}

// of returns the origin of what a thread starts. If it cannot be determined, it is direct.
func (o *origins) of(tid int) origin {
	pid := leader(tid)
	s, ok := statOf(pid)
	if !ok {
		return origin{direct: true}
	}
	x := origin{process{pid, s.began}, s.image, true}
	if direct, known := o.images[s.image]; known {
		x.direct = direct
		return x
	}
	for at, parents := pid, 0; parents < 64; parents++ {
		if c, known := o.changes[process{at, s.began}]; known {
			x.direct = c.direct || c.before == s.image
			break
		}
		if at = s.parent; at == o.first {
			break
		}
		if s, ok = statOf(at); !ok || s.image != x.image {
			break
		}
	}
	o.learn(x.image, x.direct)
	return x
}

func (o *origins) learn(image string, direct bool) {
	if len(o.images) >= mostOrigins {
		clear(o.images)
	}
	o.images[image] = direct
}

// starts records that a process starts a program. direct reports that what this program starts is
// direct.
func (o *origins) starts(x origin, direct bool) {
	if x.pid == 0 {
		return
	}
	if len(o.changes) >= mostOrigins {
		clear(o.changes)
	}
	o.changes[x.process] = change{x.image, direct}
}

// leader returns the process of a thread.
func leader(tid int) int {
	if err := unix.Tgkill(tid, tid, 0); !errors.Is(err, unix.ESRCH) {
		return tid // most often; reading /proc takes half of the time for a program
	}
	b, err := os.ReadFile("/proc/" + strconv.Itoa(tid) + "/status")
	if err != nil {
		return tid
	}
	if n := int(number(b, "\nTgid:")); n > 0 {
		return n
	}
	return tid
}

// stat is a process as /proc describes it.
type stat struct {
	parent       int
	began, image string
}

func statOf(pid int) (s stat, ok bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return s, false
	}
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:]) // from the third on
	if len(f) < 49 {
		return s, false
	}
	s.parent, err = strconv.Atoi(string(f[1]))
	s.began = string(f[19])
	s.image = string(bytes.Join(append(f[23:26:26], f[42:49]...), []byte(" "))) // code, stack, data, heap, arguments, environment
	return s, err == nil
}
