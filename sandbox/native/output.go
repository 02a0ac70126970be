//go:build linux && (amd64 || arm64)

package native

import (
	"io"
	"log/slog"
)

// A program that writes more than Limits.Output goes on: what comes after is
// read, counted and dropped, since many a program says too much and then does
// its work. One that writes drain times as much is ended.
const drain = 8

// capture keeps the first bytes of a stream.
type capture struct {
	max   int64
	kept  []byte
	total int64
	to    io.Writer // or nil
	flood func()    // called once there is far too much
	log   *slog.Logger
}

// read reads to the end of the stream, which comes when the last process that
// holds it has ended.
func (c *capture) read(r io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if room := min(c.max-c.total, int64(n)); room > 0 {
			c.kept = append(c.kept, buf[:room]...)
			c.stream(buf[:room])
		}
		c.total += int64(n)
		if c.total > drain*c.max {
			c.flood()
		}
		if err != nil {
			return
		}
	}
}

// stream passes bytes on; a writer that fails gets no more, and the job goes on.
func (c *capture) stream(b []byte) {
	if c.to == nil {
		return
	}
	if _, err := c.to.Write(b); err != nil {
		c.log.Warn("the output of a sandbox is passed on no more", "error", err)
		c.to = nil
	}
}
