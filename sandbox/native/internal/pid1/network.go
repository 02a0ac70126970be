//go:build linux && (amd64 || arm64)

package pid1

import (
	"syscall"
	"unsafe"

	"metier/sandbox/native/internal/plan"
)

// network brings up loopback and sends a listener on it to the parent, if the plan requests it.
// Otherwise all interfaces stay down.
func network(p *plan.Plan) {
	if p.Port == 0 {
		return
	}
	s, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	must("loopback", err, "")
	req := struct {
		name  [16]byte
		flags uint16
		_     [22]byte
	}{flags: syscall.IFF_UP}
	copy(req.name[:], "lo")
	_, errno := call(syscall.SYS_IOCTL, uintptr(s), syscall.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&req)), 0, 0, 0)
	need("loopback", errno, "")
	closefd(s)
	l, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	must("listen", err, "")
	must("listen", syscall.Bind(l, &syscall.SockaddrInet4{Port: int(p.Port), Addr: [4]byte{127, 0, 0, 1}}), "")
	must("listen", syscall.Listen(l, 128), "")
	answer(plan.Answer{Kind: plan.Listens}, syscall.UnixRights(l))
	closefd(l)
}
