package guest

import (
	"net"
	"os"
)

// listen forwards connections to address to the owner's proxy. gVisor's loopback is private to the
// sandbox.
func listen(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	f := os.NewFile(MuxFD, "proxy")
	m := NewMux(f, MaxStreams, nil)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = m.Begin(c.(*net.TCPConn)) // closes the connection on failure
		}
	}()
	go func() {
		_ = m.Run() // without the owner's proxy, the program has no network
		_ = l.Close()
	}()
	return nil
}
