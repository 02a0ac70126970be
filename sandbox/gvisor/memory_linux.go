package gvisor

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"metier/sandbox"
)

var errNoMemory = errors.New("runsc keeps no memory of that name")

// openKernel finds the process of the sandbox's kernel, which has just answered, and the file that
// holds all memory of the sandbox.
func openKernel(pidFile string) (*os.Process, string, error) {
	text, err := os.ReadFile(pidFile)
	if err != nil {
		return nil, "", err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, "", err
	}
	kernel, err := os.FindProcess(pid)
	if err != nil {
		return nil, "", err
	}
	memory, err := memoryOf(pid)
	if err != nil {
		_ = kernel.Release() // only a descriptor
		return nil, "", err
	}
	return kernel, memory, nil
}

// memoryOf finds the memory file among a kernel's descriptors.
func memoryOf(pid int) (string, error) {
	dir := "/proc/" + strconv.Itoa(pid) + "/fd"
	list, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	for _, e := range list {
		name := dir + "/" + e.Name()
		if to, err := os.Readlink(name); err == nil && strings.HasPrefix(to, "/memfd:runsc-memory") {
			return name, nil
		}
	}
	return "", errNoMemory
}

// watch ends the job if it uses too much memory or its usage cannot be read.
func (r *running) watch(memory string) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-r.done:
			return
		case <-tick.C:
		}
		var st syscall.Stat_t
		if syscall.Stat(memory, &st) != nil {
			return // it has ended
		}
		if st.Blocks*512 > r.job.Limits.Memory+base {
			r.stop(sandbox.LimitMemory)
			return
		}
	}
}

// base is the memory that a sandbox uses before its program starts.
const base = 12 << 20
