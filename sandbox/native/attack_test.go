//go:build attacks && linux && (amd64 || arm64)

package native_test

import (
	"runtime"
	"testing"

	"golang.org/x/net/bpf"

	"metier/sandbox"
	"metier/sandbox/internal/filter"
	"metier/sandbox/native"
	"metier/sandbox/native/internal/plan"
	"metier/sandbox/quarantine"
	"metier/sandbox/sandboxtest"
)

// Runs every attack, each in its own cell, as root and as an ordinary user.
func TestWithstandsAttacks(t *testing.T) {
	t.Parallel()
	var program []bpf.RawInstruction
	filtered, _ := filter.Program(runtime.GOARCH)
	for _, i := range filtered {
		program = append(program, bpf.RawInstruction{Op: i.Code, Jt: i.Jt, Jf: i.Jf, K: i.K})
	}
	sandboxtest.Run(t, func(t *testing.T) sandbox.Sandbox {
		s, err := native.New(&native.Options{Visible: []string{sandboxtest.Visible}})
		if err != nil {
			t.Fatal(err)
		}
		return quarantine.New(s, nil)
	}, sandboxtest.Options{
		Filter: program,
		Keeps:  plan.Starter,
		Needs: []string{"user-namespaces", "mount-namespaces", "pid-namespaces", "network-namespaces", "ipc-namespaces", "uts-namespaces", "cgroup-namespaces",
			"landlock", "landlock-rules", "landlock-restrict", "seccomp", "no-new-privs", "mount", "pivot-root", "umount", "open-tree", "move-mount", "mount-setattr",
			"openat2", "memfd", "close-range", "bounding-set", "rlimits", "proc", "descriptors"},
	})
}
