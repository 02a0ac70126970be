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
