// Package output keeps the output of a program up to a limit.
package output

import (
	"io"
	"log/slog"
)

// drain is the multiple of the output limit at which a program is ended. Up to then, output beyond
// the limit is read, counted, and dropped, since many programs print too much and still do their
// work.
const drain = 8

// Stream keeps the first bytes of an output stream of a job.
type Stream struct {
	Max   int64     // number of bytes to keep
	To    io.Writer // receives the kept bytes as they arrive; may be nil
	Flood func()    // called on far too much output, possibly more than once
	Log   *slog.Logger

	Kept  []byte
	total int64
}

// Truncated reports whether output was dropped.
func (s *Stream) Truncated() bool { return s.total > s.Max }

// Read reads to the end of the stream, which is reached when the last process that holds it ends.
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

// pass writes bytes to To. After an error it stops writing, and the job continues.
func (s *Stream) pass(b []byte) {
	if s.To == nil {
		return
	}
	if _, err := s.To.Write(b); err != nil {
		s.Log.Warn("the output of a sandbox is passed on no more", "error", err)
		s.To = nil
	}
}
