package host

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"metier/internal/intake"
)

// toolsChanged is the only server notification that is used.
const toolsChanged = "notifications/tools/list_changed"

// heard handles a notification of the server. None is passed on to the library, which queues them
// without a limit and handles them more slowly than it reads them.
func (c *connection) heard(method string) {
	if method != toolsChanged {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dirty = true
}

// events is a stream of server-sent events without what the library reads past,
// such as comments, and without notifications. The data of each event is checked
// as the one message that the library makes of its lines.
type events struct {
	c     *connection
	lines *bufio.Reader
	most  int // bytes of one event

	out bytes.Buffer // what was not read yet of the last event
	err error        // what follows it
}

func newEvents(c *connection, r io.Reader) *events {
	return &events{c: c, lines: bufio.NewReader(r), most: c.host.opts.Message}
}

func (e *events) Read(p []byte) (int, error) {
	for e.out.Len() == 0 {
		if e.err != nil {
			return 0, e.err
		}
		e.err = e.next()
	}
	return e.out.Read(p)
}

// next reads one event.
func (e *events) next() error {
	var data, kept bytes.Buffer
	guard := intake.Guard{Many: mostValues}
	size, lines, message := 0, 0, true
	for {
		line, err := e.line(e.most - size)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		size += len(line)
		switch name, value, field := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(":")); {
		case len(name) == 0 && !field: // the event ends
			e.pass(data.Bytes(), lines > 0 && message, kept.Bytes())
			return err
		case !field, string(name) == "id", string(name) == "retry": // the library refuses a line that is no field
			kept.Write(append(bytes.TrimRight(line, "\r\n"), '\n'))
		case string(name) == "event":
			value = bytes.TrimSpace(value)
			message = len(value) == 0 || string(value) == "message"
		case string(name) == "data":
			if value = bytes.TrimSpace(value); lines > 0 {
				value = append([]byte("\n"), value...)
			}
			lines++
			if err := e.c.checked(&guard, value); err != nil {
				return err
			}
			data.Write(value)
		}
		if err != nil {
			e.pass(data.Bytes(), lines > 0 && message, kept.Bytes())
			return err
		}
	}
}

// line reads a line with its end.
func (e *events) line(most int) (line []byte, err error) {
	for {
		part, err := e.lines.ReadSlice('\n')
		if line = append(line, part...); len(line) > most {
			return nil, e.c.tooMuch()
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// pass writes what the library is to read of an event.
func (e *events) pass(data []byte, message bool, kept []byte) {
	if message && len(data) > 0 {
		m, _ := jsonrpc.DecodeMessage(data) // the library says what is wrong with it
		if r, is := m.(*jsonrpc.Request); is && !r.IsCall() {
			e.c.heard(r.Method)
			message = false
		}
	}
	e.out.Write(kept)
	if message {
		for line := range bytes.SplitSeq(data, []byte("\n")) {
			e.out.WriteString("data: ")
			e.out.Write(line)
			e.out.WriteByte('\n')
		}
	}
	if e.out.Len() > 0 {
		e.out.WriteByte('\n')
	}
}
