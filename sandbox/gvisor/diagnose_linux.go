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

// namespaces are those in which gVisor starts, with the names of their primitives.
var namespaces = []struct {
	primitive string
	flag      uintptr
}{{"user-namespaces", 0}, {"mount-namespaces", syscall.CLONE_NEWNS}, {"pid-namespaces", syscall.CLONE_NEWPID}, {"network-namespaces", syscall.CLONE_NEWNET},
	{"ipc-namespaces", syscall.CLONE_NEWIPC}, {"uts-namespaces", syscall.CLONE_NEWUTS}}

// diagnose determines by trial what runsc lacked on the host. It runs only after runsc failed to
// start; complaint is the error of runsc.
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

// try starts this program in new namespaces, either to check what it can do there or only to create
// them. It returns the output.
func try(flags uintptr, args ...string) (string, error) {
	if err := creates(flags); err != nil {
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

// creates reports why this process cannot create a user namespace with others in it. If a clone with
// IDs fails, package syscall leaks two descriptors (the pipe for the IDs), so this must be tried
// before.
func creates(flags uintptr) error {
	none := &os.ProcAttr{Sys: &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | flags}}
	if _, err := os.StartProcess("/proc/self/exe/none", []string{"none"}, none); !errors.Is(err, syscall.ENOTDIR) {
		return err
	}
	return nil
}
