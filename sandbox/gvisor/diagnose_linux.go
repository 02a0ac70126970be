package gvisor

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"metier/sandbox"
	"metier/sandbox/gvisor/internal/guest"
)

// namespaces are those gVisor starts in, each with the primitive's name.
var namespaces = []struct {
	primitive string
	flag      uintptr
}{{"user-namespaces", 0}, {"mount-namespaces", syscall.CLONE_NEWNS}, {"pid-namespaces", syscall.CLONE_NEWPID}, {"network-namespaces", syscall.CLONE_NEWNET},
	{"ipc-namespaces", syscall.CLONE_NEWIPC}, {"uts-namespaces", syscall.CLONE_NEWUTS}}

// diagnose finds what of the host runsc did not get, by asking for it. It is
// done only after runsc did not start; complaint is what runsc said.
func diagnose(complaint string) *sandbox.Unavailable {
	var all uintptr
	for _, n := range namespaces {
		all |= n.flag
		if out, err := try(n.flag, "nothing"); err != nil {
			return unavailable(n.primitive, strings.TrimSpace(err.Error()+" "+out), err)
		}
	}
	if out, err := try(all); err != nil {
		if primitive, reason, ok := strings.Cut(strings.TrimSpace(out), ": "); ok {
			return unavailable(primitive, reason+"; runsc says: "+complaint, err)
		}
	}
	return unavailable("runsc", complaint, nil)
}

// try starts this program in new namespaces to check what it can do there, or
// for nothing, and gives what it printed.
func try(flags uintptr, args ...string) (string, error) {
	// Without ids first: where a clone with ids fails, package syscall leaves two
	// descriptors open (the pipe for the ids).
	none := &os.ProcAttr{Sys: &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | flags}}
	if _, err := os.StartProcess("/proc/self/exe/none", []string{"none"}, none); !errors.Is(err, syscall.ENOTDIR) {
		return "", err
	}
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Args[0] = guest.Check
	cmd.Env, cmd.Dir = []string{}, "/"
	one := []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
	group := []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | flags, UidMappings: one, GidMappings: group, Credential: &syscall.Credential{NoSetGroups: true}}
	out, err := cmd.Output()
	return string(out), err
}
