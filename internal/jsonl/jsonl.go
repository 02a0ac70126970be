// Package jsonl reads and appends files with one record per line. It handles lines, not their
// content: where each begins, whether the last one is complete, and how to restore a file after a
// failed write.
package jsonl

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"iter"
	"sync"
)

// Line is one line of a file.
type Line struct {
	N     int    // 1, 2, …
	Off   int64  // offset of its first byte
	Size  int64  // bytes without the newline
	Bytes []byte // without the newline; valid until the next line; nil when Long
	Torn  bool   // the input ends without a newline
	Long  bool   // longer than the limit
}

const skipped = 256 << 20 // bytes of one line past its limit

var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 32<<10) }}

// Scan returns the lines of r, which starts at offset off of its file. Lines longer than limit
// bytes are returned without their bytes, so that memory use is bounded. An error of r ends the
// iteration.
//
// A line that exceeds limit by more than 256 MiB also ends the iteration. It is returned as Long
// with the size read so far. Without this limit, reading a sparse file could take hours.
func Scan(r io.Reader, off int64, limit int) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		br := readers.Get().(*bufio.Reader)
		br.Reset(r)
		defer func() {
			br.Reset(nil)
			readers.Put(br)
		}()
		var buf []byte
		for n := 1; ; n++ {
			l := Line{N: n, Off: off}
			buf = buf[:0]
			for {
				part, err := br.ReadSlice('\n')
				l.Size += int64(len(part))
				if !l.Long && l.Size > int64(limit)+1 {
					l.Long = true
				}
				if !l.Long {
					buf = append(buf, part...)
				}
				if l.Size > int64(limit)+skipped {
					yield(l, nil)
					return
				}
				if errors.Is(err, bufio.ErrBufferFull) {
					continue
				}
				if err != nil && !errors.Is(err, io.EOF) {
					yield(Line{}, err)
					return
				}
				l.Torn = err != nil
				break
			}
			if l.Torn && l.Size == 0 {
				return
			}
			off += l.Size
			if !l.Torn {
				l.Size--
			}
			l.Long = l.Long || l.Size > int64(limit)
			if !l.Long {
				l.Bytes = bytes.TrimSuffix(buf, []byte("\n"))
			}
			if !yield(l, nil) || l.Torn {
				return
			}
		}
	}
}
