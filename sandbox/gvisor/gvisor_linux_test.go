//go:build attacks

package gvisor_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/internal/testenv"
	"metier/sandbox"
	"metier/sandbox/gvisor"
)

// runsc returns the program in METIER_RUNSC, or the one that make runsc built.
var runsc = sync.OnceValues(func() (string, error) {
	path := os.Getenv("METIER_RUNSC")
	if path == "" {
		out, err := exec.Command("../../tools/runsc", "--where").Output()
		if err != nil {
			return "", err
		}
		path = strings.TrimSpace(string(out))
	}
	_, err := os.Stat(path)
	return path, err
})

func open(t *testing.T, o gvisor.Options) *gvisor.Sandbox {
	t.Helper()
	path, err := runsc()
	if err != nil {
		testenv.Skip(t, "needs gVisor's runsc, run make runsc: "+err.Error())
	}
	if o.Path == "" {
		o.Path = path
	}
	if o.Temp == "" {
		o.Temp = t.TempDir()
	}
	s, err := gvisor.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if left, _ := filepath.Glob(filepath.Join(o.Temp, "*")); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	})
	return s
}

var env = []string{"PATH=/usr/bin:/bin", "HOME=/tmp"}

func sh(text string) sandbox.Job { return sandbox.Job{Argv: []string{"sh", "-c", text}, Env: env} }

func run(t *testing.T, s *gvisor.Sandbox, j sandbox.Job) sandbox.Result {
	t.Helper()
	r, err := s.Run(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// prints runs a job and compares its two outputs with want.
func prints(t *testing.T, s *gvisor.Sandbox, j sandbox.Job, want string) {
	t.Helper()
	r := run(t, s, j)
	if got := string(r.Stdout) + string(r.Stderr); got != want {
		t.Errorf("%q:\n%s\nended with %d %s%s", j.Argv, cmp.Diff(want, got), r.Exit, r.Signal, r.Limit)
	}
}

func TestProbeRunsAProgram(t *testing.T) {
	t.Parallel()
	r := open(t, gvisor.Options{}).Probe(t.Context())
	if !r.Available || r.Level != sandbox.L3 || r.Backend != "gvisor" || len(r.Missing) != 0 || len(r.Visible) == 0 {
		t.Errorf("%+v", r)
	}
	none := open(t, gvisor.Options{Path: "/nonexistent/runsc"})
	for range 2 { // a failed probe is not cached
		if r := none.Probe(t.Context()); r.Available || r.Level != sandbox.L0 || len(r.Missing) != 1 || r.Missing[0].Primitive != "runsc" || r.Missing[0].Fix == "" {
			t.Errorf("%+v", r)
		}
	}
	// If the program is not runsc, the error has what it printed.
	odd := filepath.Join(t.TempDir(), "runsc")
	testenv.WriteProgram(t, odd, []byte("#!/bin/sh\necho this is no gVisor >&2\nexit 3\n"))
	_, err := open(t, gvisor.Options{Path: odd}).Run(t.Context(), sh("true"))
	if u, ok := errors.AsType[*sandbox.Unavailable](err); !ok || u.Missing.Primitive != "runsc" || u.Missing.Detail != "this is no gVisor" {
		t.Errorf("%v", err)
	}
}

func TestHowProgramsEnd(t *testing.T) {
	t.Parallel()
	s := open(t, gvisor.Options{})
	for text, want := range map[string]sandbox.Result{
		"exit 0":                    {Exit: 0},
		"exit 137":                  {Exit: 137}, // not a signal
		"kill -9 $$":                {Exit: -1, Signal: "SIGKILL"},
		"kill -SEGV $$":             {Exit: -1, Signal: "SIGSEGV"},
		"sleep 100 & echo started":  {Exit: 0},
		"trap '' TERM; kill -9 1":   {Exit: 1}, // the program cannot kill the first process
		"cat; echo err >&2; exit 4": {Exit: 4},
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			j := sh(text)
			j.Stdin = strings.NewReader("typed\n")
			r := run(t, s, j)
			if r.Exit != want.Exit || r.Signal != want.Signal || r.Limit != "" {
				t.Errorf("ended with %d %s%s: %s", r.Exit, r.Signal, r.Limit, r.Stderr)
			}
			if r.Backend != "gvisor" || r.Level != sandbox.L3 || r.Wall <= 0 || r.CPU < 0 || r.MaxRSS <= 0 {
				t.Errorf("%+v", r)
			}
			if strings.HasPrefix(text, "cat") && (string(r.Stdout) != "typed\n" || string(r.Stderr) != "err\n") {
				t.Errorf("wrote %q and %q", r.Stdout, r.Stderr)
			}
		})
	}
}

func TestProgramsThatDoNotStart(t *testing.T) {
	t.Parallel()
	s := open(t, gvisor.Options{})
	for name, j := range map[string]sandbox.Job{
		"no such program":          {Argv: []string{"no-such-program"}, Env: env},
		"no such file":             {Argv: []string{"/usr/bin/no-such-program"}, Env: env},
		"no program":               {Argv: []string{"/etc/passwd"}, Env: env},
		"PATH with its own folder": {Argv: []string{"here"}, Env: []string{"PATH=.:"}, Dir: "/skills/a", Trees: []sandbox.Tree{{Path: "/skills/a", Files: []sandbox.File{{Path: "here", Exec: true, Data: []byte("#!/bin/sh\n")}}}}},
		"no such folder":           {Argv: []string{"true"}, Env: env, Dir: "/nowhere"},
		"nonsense":                 {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := s.Run(t.Context(), j)
			if u, ok := errors.AsType[*sandbox.Unavailable](err); err == nil || ok {
				t.Errorf("%+v %v %v", r, err, u)
			}
		})
	}
}

func TestTreesAreReadOnlyAndComplete(t *testing.T) {
	t.Parallel()
	s := open(t, gvisor.Options{})
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	j := sh(`ls -ln /skills/a/scripts | awk '{print $1, $3, $5, $9}'; . /skills/a/scripts/lib.sh; /skills/a/scripts/run; sha256sum < /skills/b/c/big
for f in "> /skills/a/x" "> /skills/a/scripts/lib.sh"; do (eval "echo x $f") 2>/dev/null && echo "$f"; done
chmod u+w /skills/a/scripts/lib.sh 2>/dev/null && echo chmod; rm -f /skills/a/scripts/lib.sh 2>/dev/null && echo rm; mount -o remount,rw /skills 2>/dev/null && echo remount; true`)
	j.Trees = []sandbox.Tree{
		{Path: "/skills/a", Files: []sandbox.File{{Path: "scripts/lib.sh", Data: []byte("echo sourced\n")}, {Path: "scripts/run", Exec: true, Data: []byte("#!/bin/sh\necho ran\n")}}},
		{Path: "/skills/b/c", Files: []sandbox.File{{Path: "big", Data: big}}},
	}
	prints(t, s, j, "total   \n-r--r--r-- 0 13 lib.sh\n-r-xr-xr-x 0 19 run\nsourced\nran\n"+"aca1cd027e979588d14b877b7b0cb8585ad9fec599eb45801992ee5382b3760f  -\n")
}
