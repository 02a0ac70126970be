// Package output keeps what a program writes, as far as its limit goes.
package output

import (
	"io"
	"log/slog"
)

// A program that writes more than its limit goes on: what comes after is read,
// counted and dropped, since many a program says too much and then does its
// work. One that writes drain times as much is ended.
const drain = 8

// Stream keeps the first bytes of one stream of a job.
type Stream struct {
	Max   int64     // bytes that are kept
	To    io.Writer // gets them as they come; nil: nobody does
	Flood func()    // called when there is far too much, perhaps again
	Log   *slog.Logger

	Kept  []byte
	total int64
}

// Truncated reports whether there was more than was kept.
func (s *Stream) Truncated() bool { return s.total > s.Max }

// Read reads to the end of the stream, which comes when the last process that
// holds it has ended.
func (s *Stream) Read(r io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if room := min(s.Max-s.total, int64(n)); room > 0 {
			s.Kept = append(s.Kept, buf[:room]...)
			s.pass(buf[:room])
		}
		s.total += int64(n)
		if s.total > drain*s.Max {
			s.Flood()
		}
		if err != nil {
			return
		}
	}
}

// pass hands bytes on; a writer that fails gets no more, and the job goes on.
func (s *Stream) pass(b []byte) {
	if s.To == nil {
		return
	}
	if _, err := s.To.Write(b); err != nil {
		s.Log.Warn("the output of a sandbox is passed on no more", "error", err)
		s.To = nil
	}
}
