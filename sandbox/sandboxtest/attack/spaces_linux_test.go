package main

import (
	"runtime"
	"syscall"
	"testing"
)

// The garbage collector asks goroutines to yield, and a child forked in that moment has nobody to
// yield to. The children end with this test's thread.
func TestForked_NeverHangsWhileGarbageIsCollected(t *testing.T) {
	runtime.LockOSThread()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	}()
	for range 50 {
		if err := forked(unshareUser); err != nil && err != error(syscall.EPERM) {
			t.Fatal(err)
		}
	}
}
