package peeruser_test

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"metier/internal/peeruser"
)

// In a user namespace, one number stands for every user without an ID there. A process that runs
// as this number has no user that it could compare with others.
func TestAllowed_UsersWithoutID(t *testing.T) {
	const inside = "PEERUSER_TEST_NAMESPACE"
	if os.Getenv(inside) != "" {
		server, _ := pair(t, listen(t, "127.0.0.1:0"), "tcp")
		if err := peeruser.Allowed(server.LocalAddr(), server.RemoteAddr()); err == nil || !strings.Contains(err.Error(), "stands for every user without an ID") {
			t.Errorf("as user %d: %v", os.Geteuid(), err)
		}
		return
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
}
