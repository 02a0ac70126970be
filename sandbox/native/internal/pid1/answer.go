//go:build linux && (amd64 || arm64)

package pid1

import (
	"syscall"

	"metier/sandbox/native/internal/plan"
)

// answer sends an answer to the parent. Errors are ignored: the parent reports a missing answer
// itself.
func answer(a plan.Answer, rights []byte) {
	_ = syscall.Sendmsg(plan.Control, a.Bytes(), rights, nil, syscall.MSG_NOSIGNAL)
}

// fail ends the sandbox before it starts: the host lacks what step needs.
func fail(step string, err error, detail string) {
	end(plan.Failed, step, err, detail)
}

// refuse ends the sandbox before the program starts because of an error in the job.
func refuse(what string, err error, path string) {
	end(plan.Refused, what, err, path)
}

func end(kind byte, step string, err error, detail string) {
	errno, _ := err.(syscall.Errno)
	answer(plan.Answer{Kind: kind, Errno: uint64(errno), Step: step, Detail: detail}, nil)
	exit()
}

// exit ends this process, and with it all others of the sandbox.
func exit() {
	for {
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
	}
}

// need ends the sandbox if a step failed.
func need(step string, errno syscall.Errno, detail string) {
	if errno != 0 {
		fail(step, errno, detail)
	}
}

// must is need for calls that return an error.
func must(step string, err error, detail string) {
	if err != nil {
		fail(step, err, detail)
	}
}
