package gvisor

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"

	"metier/sandbox"
	"metier/sandbox/gvisor/internal/guest"
)

// socketPair is two connected sockets.
func socketPair() ([2]*os.File, error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return [2]*os.File{}, err
	}
	return [2]*os.File{os.NewFile(uintptr(fds[0]), "proxy"), os.NewFile(uintptr(fds[1]), "proxy")}, nil
}

// serve hands what the program opens to its proxy, and carries it until conn
// ends, which is the caller's to bring about.
func serve(conn io.ReadWriteCloser, proxy func(net.Listener)) {
	l := &listener{conns: make(chan net.Conn, guest.MaxStreams), ended: make(chan struct{})}
	m := guest.NewMux(conn, guest.MaxStreams, func(uint32) (guest.Stream, error) { return l.open() })
	var carrying sync.WaitGroup
	carrying.Go(func() {
		_ = m.Run() // it ends with the sandbox
		_ = l.Close()
	})
	proxy(l)
	_ = l.Close() // what was accepted goes on
	carrying.Wait()
}

// listener is what a proxy accepts from.
type listener struct {
	conns chan net.Conn
	ended chan struct{}

	mu     sync.Mutex
	closed bool
}

// open makes a connection: one end for the proxy, the other to be carried.
func (l *listener) open() (guest.Stream, error) {
	pair, err := socketPair()
	if err != nil {
		return nil, err
	}
	var ends [2]net.Conn
	for i, f := range pair {
		ends[i], err = net.FileConn(f)
		_ = f.Close() // ends[i] has its own
		if err != nil {
			break
		}
	}
	if err == nil {
		if err = l.offer(ends[0]); err == nil {
			return ends[1].(*net.UnixConn), nil
		}
	}
	for _, c := range ends {
		if c != nil {
			_ = c.Close()
		}
	}
	return nil, err
}

// offer queues c to be accepted, unless the proxy is behind or gone.
func (l *listener) offer(c net.Conn) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return net.ErrClosed
	}
	select {
	case l.conns <- c:
		return nil
	default:
		return errors.New("too many connections wait")
	}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case <-l.ended:
		return nil, net.ErrClosed
	default:
	}
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

// Close ends the listener; what nobody accepted is closed with it.
func (l *listener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	close(l.ended)
	for {
		select {
		case c := <-l.conns:
			_ = c.Close()
		default:
			return nil
		}
	}
}

func (l *listener) Addr() net.Addr { return address{} }

// address is where the program finds the listener.
type address struct{}

func (address) Network() string { return "tcp" }
func (address) String() string  { return sandbox.ProxyAddr }
