//go:build linux && (amd64 || arm64)

package native

import (
	"errors"
	"os"
	"strconv"
	"sync"
	"syscall"

	"metier/sandbox/native/internal/plan"
)

// holders caches the user namespaces that map workspace owners.
type holders struct {
	mu  sync.Mutex
	all map[[4]int]*os.File
}

// mapped is the maximum number of cached owners.
const mapped = 64

// userns returns a user namespace that maps uid and gid to the program's IDs. A process creates the
// namespace and is killed at once; the open file keeps the namespace alive.
func (h *holders) userns(uid, gid int, who ids) (*os.File, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := [4]int{uid, gid, who.uid, who.gid}
	if f := h.all[key]; f != nil {
		return f, nil
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	p, err := os.StartProcess("/proc/self/exe", []string{plan.Holder}, &os.ProcAttr{
		Env:   []string{},
		Files: []*os.File{null, null, null, r},
		Sys: &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: who.uid, Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: who.gid, Size: 1}},
		},
	})
	_ = r.Close() // the holder has the read end
	if err != nil {
		return nil, err
	}
	f, err := os.Open("/proc/" + strconv.Itoa(p.Pid) + "/ns/user")
	_ = p.Kill() // it may have ended
	if _, werr := p.Wait(); err == nil {
		err = werr
	}
	if err != nil {
		return nil, err
	}
	if h.all == nil {
		h.all = map[[4]int]*os.File{}
	}
	for k, old := range h.all {
		if len(h.all) < mapped {
			break
		}
		_ = old.Close() // only read from
		delete(h.all, k)
	}
	h.all[key] = f
	return f, nil
}

func (h *holders) close() (err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range h.all {
		err = errors.Join(err, f.Close())
	}
	h.all = nil
	return err
}
