//go:build linux && (amd64 || arm64)

package native

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/sys/unix"

	"metier/sandbox"
)

// pageSize is the smallest size of a page. All of it is readable, or none.
const pageSize = 4096

// memory reads the memory of a process. Other than /proc/PID/mem, the call also works for a process
// that is not dumpable.
type memory struct {
	tid  int
	page uint64 // address of buf
	full bool   // buf is valid
	buf  [pageSize]byte
}

func (m *memory) of(tid int) { m.tid, m.full = tid, false }

// from returns the bytes from an address to the end of its page.
func (m *memory) from(address uint64) ([]byte, error) {
	page := address &^ (pageSize - 1)
	if !m.full || m.page != page {
		m.full = false
		local := []unix.Iovec{{Base: &m.buf[0], Len: pageSize}}
		n, err := unix.ProcessVMReadv(m.tid, local, []unix.RemoteIovec{{Base: uintptr(page), Len: pageSize}}, 0)
		if err != nil {
			return nil, err
		}
		if n != pageSize {
			return nil, unix.EFAULT
		}
		m.page, m.full = page, true
	}
	return m.buf[address-page:], nil
}

// text reads a string that ends with a NUL byte. cut reports that it is longer than most bytes.
func (m *memory) text(address uint64, most int) (s string, cut bool, err error) {
	var b []byte
	for {
		part, err := m.from(address)
		if err != nil {
			return "", false, err
		}
		end := bytes.IndexByte(part, 0)
		if end >= 0 {
			part = part[:end]
		}
		if len(b)+len(part) > most {
			return "", true, nil
		}
		if b = append(b, part...); end >= 0 {
			return string(b), false, nil
		}
		address += uint64(len(part))
	}
}

// word reads a pointer, which may cross pages.
func (m *memory) word(address uint64) (uint64, error) {
	var b [8]byte
	for n := 0; n < len(b); {
		part, err := m.from(address + uint64(n))
		if err != nil {
			return 0, err
		}
		n += copy(b[n:], part)
	}
	return binary.LittleEndian.Uint64(b[:]), nil
}

// list reads the arguments of a program. cut reports that the last ones are missing.
func (m *memory) list(address uint64) (list []string, cut bool, err error) {
	if address == 0 {
		return nil, false, nil
	}
	const batch = 32 // pointers that are read before the page of the strings replaces theirs
	left := sandbox.MaxExecBytes
	for {
		var pointers []uint64
		for range batch {
			p, err := m.word(address)
			if err != nil {
				return nil, false, err
			}
			if pointers = append(pointers, p); p == 0 {
				break
			}
			address += 8
		}
		for _, p := range pointers {
			if p == 0 {
				return list, false, nil
			}
			if len(list) == sandbox.MaxExecArgs {
				return list, true, nil
			}
			s, cut, err := m.text(p, left)
			if err != nil || cut {
				return list, cut, err
			}
			list, left = append(list, s), left-len(s)
		}
	}
}
