//go:build linux && (amd64 || arm64)

package native_test

import (
	"os/exec"
	"slices"
	"testing"
	"time"

	"metier/sandbox"
)

// BenchmarkTrue measures a warm launch in this process. It reports the median of
// its wall times, and next to it that of bubblewrap with the same root if
// bubblewrap is installed. The two run alternately. Compare the ratio: machines
// differ.
func BenchmarkTrue(b *testing.B) {
	s := open(b)
	ours := func() {
		r, err := s.Run(b.Context(), sandbox.Job{Argv: []string{"/usr/bin/true"}, Env: env})
		if err != nil || r.Exit != 0 {
			b.Fatal(r, err)
		}
	}
	bwrap, err := exec.LookPath("bwrap")
	theirs := func() {
		cmd := exec.CommandContext(b.Context(), bwrap, "--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/usr", "/usr",
			"--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "/usr/bin/true")
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
	}
	for range 5 {
		ours()
	}
	var a, z []time.Duration
	for b.Loop() {
		a = append(a, took(ours))
		if err == nil {
			z = append(z, took(theirs))
		}
	}
	b.ReportMetric(median(a), "ms/native")
	if err == nil {
		b.ReportMetric(median(z), "ms/bwrap")
		b.ReportMetric(median(a)/median(z), "ratio")
	}
}

func took(f func()) time.Duration {
	begin := time.Now()
	f()
	return time.Since(begin)
}

func median(d []time.Duration) float64 {
	slices.Sort(d)
	return float64(d[len(d)/2]) / float64(time.Millisecond)
}

// BenchmarkExec starts 1,000 programs in a loop of a shell, without and with a function that is
// asked before each of them.
func BenchmarkExec(b *testing.B) {
	for name, exec := range map[string]func(sandbox.Exec) (bool, error){"unwatched": nil, "watched": func(sandbox.Exec) (bool, error) { return false, nil }} {
		b.Run(name, func(b *testing.B) {
			s := open(b)
			j := shell("i=0; while [ $i -lt 1000 ]; do /bin/true; i=$((i+1)); done")
			j.Exec = exec
			for b.Loop() {
				if r, err := s.Run(b.Context(), j); err != nil || r.Exit != 0 {
					b.Fatal(r, err)
				}
			}
		})
	}
}
