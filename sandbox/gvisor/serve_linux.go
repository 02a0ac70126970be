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

// socketPair returns two connected sockets.
func socketPair() ([2]*os.File, error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return [2]*os.File{}, err
	}
	return [2]*os.File{os.NewFile(uintptr(fds[0]), "proxy"), os.NewFile(uintptr(fds[1]), "proxy")}, nil
}

// serve passes the program's connections to its proxy until conn ends. The caller must close conn.
func serve(conn io.ReadWriteCloser, proxy func(net.Listener)) {
	l := &listener{conns: make(chan net.Conn, guest.MaxStreams), ended: make(chan struct{})}
	m := guest.NewMux(conn, guest.MaxStreams, func(uint32) (guest.Stream, error) { return l.open() })
	var carrying sync.WaitGroup
	carrying.Go(func() {
		_ = m.Run() // ends with the sandbox
		_ = l.Close()
	})
	proxy(l)
	_ = l.Close() // accepted connections continue
	carrying.Wait()
}

// listener is the listener that a proxy accepts connections from.
type listener struct {
	conns chan net.Conn
	ended chan struct{}

	mu     sync.Mutex
	closed bool
}

// open creates a connection: one end for the proxy, the other for the Mux.
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

// offer queues c to be accepted, unless the queue is full or the proxy has ended.
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

// Close closes the listener and all connections that were not accepted.
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

// address is the listener's address as the program sees it.
type address struct{}

func (address) Network() string { return "tcp" }
func (address) String() string  { return sandbox.ProxyAddr }
