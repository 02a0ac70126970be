package record

import "os"

// WithWrite makes writes go through w, to inject faults.
func (o Options) WithWrite(w func(f *os.File, b []byte, off int64) (int, error)) *Options {
	o.write = w
	return &o
}

// WithMaxEntries creates a small log.
func (o Options) WithMaxEntries(n uint64) *Options {
	o.maxEntries = n
	return &o
}

// ParseLine parses every stored line.
func ParseLine(b []byte) (Entry, error) {
	l, bad := parse(b)
	if bad != nil {
		return Entry{}, bad
	}
	return l.Entry, nil
}

// Cut is the number of bytes of an unfinished line that opening cut off.
func (b *FileBlobs) Cut() int { return b.cut }

// Damaged is the number of lines in the side file that have no blob.
func (b *FileBlobs) Damaged() int { return b.damaged }
