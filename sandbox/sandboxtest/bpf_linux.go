package sandboxtest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Filter is a seccomp program, run over the data of one system call.
type Filter struct{ vm *bpf.VM }

func newFilter(program []bpf.RawInstruction) (Filter, error) {
	list, _ := bpf.Disassemble(program) // the VM rejects instructions it does not know
	vm, err := bpf.NewVM(list)
	return Filter{vm}, err
}

// allow is the verdict that lets a call through.
const allow = 0x7fff0000

// Architectures, as audit encodes them.
const (
	archAMD64 = 0xC000003E
	archARM64 = 0xC00000B7
	archI386  = 0x40000003
)

// machine returns the audit number of this process's architecture.
func machine() (uint32, bool) {
	a, ok := map[string]uint32{"amd64": archAMD64, "arm64": archARM64}[runtime.GOARCH]
	return a, ok
}

// Run returns the verdict for one system call. The VM reads big-endian words;
// the kernel reads words in the byte order of the processor.
func (f Filter) Run(arch, nr uint32, args ...uint64) (uint32, error) {
	data := make([]byte, 64)
	binary.BigEndian.PutUint32(data, nr)
	binary.BigEndian.PutUint32(data[4:], arch)
	for i, a := range args {
		binary.BigEndian.PutUint32(data[16+8*i:], uint32(a))
		binary.BigEndian.PutUint32(data[20+8*i:], uint32(a>>32))
	}
	v, err := f.vm.Run(data)
	return uint32(v), err
}

// refuses returns an error if the call is let through.
func (f Filter) refuses(arch, nr uint32, args ...uint64) error {
	v, err := f.Run(arch, nr, args...)
	if err != nil {
		return err
	}
	switch v & 0xffff0000 {
	case 0x80000000, 0, 0x00050000: // kill the process, kill the thread, return an error
		return nil
	}
	return fmt.Errorf("call %#x of architecture %#x with %#x is answered with %#x", nr, arch, args, v)
}

// works returns an error if a filter lets nothing through. Such a filter would
// refuse attacks for the wrong reason.
func (f Filter) works() error {
	arch, ok := machine()
	if !ok {
		return fmt.Errorf("the architecture %s has no table", runtime.GOARCH)
	}
	if v, err := f.Run(arch, unix.SYS_WRITE, 1, 0, 1); err != nil || v != allow {
		return fmt.Errorf("write is answered with %#x, %w", v, err)
	}
	if v, err := f.Run(arch, unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM, 0); err != nil || v != allow {
		return fmt.Errorf("an internet socket is answered with %#x, %w", v, err)
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

// refusesArchitectures uses numbers that mean other calls on other
// architectures.
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
