package gvisor

import "bytes"

// limited keeps the first 64 KiB.
type limited struct{ w *bytes.Buffer }

func (l *limited) Write(b []byte) (int, error) {
	l.w.Write(b[:min(len(b), max(0, 64<<10-l.w.Len()))])
	return len(b), nil
}
