//go:build unix

package signals_test

import (
	"syscall"
	"testing"

	"metier/sandbox/internal/signals"
)

func TestEverySignalHasAName(t *testing.T) {
	t.Parallel()
	for s := syscall.Signal(1); s <= 64; s++ {
		if signals.Name(s) == "" {
			t.Errorf("signal %d has no name", int(s))
		}
	}
	if got := signals.Name(syscall.SIGXFSZ); got != "SIGXFSZ" {
		t.Errorf("got %q", got)
	}
}
