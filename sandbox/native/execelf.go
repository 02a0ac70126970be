//go:build linux && (amd64 || arm64)

package native

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// mostHeaders is how many bytes of program headers the kernel reads.
const mostHeaders = 64 << 10

// loaderOf returns the program that the kernel starts for an ELF file, which is usually the loader of
// the C library, or "". It looks at what the kernel looks at, and returns "" for a file that the
// kernel would refuse.
func loaderOf(fd int) (string, error) {
	in, err := os.Open(opened(fd))
	if err != nil {
		return "", err
	}
	defer in.Close()
	head := make([]byte, 64)
	if n, err := in.ReadAt(head, 0); n < len(head) || !bytes.HasPrefix(head, []byte("\x7fELF")) {
		return "", short(err)
	}
	at, size, count := binary.LittleEndian.Uint64(head[32:]), int(binary.LittleEndian.Uint16(head[54:])), int(binary.LittleEndian.Uint16(head[56:]))
	if size != 56 || count == 0 || size*count > mostHeaders || at > math.MaxInt64 {
		return "", nil
	}
	table := make([]byte, size*count)
	if n, err := in.ReadAt(table, int64(at)); n < len(table) {
		return "", short(err)
	}
	for p := range slices.Chunk(table, size) {
		if elf.ProgType(binary.LittleEndian.Uint32(p)) != elf.PT_INTERP {
			continue
		}
		from, length := binary.LittleEndian.Uint64(p[8:]), binary.LittleEndian.Uint64(p[32:])
		if length < 2 || length > unix.PathMax || from > math.MaxInt64 {
			return "", nil
		}
		name := make([]byte, length)
		if n, err := in.ReadAt(name, int64(from)); n < len(name) {
			return "", short(err)
		}
		name, _, _ = bytes.Cut(name, []byte{0})
		return string(name), nil
	}
	return "", nil
}

// short returns the error of a read, unless the file is too short.
func short(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
