package guest

import (
	"encoding/binary"
	"fmt"
	"syscall"
)

// silence removes the addresses of the loopback interface, which gVisor brings up by default. A
// program without a proxy then has no network at all.
func silence() error {
	s, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, syscall.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer func() { _ = syscall.Close(s) }() // no longer needed
	four, six := []byte{127, 0, 0, 1}, make([]byte, 16)
	six[15] = 1
	for _, a := range []struct {
		family, bits byte
		ip           []byte
	}{{syscall.AF_INET, 8, four}, {syscall.AF_INET6, 128, six}} {
		if err := forget(s, a.family, a.bits, a.ip); err != nil && err != syscall.EADDRNOTAVAIL {
			return fmt.Errorf("loopback keeps an address: %w", err)
		}
	}
	return nil
}

// forget sends one RTM_DELADDR for the first interface and reads the response.
func forget(s int, family, bits byte, ip []byte) error {
	le := binary.LittleEndian
	size := syscall.NLMSG_HDRLEN + syscall.SizeofIfAddrmsg + syscall.SizeofRtAttr + len(ip)
	m := le.AppendUint32(nil, uint32(size))
	m = le.AppendUint16(m, syscall.RTM_DELADDR)
	m = le.AppendUint16(m, syscall.NLM_F_REQUEST|syscall.NLM_F_ACK)
	m = append(m, make([]byte, 8)...)             // sequence and port
	m = append(m, family, bits, 0, 0, 1, 0, 0, 0) // interface 1 is loopback
	m = le.AppendUint16(m, uint16(syscall.SizeofRtAttr+len(ip)))
	m = append(le.AppendUint16(m, syscall.IFA_LOCAL), ip...)
	if err := syscall.Sendto(s, m, 0, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}); err != nil {
		return err
	}
	b := make([]byte, 4096)
	n, _, err := syscall.Recvfrom(s, b, 0)
	switch {
	case err != nil:
		return err
	case n < syscall.NLMSG_HDRLEN+4 || le.Uint16(b[4:]) != syscall.NLMSG_ERROR:
		return syscall.EBADMSG
	}
	if code := int32(le.Uint32(b[syscall.NLMSG_HDRLEN:])); code != 0 {
		return syscall.Errno(-code)
	}
	return nil
}
