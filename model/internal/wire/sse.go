package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// Event is one server-sent event.
type Event struct {
	Name string // its "event" field, "" for a plain message
	Data []byte // its "data" fields, joined by line feeds; valid until the next event is read
	Open bool   // the stream ended without the empty line that closes an event, so Data may be cut
}

// Errors that end a Reader, in addition to those of the underlying reader.
var (
	errLongEvent  = errors.New("the event is too long")
	errLongStream = errors.New("the stream is too long")
)

var byteOrderMark = []byte("\xEF\xBB\xBF")

// Reader reads server-sent events (WHATWG HTML 9.2.6). Lines end with CRLF, LF or CR. It ignores a
// byte order mark at the start, lines that begin with a colon, and fields other than event and
// data. Unlike a browser it also returns a last event without its empty line, because some proxies
// drop that. It returns an event without waiting for bytes that follow it.
type Reader struct {
	src    *bufio.Reader
	event  int   // most bytes of the lines of one event
	left   int64 // bytes the stream may still have
	begun  bool
	skipLF bool // the last line ended with CR, to which a LF would belong
	err    error
	line   []byte
	data   []byte
}

// NewReader returns a Reader of r that limits the bytes of an event and of the stream.
func NewReader(r io.Reader, event int, stream int64) *Reader {
	return &Reader{src: bufio.NewReaderSize(r, 16<<10), event: event, left: stream}
}

// Next returns the next event with a data field. The error is io.EOF at the end of the stream.
// Errors are permanent.
func (r *Reader) Next() (Event, error) {
	e, fields, size := Event{}, 0, 0
	r.data = r.data[:0]
	for r.err == nil {
		if !r.next(r.event-size) && len(r.line) == 0 {
			break
		}
		size += len(r.line)
		line := r.line
		if !r.begun {
			r.begun = true
			line = bytes.TrimPrefix(line, byteOrderMark)
		}
		if len(line) == 0 {
			if fields > 0 {
				e.Data = r.data
				return e, nil
			}
			e, size = Event{}, 0
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			e.Name = string(value)
		case "data":
			if fields++; fields > 1 {
				r.data = append(r.data, '\n')
			}
			r.data = append(r.data, value...)
		}
	}
	if r.err == io.EOF && fields > 0 {
		e.Data, e.Open = r.data, true
		return e, nil
	}
	return Event{}, r.err
}

// next reads a line of at most limit bytes into r.line, without its line ending. If it returns
// false, r.err is the reason, and r.line is not empty only if the stream ended inside the line.
func (r *Reader) next(limit int) bool {
	r.line = r.line[:0]
	for {
		if _, err := r.src.Peek(1); err != nil {
			if r.err = err; err != io.EOF {
				r.line = r.line[:0]
			}
			return false
		}
		b, _ := r.src.Peek(r.src.Buffered()) // these bytes are there
		used, ended := len(b), false
		if r.skipLF && b[0] == '\n' {
			used, b = 1, nil
		} else if at := lineEnd(b); at >= 0 {
			used, ended = at+1, true
			b = b[:at]
		}
		r.skipLF = false
		r.line = append(r.line, b...)
		r.left -= int64(used)
		switch {
		case len(r.line) > limit:
			r.err = errLongEvent
		case r.left < 0:
			r.err = errLongStream
		}
		if r.err != nil {
			r.line = r.line[:0]
			return false
		}
		if ended {
			last, _ := r.src.Peek(used)
			r.skipLF = last[used-1] == '\r'
		}
		_, _ = r.src.Discard(used) // they are buffered
		if ended {
			return true
		}
	}
}

// lineEnd returns the index of the first CR or LF.
func lineEnd(b []byte) int {
	at := bytes.IndexByte(b, '\n')
	head := b
	if at >= 0 {
		head = b[:at]
	}
	if cr := bytes.IndexByte(head, '\r'); cr >= 0 {
		return cr
	}
	return at
}
