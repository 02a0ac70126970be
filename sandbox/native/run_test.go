//go:build linux && (amd64 || arm64)

package native_test

import (
	"strings"
	"testing"

	"metier/sandbox"
	"metier/sandbox/native"
)

func open(t testing.TB) *native.Sandbox {
	t.Helper()
	s, err := native.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

var env = []string{"PATH=/usr/bin:/bin", "HOME=/tmp", "LANG=C.UTF-8"}

func shell(script string) sandbox.Job {
	return sandbox.Job{Argv: []string{"sh", "-c", script}, Env: env, MinLevel: sandbox.L2}
}

func TestProgramsRunInARootOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := open(t)
	j := shell("id; ls /; ls -l /proc/self/fd /skills/a; cat /proc/self/status | grep -E 'Cap|NoNew|Secc|Threads'; . ./lib/x.sh; echo err >&2; cat /proc/mounts; ulimit -a; ls /dev -l; exit 3")
	j.Trees = []sandbox.Tree{{Path: "/skills/a", Files: []sandbox.File{{Path: "lib/x.sh", Data: []byte("echo sourced\n")}}}}
	j.Dir = "/skills/a"
	r, err := s.Run(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s\n%s\n%+v", r.Stdout, r.Stderr, r)
	if r.Exit != 3 || !strings.Contains(string(r.Stdout), "sourced") {
		t.Error("no")
	}
}

func TestProbe(t *testing.T) {
	t.Parallel()
	s := open(t)
	t.Logf("%+v", s.Probe(t.Context()))
}
