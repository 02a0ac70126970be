// Package filter generates the system call filter of a sandbox: a classic BPF program for each
// architecture. It uses no library, so that the generated program can be read, stored as a golden
// file, and tested by interpreting it.
//
// The filter denies calls that bypass namespaces and Landlock, and all calls newer than those it
// knows. It is the third line of defense, not the first. A sandbox with its own kernel takes the
// part that does not depend on the host's kernel.
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

// Operations.
const (
	Load    = 0x20 // word at K of struct seccomp_data
	Equal   = 0x15
	AtLeast = 0x35
	Any     = 0x45 // tests whether a bit of K is set
	Return  = 0x06
	Jump    = 0x05 // skips K instructions
)

// Return values.
const (
	Allow        = 0x7fff0000
	Kill         = 0x80000000 // kills the process
	NotPermitted = 0x00050000 | 1
	NotThere     = 0x00050000 | 38
	NotSupported = 0x00050000 | 95
	Invalid      = 0x00050000 | 22
	NoProtocol   = 0x00050000 | 93
	Nothing      = 0x00050000 // skips the call and reports success
	Busy         = 0x00050000 | 16
	Notify       = 0x7fc00000 // asks the process that has the listener
)

// Offsets in struct seccomp_data; the low half of argument i is at Arg + 8 i.
const (
	Nr   = 0
	Arch = 4
	Arg  = 16
)

// newest is the highest call number that the filter knows. Newer calls fail as unimplemented.
const newest = 466

// audit maps the architectures that have a filter, as GOARCH values, to AUDIT_ARCH_X86_64 and
// AUDIT_ARCH_AARCH64.
var audit = map[string]uint32{"amd64": 0xC000003E, "arm64": 0xC00000B7}

const (
	setIDs = 0o6000
	// The CLONE_NEW* flags of clone(2), without CLONE_NEWTIME, which shares its bit with a signal
	// there.
	newNamespaces = 0x7E020000
	// O_CREAT and O_TMPFILE: open has a mode only with these flags.
	creates = 0o100 | 0o20000000

	unix, inet, inet6 = 1, 2, 10
	datagram          = 2 // a bit of SOCK_DGRAM and SOCK_RAW only

	shared, anonymous = 0x01, 0x20 // MAP_SHARED and MAP_ANONYMOUS

	solSocket                                  = 1
	sndBuf, rcvBuf, sndBufForced, rcvBufForced = 7, 8, 32, 33
	zeroCopy                                   = 60
	upperLayer                                 = 31 // TCP_ULP

	icmp, tcp, udp, icmp6 = 1, 6, 17, 58
	otherTypes            = 0xC // bits of the types other than streams, datagrams, and raw sockets

	limitCore = 4

	setLease = 1024

	newListener = 8 // SECCOMP_FILTER_FLAG_NEW_LISTENER
)

// deny returns a check that denies a call if a bit of mask is set in argument i.
func deny(i int, mask uint32) []Inst {
	return []Inst{{Load, 0, 0, uint32(Arg + 8*i)}, {Any, 0, 1, mask}, {Return, 0, 0, NotPermitted}}
}

// requests are those of ioctl that are denied: terminal input injection, console selection, and line
// disciplines; subvolumes and snapshots of btrfs and bcachefs, because a snapshot of the workspace
// contains what mounts hide there, and a read-only subvolume cannot be quarantined.
var requests = []uint32{0x5412, 0x541C, 0x5423,
	0x50009401, 0x5000940E, 0x5000940F, 0x50009417, 0x50009418, 0x5000943F, 0x4008941A, 0x4020BC10, 0x4020BC11}

// denyAny returns a check that denies a call if argument i is one of some values.
func denyAny(i int, values []uint32) []Inst {
	check := []Inst{{Load, 0, 0, uint32(Arg + 8*i)}}
	for n, v := range values {
		left := uint8(len(values) - 1 - n)
		check = append(check, Inst{Equal, left, 0, v})
		if left == 0 {
			check[len(check)-1].Jf = 1
		}
	}
	return append(check, Inst{Return, 0, 0, NotPermitted})
}

// argument is a call filtered by its arguments.
type argument struct {
	call  call
	check []Inst
}

// arguments are the calls filtered by their arguments. All values are compared as 32 bits, like in
// the kernel. A 64-bit comparison could be bypassed by setting a high bit.
var arguments = []argument{
	{clone, deny(0, newNamespaces)},
	{ioctl, denyAny(1, requests)},
	// A set-uid file in a workspace would let everyone on the host run it as the workspace's owner.
	{chmod, deny(1, setIDs)},
	{fchmod, deny(1, setIDs)},
	{fchmodat, deny(2, setIDs)},
	{fchmodat2, deny(2, setIDs)},
	{creat, deny(1, setIDs)},
	{mknod, deny(1, setIDs)},
	{mknodat, deny(2, setIDs)},
	{open, opens(1)},
	{openat, opens(2)},
	// A lease makes every other process that opens the file wait, also on the host.
	{fcntl, []Inst{{Load, 0, 0, Arg + 8}, {Equal, 0, 1, setLease}, {Return, 0, 0, NotPermitted}}},
}

// hostArguments are also filtered if the host's kernel runs the program. A kernel of the sandbox's
// own has no sockets of the host, and its memory is counted as a whole.
var hostArguments = []argument{
	{socket, families},
	{socketpair, connected},
	{mmap, []Inst{{Load, 0, 0, Arg + 24}, {Any, 0, 2, anonymous}, {Any, 0, 1, shared}, {Return, 0, 0, NotPermitted}}},
	{setsockopt, options},
	{setrlimit, []Inst{{Load, 0, 0, Arg}, {Equal, 0, 1, limitCore}, {Return, 0, 0, Nothing}}},
	{prlimit64, cores},
	{schedSetparam, only(0)},
	{schedSetscheduler, only(0)},
	{schedSetaffinity, only(0)},
	{schedSetattr, only(0)},
	{setpriority, only(0, 0)},
	{ioprioSet, only(1, 0)},
}

// only returns a check that denies a call unless its first arguments have these values: for calls that
// schedule processes, those that are about the calling thread. The process that ends a job has the same
// user, and must not wait for the CPU.
func only(values ...uint32) []Inst {
	var check []Inst
	for i, v := range values {
		check = append(check, Inst{Load, 0, 0, uint32(Arg + 8*i)}, Inst{Equal, 1, 0, v}, Inst{Return, 0, 0, NotPermitted})
	}
	return check
}

// cores ignores requests to set the limit for core dumps. It is 1: with any other, the kernel starts the
// host's program for core dumps.
var cores = []Inst{{Load, 0, 0, Arg + 8}, {Equal, 0, 5, limitCore}, {Load, 0, 0, Arg + 16}, {Equal, 0, 2, 0}, {Load, 0, 0, Arg + 20}, {Equal, 1, 0, 0},
	{Return, 0, 0, Nothing}}

// families allows only socket families confined to the sandbox, and of their protocols TCP, UDP, and
// ICMP, for which the kernel loads no modules. A network namespace does not confine other families. A
// host socket in the workspace could pass descriptors to a program that must not open them.
var families = []Inst{{Load, 0, 0, Arg}, {Equal, 2, 0, inet}, {Equal, 1, 0, inet6}, {Return, 0, 0, NotPermitted},
	{Load, 0, 0, Arg + 8}, {Any, 6, 0, otherTypes}, {Load, 0, 0, Arg + 16},
	{Equal, 5, 0, 0}, {Equal, 4, 0, icmp}, {Equal, 3, 0, tcp}, {Equal, 2, 0, udp}, {Equal, 1, 0, icmp6}, {Return, 0, 0, NoProtocol}}

// connected allows only socket pairs that stay connected to each other. Datagram sockets can send
// to any socket that has a path.
var connected = []Inst{{Load, 0, 0, Arg}, {Equal, 1, 0, unix}, {Return, 0, 0, NotPermitted}, {Load, 0, 0, Arg + 8}, {Any, 0, 1, datagram}, {Return, 0, 0, NotPermitted}}

// options ignores requests to change the size of socket buffers. Data in them is not part of any
// process's memory, so sockets are counted instead. The kernel also silently reduces requested
// sizes, so programs can handle it. options denies sending without a copy, see pinning, and protocols
// on top of TCP, for which the kernel loads modules.
var options = []Inst{{Load, 0, 0, Arg + 8}, {Equal, 0, 8, solSocket}, {Load, 0, 0, Arg + 16}, {Equal, 4, 0, sndBuf}, {Equal, 3, 0, rcvBuf},
	{Equal, 2, 0, sndBufForced}, {Equal, 1, 0, rcvBufForced}, {Equal, 1, 6, zeroCopy}, {Return, 0, 0, Nothing}, {Return, 0, 0, NotPermitted},
	{Equal, 0, 3, tcp}, {Load, 0, 0, Arg + 16}, {Equal, 0, 1, upperLayer}, {Return, 0, 0, NotPermitted}}

// opens is like deny, for the mode of an open call with flags in argument i.
func opens(i int) []Inst {
	return append([]Inst{{Load, 0, 0, uint32(Arg + 8*i)}, {Any, 0, 3, creates}}, deny(i+1, setIDs)...)
}

// Program returns the filter for an architecture, or false if there is none. Without a filter,
// nothing may run.
func Program(arch string) ([]Inst, bool) {
	return program(arch, slices.Concat(arguments, hostArguments), slices.Concat(absent, hostAbsent), pinning)
}

// OwnKernel is like Program, for programs in a sandbox that has its own kernel.
func OwnKernel(arch string) ([]Inst, bool) { return program(arch, arguments, absent, nil) }

// program returns the filter with some of the tables.
//
// Calls are found by binary search: the kernel runs a new filter once for every call it knows, to
// cache those that are always allowed. With a linear list, that would dominate the launch time.
func program(arch string, checked []argument, missing, unfit []call) ([]Inst, bool) {
	token, ok := audit[arch]
	if !ok {
		return nil, false
	}
	p := []Inst{{Load, 0, 0, Arch}, {Equal, 1, 0, token}, {Return, 0, 0, Kill}, {Load, 0, 0, Nr}}
	if arch == "amd64" { // x32 has the same token but other numbers
		p = append(p, Inst{AtLeast, 0, 1, 0x40000000}, Inst{Return, 0, 0, Kill})
	}
	return append(p, halve(spans(arch, checked, missing, unfit))...), true
}

// Starts returns a second filter for an architecture, for jobs whose programs are checked before they
// start: it reports calls that start a program to a listener. It also denies filters with another
// listener, whose answer could replace that of the first one.
func Starts(arch string) ([]Inst, bool) {
	token, ok := audit[arch]
	if !ok {
		return nil, false
	}
	nr := func(c call) uint32 { return uint32(c.nr(arch)) }
	return []Inst{{Load, 0, 0, Arch}, {Equal, 1, 0, token}, {Return, 0, 0, Kill}, {Load, 0, 0, Nr},
		{Equal, 1, 0, nr(execve)}, {Equal, 0, 1, nr(execveat)}, {Return, 0, 0, Notify},
		{Equal, 0, 3, nr(seccomp)}, {Load, 0, 0, Arg + 8}, {Any, 0, 1, newListener}, {Return, 0, 0, Busy},
		{Return, 0, 0, Allow}}, true
}

// span is a range of call numbers with the same result. It ends at the next span.
type span struct {
	first uint32
	act   []Inst
}

func spans(arch string, checked []argument, missing, unfit []call) []span {
	special := map[uint32][]Inst{newest + 1: {{Return, 0, 0, NotThere}}}
	for _, a := range checked {
		if nr := a.call.nr(arch); nr != none {
			special[uint32(nr)] = append(slices.Clone(a.check), Inst{Return, 0, 0, Allow})
		}
	}
	for answer, calls := range map[uint32][]call{NotThere: missing, NotPermitted: forbidden, NotSupported: attributes, Invalid: unfit} {
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

// halve generates the binary search. Conditional jumps reach only 255 instructions, unconditional
// ones any number.
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

// Bytes encodes a program for the kernel. All of Arches are little-endian.
func Bytes(p []Inst) []byte {
	b := make([]byte, 0, 8*len(p))
	for _, i := range p {
		b = binary.LittleEndian.AppendUint16(b, i.Code)
		b = append(b, i.Jt, i.Jf)
		b = binary.LittleEndian.AppendUint32(b, i.K)
	}
	return b
}
