package guest_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"

	"metier/sandbox/gvisor/internal/guest"
)

func TestPlansTravelWhole(t *testing.T) {
	t.Parallel()
	p := &guest.Plan{Argv: []string{"a", "b c"}, Trees: []guest.Tree{{Path: "/skills/a", Files: []guest.File{{Path: "x", Size: 3}, {Path: "y", Exec: true}}}}}
	var b bytes.Buffer
	if err := p.Write(&b, [][]byte{[]byte("abc"), nil}); err != nil {
		t.Fatal(err)
	}
	whole := b.Bytes()
	got, err := guest.Read(bytes.NewReader(whole))
	if err != nil || !slices.Equal(got.Argv, p.Argv) || got.Trees[0].Files[0].Size != 3 || !got.Trees[0].Files[1].Exec {
		t.Errorf("%+v %v", got, err)
	}
	for n := range whole {
		if _, err := guest.Read(bytes.NewReader(whole[:n])); err == nil {
			t.Errorf("%d of %d bytes were read as a plan", n, len(whole))
		}
	}
	if _, err := guest.Read(bytes.NewReader(bytes.Repeat([]byte{0xff}, 100))); err == nil {
		t.Error("a plan of 2^64 bytes was read")
	}
}

// tcp returns the two ends of a connection.
func tcp(t *testing.T) (*net.TCPConn, *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = a.Close(), b.Close() })
	return a.(*net.TCPConn), b.(*net.TCPConn)
}

// carried is two muxes, and the addresses that the second one was asked to
// open.
func carried(t *testing.T, limit int) (*guest.Mux, <-chan *net.TCPConn) {
	t.Helper()
	inside, outside := tcp(t)
	opened := make(chan *net.TCPConn, 100)
	a := guest.NewMux(inside, limit, nil)
	b := guest.NewMux(outside, limit, func(uint32) (guest.Stream, error) {
		ours, theirs := tcp(t)
		opened <- ours
		return theirs, nil
	})
	var both sync.WaitGroup
	both.Go(func() { _ = a.Run() })
	both.Go(func() { _ = b.Run() })
	t.Cleanup(func() { _, _ = inside.Close(), outside.Close(); both.Wait() })
	return a, opened
}

func TestStreamsDoNotHoldEachOtherUp(t *testing.T) {
	t.Parallel()
	m, opened := carried(t, 10)
	begin := func() (client, server *net.TCPConn) {
		client, end := tcp(t)
		if err := m.Begin(end); err != nil {
			t.Fatal(err)
		}
		return client, <-opened
	}
	// One stream is written to and never read. Only this stream stalls.
	stuck, _ := begin()
	var writing sync.WaitGroup
	writing.Go(func() { _, _ = stuck.Write(make([]byte, 64<<20)) })
	data := bytes.Repeat([]byte("0123456789"), 1<<17)
	var all sync.WaitGroup
	for range 3 {
		client, server := begin()
		all.Go(func() {
			_, _ = client.Write(data)
			_ = client.CloseWrite()
		})
		all.Go(func() {
			_, _ = io.Copy(server, server) // an echo
			_ = server.CloseWrite()
		})
		if got, err := io.ReadAll(client); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes came back, %v", len(got), err)
		}
		_ = client.Close()
	}
	all.Wait()
	_ = stuck.Close()
	writing.Wait()
}

func TestAMuxHasALimit(t *testing.T) {
	t.Parallel()
	m, opened := carried(t, 2)
	for i := range 3 {
		_, end := tcp(t)
		if err := m.Begin(end); (err != nil) != (i == 2) {
			t.Errorf("stream %d: %v", i, err)
		}
		if i < 2 {
			<-opened
		}
	}
}

// What a program that controls the connection may try. Each attempt ends the
// connection.
func TestABrokenProtocolEndsAll(t *testing.T) {
	t.Parallel()
	frame := func(kind byte, id, n uint32, data int) []byte {
		b := binary.LittleEndian.AppendUint32([]byte{kind}, id)
		return append(binary.LittleEndian.AppendUint32(b, n), make([]byte, data)...)
	}
	open := frame('o', 1, 0, 0)
	var flood []byte
	for range 40 {
		flood = append(flood, frame('d', 1, 16<<10, 16<<10)...)
	}
	var many []byte
	for i := range uint32(9) {
		many = append(many, frame('o', i, 0, 0)...)
	}
	for name, b := range map[string][]byte{
		"an unknown kind":     append(open, frame('?', 1, 0, 0)...),
		"a frame too long":    append(open, frame('d', 1, 1<<20, 0)...),
		"a frame of nothing":  append(open, frame('d', 1, 0, 0)...),
		"twice the same":      append(open, open...),
		"too many":            many,
		"more than was asked": append(open, flood...),
		"credit for nothing":  append(open, frame('m', 1, 1000, 0)...),
		"data after its end":  append(append(open, frame('e', 1, 0, 0)...), frame('d', 1, 5, 5)...),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ours, theirs := tcp(t)
			var mu sync.Mutex
			var ends []*net.TCPConn
			m := guest.NewMux(theirs, 8, func(uint32) (guest.Stream, error) {
				a, b := tcp(t) // a is never read
				mu.Lock()
				defer mu.Unlock()
				ends = append(ends, a)
				// Small buffers, so that a flood cannot disappear in them.
				return b, errors.Join(b.SetWriteBuffer(4096), a.SetReadBuffer(4096))
			})
			go func() { _, _ = ours.Write(b) }()
			err := m.Run()
			if err == nil || errors.Is(err, io.EOF) {
				t.Errorf("ended with %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, e := range ends {
				if _, err := io.Copy(io.Discard, e); errors.Is(err, net.ErrClosed) {
					t.Error(err)
				}
			}
		})
	}
}
