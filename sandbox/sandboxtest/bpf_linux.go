package sandboxtest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// Instruction is one of a filter of system calls, as the kernel has it.
type Instruction struct {
	Code   uint16
	Jt, Jf uint8
	K      uint32
}

// Filter is a program of classic BPF over the facts of a system call.
type Filter []Instruction

// allow is the verdict by which a call goes through.
const allow = 0x7fff0000

// Architectures as audit names them.
const (
	archAMD64 = 0xC000003E
	archARM64 = 0xC00000B7
	archI386  = 0x40000003
)

// machine is the architecture of this process, and its number.
func machine() (uint32, bool) {
	a, ok := map[string]uint32{"amd64": archAMD64, "arm64": archARM64}[runtime.GOARCH]
	return a, ok
}

// Run gives the verdict over one system call.
func (f Filter) Run(arch, nr uint32, args ...uint64) (uint32, error) {
	data := make([]byte, 64)
	binary.LittleEndian.PutUint32(data, nr)
	binary.LittleEndian.PutUint32(data[4:], arch)
	for i, a := range args {
		binary.LittleEndian.PutUint64(data[16+8*i:], a)
	}
	var a, x uint32
	var mem [16]uint32
	for pc := 0; pc < len(f); pc++ {
		in := f[pc]
		operand := in.K
		if in.Code&0x08 != 0 && in.Code&0x07 >= 0x04 {
			operand = x
		}
		switch in.Code & 0x07 {
		case 0x00, 0x01: // load
			v := in.K
			switch in.Code & 0xe0 {
			case 0x20:
				if in.K%4 != 0 || int(in.K)+4 > len(data) {
					return 0, fmt.Errorf("instruction %d reads at %d", pc, in.K)
				}
				v = binary.LittleEndian.Uint32(data[in.K:])
			case 0x60:
				v = mem[in.K&15]
			case 0x80:
				v = uint32(len(data))
			}
			if in.Code&0x07 == 0 {
				a = v
			} else {
				x = v
			}
		case 0x02:
			mem[in.K&15] = a
		case 0x03:
			mem[in.K&15] = x
		case 0x04:
			var err error
			if a, err = compute(in.Code&0xf0, a, operand); err != nil {
				return 0, fmt.Errorf("instruction %d: %w", pc, err)
			}
		case 0x05:
			if in.Code&0xf0 == 0 {
				pc += int(in.K)
				continue
			}
			yes := map[uint16]bool{0x10: a == operand, 0x20: a > operand, 0x30: a >= operand, 0x40: a&operand != 0}[in.Code&0xf0]
			if yes {
				pc += int(in.Jt)
			} else {
				pc += int(in.Jf)
			}
		case 0x06:
			if in.Code&0x18 == 0x10 {
				return a, nil
			}
			return in.K, nil
		case 0x07:
			if in.Code&0x80 != 0 {
				a = x
			} else {
				x = a
			}
		}
	}
	return 0, errors.New("the filter gives no verdict")
}

func compute(op uint16, a, b uint32) (uint32, error) {
	switch op {
	case 0x00:
		return a + b, nil
	case 0x10:
		return a - b, nil
	case 0x20:
		return a * b, nil
	case 0x40:
		return a | b, nil
	case 0x50:
		return a & b, nil
	case 0x60:
		return a << b, nil
	case 0x70:
		return a >> b, nil
	case 0xa0:
		return a ^ b, nil
	}
	return 0, fmt.Errorf("operation %#x is not known", op)
}

// refuses fails if a call goes through.
func (f Filter) refuses(arch, nr uint32, args ...uint64) error {
	v, err := f.Run(arch, nr, args...)
	if err != nil {
		return err
	}
	switch v & 0xffff0000 {
	case 0x80000000, 0, 0x00050000: // the process is killed, the thread is, an error
		return nil
	}
	return fmt.Errorf("call %#x of architecture %#x with %#x is answered with %#x", nr, arch, args, v)
}

// works fails if a filter lets nothing through: it would refuse for the wrong
// reason.
func (f Filter) works() error {
	arch, ok := machine()
	if !ok {
		return fmt.Errorf("the architecture %s has no table", runtime.GOARCH)
	}
	if v, err := f.Run(arch, unix.SYS_WRITE, 1, 0, 1); err != nil || v != allow {
		return fmt.Errorf("write is answered with %#x, %w", v, err)
	}
	if v, err := f.Run(arch, unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM, 0); err != nil || v != allow {
		return fmt.Errorf("socket of internet is answered with %#x, %w", v, err)
	}
	return nil
}

const x32Bit = 0x40000000

func refusesX32(f Filter) error {
	errs := []error{f.works()}
	for nr := range uint32(1024) {
		errs = append(errs, f.refuses(archAMD64, nr|x32Bit), f.refuses(archI386, nr))
	}
	return errors.Join(errs...)
}

func refusesTerminals(f Filter) error {
	arch, _ := machine()
	errs := []error{f.works()}
	for _, request := range []uint64{unix.TIOCSTI, 0x541C} {
		for _, high := range []uint64{0, 1 << 32, 0xffffffff << 32} {
			errs = append(errs, f.refuses(arch, unix.SYS_IOCTL, 0, request|high, 0))
		}
	}
	return errors.Join(errs...)
}

func refusesFamilies(f Filter) error {
	arch, _ := machine()
	errs := []error{f.works()}
	for family := range uint64(64) {
		switch family {
		case unix.AF_UNIX, unix.AF_INET, unix.AF_INET6:
			continue
		}
		errs = append(errs, f.refuses(arch, unix.SYS_SOCKET, family, unix.SOCK_RAW, 0), f.refuses(arch, unix.SYS_SOCKETPAIR, family, unix.SOCK_STREAM, 0),
			f.refuses(arch, unix.SYS_SOCKET, family|1<<32, unix.SOCK_RAW, 0))
	}
	return errors.Join(errs...)
}

// refusesArchitectures lets the same number mean another call elsewhere.
func refusesArchitectures(f Filter) error {
	own, _ := machine()
	errs := []error{f.works()}
	for _, arch := range []uint32{archI386, archAMD64, archARM64, 0x40000028 /* arm */, 0xC00000F3 /* riscv64 */, 0x80000016 /* s390x */, 0xC0000015 /* ppc64le */, 0xC0000102 /* loongarch64 */, 0, 1, 0xffffffff} {
		for nr := range uint32(600) {
			if arch != own {
				errs = append(errs, f.refuses(arch, nr))
			}
		}
	}
	return errors.Join(errs...)
}
