package main

import (
	"runtime"
	"syscall"
	"testing"
)

// The garbage collector asks goroutines to yield, and a child that is forked at that moment has no
// scheduler to yield to. The children end with this test's thread.
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
