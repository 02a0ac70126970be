package peeruser

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Layout of a question to the kernel's sock_diag interface and of its answer: a netlink header, then
// inet_diag_req_v2 or inet_diag_msg. Both contain an inet_diag_sockid.
const (
	header   = unix.SizeofNlMsghdr
	sockid   = 48
	question = header + 8 + sockid
	answer   = header + 4 + sockid + 20
	states   = 1 << established
	// established is TCP_ESTABLISHED. A socket that its process has closed is in another state, and
	// the kernel then names root as its owner.
	established = 1
)

// owner returns the user whose process opened the socket at one end of an open connection.
func owner(local, remote netip.AddrPort) (int, error) {
	family := uint8(unix.AF_INET)
	if local.Addr().Is6() {
		family = unix.AF_INET6
	}
	q := make([]byte, 0, question)
	q = binary.NativeEndian.AppendUint32(q, question)
	q = binary.NativeEndian.AppendUint16(q, unix.SOCK_DIAG_BY_FAMILY)
	q = binary.NativeEndian.AppendUint16(q, unix.NLM_F_REQUEST)
	q = binary.NativeEndian.AppendUint64(q, 1) // sequence number, and port 0
	q = append(q, family, unix.IPPROTO_TCP, 0, 0)
	q = binary.NativeEndian.AppendUint32(q, states)
	q = append(q, socketID(local, remote)...)
	a, err := ask(q)
	if err != nil {
		return 0, fmt.Errorf("the kernel does not report which user opened the connection from %s: %w", local, err)
	}
	if len(a) < header+4 || binary.NativeEndian.Uint16(a[4:]) != unix.SOCK_DIAG_BY_FAMILY || len(a) < answer {
		return 0, fmt.Errorf("the connection from %s is closed", local)
	}
	body := a[header:]
	// Without an open connection, the kernel answers with a socket that listens at the port.
	same := endpoint(body[0], body[4:], body[8:]) == local && endpoint(body[0], body[6:], body[24:]) == remote
	uid, inode := binary.NativeEndian.Uint32(body[4+sockid+12:]), binary.NativeEndian.Uint32(body[4+sockid+16:])
	if body[1] != established || inode == 0 || !same {
		return 0, fmt.Errorf("the connection from %s is closed", local)
	}
	if err := known(uid); err != nil {
		return 0, fmt.Errorf("which user opened the connection from %s cannot be determined: %w", local, err)
	}
	return int(uid), nil
}

// known returns an error if the kernel may have named the overflow user for users who have no ID in
// this user namespace.
func known(uid uint32) error {
	overflow, err := os.ReadFile("/proc/sys/kernel/overflowuid")
	if err != nil {
		return err
	}
	users, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return err
	}
	if strings.TrimSpace(string(overflow)) != strconv.FormatUint(uint64(uid), 10) || slices.Equal(strings.Fields(string(users)), []string{"0", "0", "4294967295"}) {
		return nil
	}
	return fmt.Errorf("in this user namespace, %d stands for every user without an ID", uid)
}

// socketID is the inet_diag_sockid of any socket with these addresses.
func socketID(local, remote netip.AddrPort) []byte {
	id := make([]byte, sockid)
	binary.BigEndian.PutUint16(id[0:], local.Port())
	binary.BigEndian.PutUint16(id[2:], remote.Port())
	copy(id[4:20], local.Addr().AsSlice())
	copy(id[20:36], remote.Addr().AsSlice())
	for i := 40; i < sockid; i++ { // any cookie
		id[i] = 0xff
	}
	return id
}

// endpoint is one end of a socket in an answer. A socket for IPv6 can be connected to an IPv4 address.
func endpoint(family uint8, port, address []byte) netip.AddrPort {
	ip := netip.AddrFrom4([4]byte(address))
	if family == unix.AF_INET6 {
		ip = netip.AddrFrom16([16]byte(address)).Unmap()
	}
	return netip.AddrPortFrom(ip, binary.BigEndian.Uint16(port))
}

// ask sends a netlink message and returns the answer.
func ask(q []byte) ([]byte, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5}); err != nil {
		return nil, os.NewSyscallError("setsockopt", err)
	}
	if err := unix.Sendto(fd, q, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, os.NewSyscallError("sendto", err)
	}
	a := make([]byte, 4096)
	for {
		n, _, err := unix.Recvfrom(fd, a, 0)
		if err != unix.EINTR {
			return a[:max(n, 0)], os.NewSyscallError("recvfrom", err)
		}
	}
}
