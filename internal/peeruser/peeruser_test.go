package peeruser_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"metier/internal/peeruser"
	"metier/internal/testenv"
)

func listen(t *testing.T, address string) *net.TCPListener {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.(*net.TCPListener)
}

func pair(t *testing.T, l net.Listener, network string) (server, client net.Conn) {
	t.Helper()
	client, err := net.Dial(network, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return server, client
}

func needLinux(t *testing.T) {
	t.Helper()
	if err := peeruser.Works(t.Context()); runtime.GOOS == "linux" && err != nil {
		t.Fatal(err)
	} else if runtime.GOOS != "linux" {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("want %v, got %v", errors.ErrUnsupported, err)
		}
		testenv.Skip(t, "only Linux tells whose a connection is")
	}
}

func TestAllowed_OwnProcesses(t *testing.T) {
	t.Parallel()
	needLinux(t)
	for _, address := range []string{"127.0.0.1:0", "127.8.7.6:0", "[::1]:0"} {
		server, _ := pair(t, listen(t, address), "tcp")
		if err := peeruser.Allowed(server.LocalAddr(), server.RemoteAddr()); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// The kernel says that a closed socket is root's, so a client must not get in by closing at once.
func TestAllowed_ClosedConnections(t *testing.T) {
	t.Parallel()
	needLinux(t)
	server, client := pair(t, listen(t, "127.0.0.1:0"), "tcp")
	client.Close()
	if err := peeruser.Allowed(server.LocalAddr(), server.RemoteAddr()); err == nil || !strings.Contains(err.Error(), "is closed") {
		t.Errorf("closed: %v", err)
	}
	server, client = pair(t, listen(t, "127.0.0.1:0"), "tcp")
	if err := client.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if err := peeruser.Allowed(server.LocalAddr(), server.RemoteAddr()); err == nil || !strings.Contains(err.Error(), "is closed") {
		t.Errorf("half closed: %v", err)
	}
}

// The kernel answers with the listener when no connection has the addresses.
func TestAllowed_NoConnection(t *testing.T) {
	t.Parallel()
	needLinux(t)
	l := listen(t, "127.0.0.1:0")
	if err := peeruser.Allowed(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9}, l.Addr()); err == nil {
		t.Error("a listener passes as the other end")
	}
	if err := peeruser.Allowed(&net.UnixAddr{Name: "x"}, l.Addr()); err == nil {
		t.Error("an address of another kind passes")
	}
}

// A client's socket can be for IPv6, and connected to an IPv4 address, as in Java.
func TestAllowed_Users(t *testing.T) {
	t.Parallel()
	needLinux(t)
	own := os.Geteuid()
	users := map[int]string{own: ""}
	if own == 0 { // only root can start a process of another user
		users[65534] = "runs as user 65534, and this one as user 0"
	}
	setpriv := testenv.NeedTool(t, "setpriv", "util-linux")
	for _, hosts := range [][2]string{{"127.0.0.1", "127.0.0.1"}, {"127.0.0.1", "::ffff:127.0.0.1"}, {"::1", "::1"}} {
		l := listen(t, net.JoinHostPort(hosts[0], "0"))
		for uid, want := range users {
			cmd := exec.CommandContext(t.Context(), setpriv, "bash", "-c", fmt.Sprintf("exec 3<>/dev/tcp/%s/%d; cat <&3", hosts[1], l.Addr().(*net.TCPAddr).Port))
			if uid != own {
				cmd.Args = slices.Insert(cmd.Args, 1, "--reuid="+strconv.Itoa(uid), "--clear-groups")
			}
			cmd.Dir = "/"
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if err := l.SetDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			server, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			err = peeruser.Allowed(server.LocalAddr(), server.RemoteAddr())
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s, user %d: want %q, got %v", hosts[1], uid, want, err)
			}
			server.Close()
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		}
	}
}
