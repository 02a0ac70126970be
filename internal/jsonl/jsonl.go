// Package jsonl reads and appends files of one record per line. It knows lines,
// not their meaning: where each begins, whether the last one was finished, and
// how to leave a file as it was when a write fails halfway.
package jsonl

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"iter"
)

// Line is one line of a file.
type Line struct {
	N     int    // 1, 2, …
	Off   int64  // where it begins
	Size  int64  // bytes without the newline
	Bytes []byte // without the newline; valid until the next line; nil when Long
	Torn  bool   // the input ends without a newline
	Long  bool   // longer than the limit
}

const skipped = 256 << 20 // bytes of one line past its limit

// Scan yields the lines of r, which starts at offset off of its file. Lines
// longer than limit bytes come without their bytes, so that memory stays
// bounded whatever r holds. An error of r ends the iteration.
//
// A line that goes on for more than 256 MiB past limit ends it: it is told as
// Long with the size that was seen, and what is behind it is not looked for, or
// a file without content could be read for hours.
func Scan(r io.Reader, off int64, limit int) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		br := bufio.NewReaderSize(r, 32<<10)
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
