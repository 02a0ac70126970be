package guest

import (
	"encoding/binary"
	"errors"
	"io"
	"sync"
)

// A Mux carries multiple streams over one connection, in frames of at most maxFrame bytes. Each
// side sends at most window unacknowledged bytes per stream, so a stream that is not read does not
// block the others.
type Mux struct {
	conn io.ReadWriteCloser
	open func(id uint32) (Stream, error) // called when the other side begins a stream; nil: it must not

	out     sync.Mutex // serializes frames
	mu      sync.Mutex
	streams map[uint32]*flow
	next    uint32
	limit   int
	ended   bool
	running sync.WaitGroup
}

// Stream is a connection that a Mux carries.
type Stream interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// MaxStreams is the maximum number of concurrent connections of a program.
const MaxStreams = 128

const (
	maxFrame = 16 << 10
	window   = 128 << 10
)

// Kinds of frames.
const (
	frameOpen  = 'o'
	frameData  = 'd'
	frameEnd   = 'e' // no more data
	frameReset = 'r' // both directions are closed
	frameMore  = 'm' // acknowledges a number of bytes
)

// flow is one stream of a Mux.
type flow struct {
	id     uint32
	end    Stream
	mu     sync.Mutex
	cond   *sync.Cond
	queue  [][]byte // to be written to end
	queued int
	eof    bool // no more data after queue
	credit int  // number of bytes that may be sent
	dead   bool
	halves int // number of its two goroutines still running
}

var errMux = errors.New("the other side broke the protocol")

// NewMux creates one side of a connection. It calls open for each stream that the other side
// begins. At most limit streams are open at a time.
func NewMux(conn io.ReadWriteCloser, limit int, open func(id uint32) (Stream, error)) *Mux {
	return &Mux{conn: conn, open: open, streams: map[uint32]*flow{}, limit: limit}
}

// Begin carries end as a new stream and takes ownership of it.
func (m *Mux) Begin(end Stream) error {
	m.mu.Lock()
	if m.ended || len(m.streams) >= m.limit {
		m.mu.Unlock()
		_ = end.Close()
		return errors.New("no stream can be opened")
	}
	m.next++
	f := m.add(m.next, end)
	m.mu.Unlock()
	if err := m.send(frameOpen, f.id, nil); err != nil {
		m.kill(f)
		return err
	}
	m.run(f)
	return nil
}

func (m *Mux) add(id uint32, end Stream) *flow {
	f := &flow{id: id, end: end, credit: window, halves: 2}
	f.cond = sync.NewCond(&f.mu)
	m.streams[id] = f
	return f
}

func (m *Mux) run(f *flow) {
	m.running.Go(func() { m.outward(f) })
	m.running.Go(func() { m.inward(f) })
}

// Run reads frames until the connection ends, then closes every stream.
func (m *Mux) Run() error {
	err := m.read()
	m.mu.Lock()
	m.ended = true
	all := make([]*flow, 0, len(m.streams))
	for _, f := range m.streams {
		all = append(all, f)
	}
	m.mu.Unlock()
	_ = m.conn.Close()
	for _, f := range all {
		m.kill(f)
	}
	m.running.Wait()
	return err
}

func (m *Mux) read() error {
	var head [9]byte
	for {
		if _, err := io.ReadFull(m.conn, head[:]); err != nil {
			return err
		}
		kind, id, n := head[0], binary.LittleEndian.Uint32(head[1:]), binary.LittleEndian.Uint32(head[5:])
		var data []byte
		if kind == frameData {
			if n == 0 || n > maxFrame {
				return errMux
			}
			data = make([]byte, n)
			if _, err := io.ReadFull(m.conn, data); err != nil {
				return err
			}
		}
		if err := m.frame(kind, id, n, data); err != nil {
			return err
		}
	}
}

func (m *Mux) frame(kind byte, id, n uint32, data []byte) error {
	m.mu.Lock()
	f := m.streams[id]
	if kind == frameOpen {
		if f != nil || m.open == nil || len(m.streams) >= m.limit {
			m.mu.Unlock()
			return errMux
		}
		end, err := m.open(id)
		if err != nil {
			m.mu.Unlock()
			return m.send(frameReset, id, nil)
		}
		f = m.add(id, end)
		m.mu.Unlock()
		m.run(f)
		return nil
	}
	m.mu.Unlock()
	if f == nil {
		return nil // closed here before the other side knew
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	defer f.cond.Broadcast()
	switch kind {
	case frameData:
		if f.queued += len(data); f.queued > window || f.eof {
			return errMux
		}
		f.queue = append(f.queue, data)
	case frameEnd:
		f.eof = true
	case frameReset:
		f.dead = true
		_ = f.end.Close()
	case frameMore:
		if f.credit += int(n); n > window || f.credit > window {
			return errMux
		}
	default:
		return errMux
	}
	return nil
}

func (m *Mux) send(kind byte, id uint32, data []byte) error {
	return m.sendN(kind, id, uint32(len(data)), data)
}

func (m *Mux) sendN(kind byte, id, n uint32, data []byte) error {
	b := append(make([]byte, 0, 9+len(data)), kind)
	b = binary.LittleEndian.AppendUint32(b, id)
	b = binary.LittleEndian.AppendUint32(b, n)
	m.out.Lock()
	defer m.out.Unlock()
	_, err := m.conn.Write(append(b, data...))
	return err
}

// outward sends data from the stream's end, as far as the credit allows.
func (m *Mux) outward(f *flow) {
	defer m.half(f)
	b := make([]byte, maxFrame)
	for {
		f.mu.Lock()
		for f.credit == 0 && !f.dead {
			f.cond.Wait()
		}
		n, dead := min(f.credit, maxFrame), f.dead
		f.mu.Unlock()
		if dead {
			return
		}
		got, err := f.end.Read(b[:n])
		if got > 0 {
			f.mu.Lock()
			f.credit -= got
			f.mu.Unlock()
			if m.send(frameData, f.id, b[:got]) != nil {
				m.kill(f)
				return
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			_ = m.send(frameEnd, f.id, nil)
			return
		default:
			_ = m.send(frameReset, f.id, nil)
			m.kill(f)
			return
		}
	}
}

// inward writes received data to the stream's end.
func (m *Mux) inward(f *flow) {
	defer m.half(f)
	for {
		f.mu.Lock()
		for len(f.queue) == 0 && !f.eof && !f.dead {
			f.cond.Wait()
		}
		if f.dead || len(f.queue) == 0 {
			dead := f.dead
			f.mu.Unlock()
			if !dead {
				_ = f.end.CloseWrite()
			}
			return
		}
		data := f.queue[0]
		f.queue = f.queue[1:]
		f.mu.Unlock()
		if _, err := f.end.Write(data); err != nil {
			_ = m.send(frameReset, f.id, nil)
			m.kill(f)
			return
		}
		f.mu.Lock()
		f.queued -= len(data)
		f.mu.Unlock()
		if m.sendN(frameMore, f.id, uint32(len(data)), nil) != nil {
			m.kill(f)
			return
		}
	}
}

// kill closes both directions of a stream.
func (m *Mux) kill(f *flow) {
	f.mu.Lock()
	f.dead = true
	f.cond.Broadcast()
	f.mu.Unlock()
	_ = f.end.Close()
}

// half records that one direction is closed. After the second, it removes the stream.
func (m *Mux) half(f *flow) {
	f.mu.Lock()
	f.halves--
	last := f.halves == 0
	f.mu.Unlock()
	if last {
		_ = f.end.Close()
		m.mu.Lock()
		delete(m.streams, f.id)
		m.mu.Unlock()
	}
}
