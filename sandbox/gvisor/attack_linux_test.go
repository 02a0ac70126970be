//go:build attacks

package gvisor_test

import (
	"os"
	"testing"

	"metier/internal/testenv"
	"metier/sandbox"
	"metier/sandbox/gvisor"
	"metier/sandbox/quarantine"
	"metier/sandbox/sandboxtest"
)

// Runs every attack, each in its own cell, as root and as an ordinary user.
func TestWithstandsAttacks(t *testing.T) {
	path, err := runsc()
	if err != nil && os.Getenv("METIER_SANDBOXTEST_SPEC") == "" {
		testenv.Skip(t, "needs gVisor's runsc, run make runsc: "+err.Error())
	}
	sandboxtest.Run(t, func(t *testing.T) sandbox.Sandbox {
		s, err := gvisor.New(gvisor.Options{Path: "/cell/runsc", Visible: []string{sandboxtest.Visible}})
		if err != nil {
			t.Fatal(err)
		}
		return quarantine.New(s, nil)
	}, sandboxtest.Options{
		Level:    sandbox.L3,
		Programs: map[string]string{"runsc": path},
		Needs: []string{"user-namespaces", "mount-namespaces", "pid-namespaces", "network-namespaces", "ipc-namespaces", "uts-namespaces",
			"seccomp", "no-new-privs", "bounding-set", "mount", "pivot-root", "umount", "memfd", "capset", "setsid", "descriptors"},
		Launches: 20,
	})
}
