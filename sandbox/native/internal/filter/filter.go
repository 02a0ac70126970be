// Package filter makes the system call filter of a sandbox: a classic BPF
// program for each architecture, without a library, so that what the kernel is
// given can be read, kept as a golden file and tested by interpreting it.
//
// The filter forbids what would reach the kernel behind the back of namespaces
// and Landlock, and everything newer than the calls it knows. It is the third
// lock, not the first.
package filter

import (
	"encoding/binary"
	"slices"
)

// Inst is struct sock_filter.
type Inst struct {
	Code   uint16
	Jt, Jf uint8
	K      uint32
}

// The operations used.
const (
	Load    = 0x20 // word at K of struct seccomp_data
	Equal   = 0x15
	AtLeast = 0x35
	Any     = 0x45 // a bit of K is set
	Return  = 0x06
	Jump    = 0x05 // over K instructions
)

// The answers used.
const (
	Allow        = 0x7fff0000
	Kill         = 0x80000000 // the process
	NotPermitted = 0x00050000 | 1
	NotThere     = 0x00050000 | 38
	Nothing      = 0x00050000 // the call is not made, and says that it was
)

// Offsets in struct seccomp_data; the low half of argument i is at Arg + 8 i.
const (
	Nr   = 0
	Arch = 4
	Arg  = 16
)

// newest is the last call that is known here; what is newer does not exist in
// the sandbox.
const newest = 466

// Arches are the architectures that have a filter, as GOARCH names them.
func Arches() []string { return []string{"amd64", "arm64"} }

// audit is AUDIT_ARCH_X86_64 and AUDIT_ARCH_AARCH64.
var audit = map[string]uint32{"amd64": 0xC000003E, "arm64": 0xC00000B7}

const (
	setIDs = 0o6000
	// CLONE_NEW* of clone(2); CLONE_NEWTIME shares its bit with a signal there.
	newNamespaces = 0x7E020000
	// O_CREAT and O_TMPFILE: only then open has a mode.
	creates = 0o100 | 0o20000000

	tiocsti, tioclinux, tiocsetd = 0x5412, 0x541C, 0x5423
	unix, inet, inet6            = 1, 2, 10
	datagram                     = 2 // a bit of SOCK_DGRAM and SOCK_RAW, and of no other type

	shared, anonymous = 0x01, 0x20 // MAP_SHARED and MAP_ANONYMOUS

	solSocket                                  = 1
	sndBuf, rcvBuf, sndBufForced, rcvBufForced = 7, 8, 32, 33
)

// deny refuses if a bit of mask is set in argument i.
func deny(i int, mask uint32) []Inst {
	return []Inst{{Load, 0, 0, uint32(Arg + 8*i)}, {Any, 0, 1, mask}, {Return, 0, 0, NotPermitted}}
}

// arguments are the calls that are judged by what they are given. All values
// are compared as 32 bits, which is how the kernel reads them: a compare of 64
// bits is passed by setting a high one.
var arguments = []struct {
	call  call
	check []Inst
}{
	{clone, deny(0, newNamespaces)},
	// The terminal's input queue, the console's selection, line disciplines.
	{ioctl, []Inst{{Load, 0, 0, Arg + 8}, {Equal, 2, 0, tiocsti}, {Equal, 1, 0, tioclinux}, {Equal, 0, 1, tiocsetd}, {Return, 0, 0, NotPermitted}}},
	{socket, families},
	{socketpair, connected},
	// A set-uid file in a workspace would be a program of the workspace's owner
	// for everybody on the host.
	{chmod, deny(1, setIDs)},
	{fchmod, deny(1, setIDs)},
	{fchmodat, deny(2, setIDs)},
	{fchmodat2, deny(2, setIDs)},
	{creat, deny(1, setIDs)},
	{mknod, deny(1, setIDs)},
	{mknodat, deny(2, setIDs)},
	{open, opens(1)},
	{mmap, []Inst{{Load, 0, 0, Arg + 24}, {Any, 0, 2, anonymous}, {Any, 0, 1, shared}, {Return, 0, 0, NotPermitted}}},
	{setsockopt, buffers},
	{openat, opens(2)},
}

// families are those of sockets that stay inside: a network namespace does not
// stop the others, and a socket of the host may lie in the workspace, where
// whoever listens would hand over what a program may not open.
var families = []Inst{{Load, 0, 0, Arg}, {Equal, 2, 0, inet}, {Equal, 1, 0, inet6}, {Return, 0, 0, NotPermitted}}

// connected are pairs that stay connected to each other: those of datagrams can
// be sent to any socket that has a path.
var connected = []Inst{{Load, 0, 0, Arg}, {Equal, 1, 0, unix}, {Return, 0, 0, NotPermitted}, {Load, 0, 0, Arg + 8}, {Any, 0, 1, datagram}, {Return, 0, 0, NotPermitted}}

// buffers are of the size that every socket has. What waits in them is memory of
// no process; a watch counts sockets instead. A kernel cuts what it is asked for
// without a word too, so programs do not mind.
var buffers = []Inst{{Load, 0, 0, Arg + 8}, {Equal, 0, 6, solSocket}, {Load, 0, 0, Arg + 16}, {Equal, 3, 0, sndBuf}, {Equal, 2, 0, rcvBuf},
	{Equal, 1, 0, sndBufForced}, {Equal, 0, 1, rcvBufForced}, {Return, 0, 0, Nothing}}

// opens is deny for the mode of an open with flags in argument i.
func opens(i int) []Inst {
	return append([]Inst{{Load, 0, 0, uint32(Arg + 8*i)}, {Any, 0, 3, creates}}, deny(i+1, setIDs)...)
}

// Program is the filter of an architecture; false: there is none, and without
// a filter nothing may run.
//
// The calls are found by halving: the kernel runs a new filter once for each
// call it knows, to remember those that are always allowed, and a list would
// make that the longest part of a launch.
func Program(arch string) ([]Inst, bool) {
	token, ok := audit[arch]
	if !ok {
		return nil, false
	}
	p := []Inst{{Load, 0, 0, Arch}, {Equal, 1, 0, token}, {Return, 0, 0, Kill}, {Load, 0, 0, Nr}}
	if arch == "amd64" { // x32 has the same token and other numbers
		p = append(p, Inst{AtLeast, 0, 1, 0x40000000}, Inst{Return, 0, 0, Kill})
	}
	return append(p, halve(spans(arch))...), true
}

// span is a run of numbers with the same answer, up to the next span.
type span struct {
	first uint32
	act   []Inst
}

func spans(arch string) []span {
	special := map[uint32][]Inst{newest + 1: {{Return, 0, 0, NotThere}}}
	for _, a := range arguments {
		if nr := a.call.nr(arch); nr != none {
			special[uint32(nr)] = append(slices.Clone(a.check), Inst{Return, 0, 0, Allow})
		}
	}
	for answer, calls := range map[uint32][]call{NotThere: absent, NotPermitted: forbidden} {
		for _, c := range calls {
			if nr := c.nr(arch); nr != none {
				special[uint32(nr)] = []Inst{{Return, 0, 0, answer}}
			}
		}
	}
	all := []span{{0, []Inst{{Return, 0, 0, Allow}}}}
	for nr := range uint32(newest + 2) {
		act, ok := special[nr]
		if !ok {
			act = []Inst{{Return, 0, 0, Allow}}
		}
		if last := &all[len(all)-1]; nr == 0 {
			last.act = act
		} else if !slices.Equal(last.act, act) {
			all = append(all, span{nr, act})
		}
	}
	return all
}

// halve finds the span of a number. Conditional jumps reach 255 instructions,
// the other kind reaches all.
func halve(all []span) []Inst {
	if len(all) == 1 {
		return all[0].act
	}
	mid := len(all) / 2
	low, high := halve(all[:mid]), halve(all[mid:])
	p := []Inst{{AtLeast, uint8(min(len(low), 255)), 0, all[mid].first}}
	if len(low) > 255 {
		p = []Inst{{AtLeast, 0, 1, all[mid].first}, {Jump, 0, 0, uint32(len(low))}}
	}
	return append(append(p, low...), high...)
}

// Bytes is the program as the kernel takes it, on little-endian machines, which
// all of Arches are.
func Bytes(p []Inst) []byte {
	b := make([]byte, 0, 8*len(p))
	for _, i := range p {
		b = binary.LittleEndian.AppendUint16(b, i.Code)
		b = append(b, i.Jt, i.Jf)
		b = binary.LittleEndian.AppendUint32(b, i.K)
	}
	return b
}
