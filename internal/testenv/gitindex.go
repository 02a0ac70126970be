package testenv

import "encoding/binary"

// A GitEntry is one entry of a git index. In version 4, Cut is how many bytes of the previous name
// are removed.
type GitEntry struct {
	Mode     uint32
	Name     string
	Cut      byte
	Extended bool
}

// GitIndex returns an index with hashes of hash bytes.
func GitIndex(version uint32, hash int, entries ...GitEntry) []byte {
	b := binary.BigEndian.AppendUint32([]byte("DIRC"), version)
	b = binary.BigEndian.AppendUint32(b, uint32(len(entries)))
	before := 0
	for _, e := range entries {
		head := make([]byte, 42+hash)
		binary.BigEndian.PutUint32(head[24:], e.Mode)
		length := len(e.Name)
		if version == 4 {
			length += before - int(e.Cut)
		}
		before = length
		binary.BigEndian.PutUint16(head[len(head)-2:], uint16(min(length, 0xfff)))
		if e.Extended {
			head[len(head)-2] |= 0x40
			head = append(head, 0, 0)
		}
		if version == 4 {
			b = append(append(append(append(b, head...), e.Cut), e.Name...), 0)
			continue
		}
		head = append(head, e.Name...)
		b = append(append(b, head...), make([]byte, 8-len(head)%8)...)
	}
	return append(append(b, "TREE\x00\x00\x00\x03abc"...), make([]byte, hash)...)
}
