package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Connections out of the machine, and to its other programs.
var _ = learn(map[string]func([]string) error{
	"dial":    dial,
	"resolve": resolve,
	"ping":    ping,
	"socket":  socket,
	"receive": receive,
	"relay":   relay,
})

// dial sends a word to each network and address: WORD NETWORK ADDRESS …
func dial(a []string) error {
	var failed error
	for i := 1; i+1 < len(a); i += 2 {
		c, err := net.DialTimeout(a[i], a[i+1], 2*time.Second)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			failed = err
			continue
		}
		if _, err := c.Write([]byte(a[0] + "\n")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			failed = err
		}
		if a[i] == "tcp" || a[i] == "unix" { // until the listener recorded it
			_ = c.SetReadDeadline(time.Now().Add(2 * time.Second))
			b := make([]byte, 256)
			n, _ := c.Read(b)
			fmt.Printf("%s %q\n", a[i+1], b[:n])
		}
		_ = c.Close()
	}
	return failed
}

func resolve(a []string) error {
	r := net.Resolver{PreferGo: true}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	list, err := r.LookupHost(ctx, a[0])
	fmt.Println(list)
	return err
}

// ping sends an echo request through a raw socket, or through the kind that
// ordinary users may open.
func ping(a []string) error {
	var failed error
	for _, kind := range []int{unix.SOCK_RAW, unix.SOCK_DGRAM} {
		fd, err := unix.Socket(unix.AF_INET, kind, unix.IPPROTO_ICMP)
		if err != nil {
			failed = err
			continue
		}
		to := &unix.SockaddrInet4{}
		copy(to.Addr[:], net.ParseIP(a[0]).To4())
		echo := []byte{8, 0, 0xf7, 0xff, 0, 0, 0, 0}
		if failed = unix.Sendto(fd, echo, 0, to); failed == nil {
			return nil
		}
	}
	return failed
}

// socket creates a socket of a family and holds: FAMILY TYPE PROTOCOL.
func socket(a []string) error {
	var n [3]int
	for i := range n {
		n[i], _ = strconv.Atoi(a[i])
	}
	fd, err := unix.Socket(n[0], n[1], n[2])
	if err != nil {
		return err
	}
	return held(uintptr(fd), 0)
}

// receive receives a descriptor from the listener of a socket, and reads it.
func receive(a []string) error {
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: a[0], Net: "unix"})
	if err != nil {
		return err
	}
	b, oob := make([]byte, 16), make([]byte, 256)
	_, n, _, _, err := c.ReadMsgUnix(b, oob)
	if err != nil {
		return err
	}
	list, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil {
		return err
	}
	for _, m := range list {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			return err
		}
		for _, fd := range fds {
			buf := make([]byte, 256)
			k, _ := unix.Pread(fd, buf, 0)
			fmt.Printf("%q\n", buf[:max(k, 0)])
		}
	}
	return nil
}

// relay sends each word to a proxy as a line: ADDRESS WORD… It holds between
// two words.
func relay(a []string) error {
	for i, word := range a[1:] {
		if i > 0 {
			hold()
		}
		if err := dial([]string{word, "tcp", a[0]}); err != nil {
			return err
		}
	}
	return nil
}
