package filter_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/sandbox/internal/filter"
)

var update = flag.Bool("update", false, "write testdata anew")

// arches are the architectures that have a filter.
var arches = []string{"amd64", "arm64"}

// data is struct seccomp_data as words.
type data struct {
	nr, arch uint32
	args     [6]uint64
}

func (d data) word(t *testing.T, off uint32) uint32 {
	switch {
	case off == filter.Nr:
		return d.nr
	case off == filter.Arch:
		return d.arch
	case off >= filter.Arg && off < filter.Arg+48 && off%4 == 0:
		return uint32(d.args[(off-filter.Arg)/8] >> (8 * (off % 8)))
	}
	t.Fatalf("load at %d", off)
	return 0
}

// interpret runs a filter as the kernel does, and makes the kernel's checks:
// every jump goes forward and stays inside, and every path ends.
func interpret(t *testing.T, p []filter.Inst, d data) uint32 {
	t.Helper()
	var a uint32
	for pc := 0; pc < len(p); pc++ {
		i := p[pc]
		jump := func(yes bool) {
			if yes {
				pc += int(i.Jt)
			} else {
				pc += int(i.Jf)
			}
		}
		switch i.Code {
		case filter.Load:
			a = d.word(t, i.K)
		case filter.Equal:
			jump(a == i.K)
		case filter.AtLeast:
			jump(a >= i.K)
		case filter.Any:
			jump(a&i.K != 0)
		case filter.Jump:
			pc += int(i.K)
		case filter.Return:
			return i.K
		default:
			t.Fatalf("instruction %#x", i.Code)
		}
	}
	t.Fatal("the filter does not end")
	return 0
}

var audit = map[string]uint32{"amd64": 0xC000003E, "arm64": 0xC00000B7}

func program(t *testing.T, arch string) []filter.Inst {
	t.Helper()
	p, ok := filter.Program(arch)
	if !ok || len(p) > 4096 {
		t.Fatalf("%v, %d instructions", ok, len(p))
	}
	return p
}

func name(answer uint32) string {
	switch answer {
	case filter.Allow:
		return "allow"
	case filter.Kill:
		return "kill"
	case filter.NotPermitted:
		return "EPERM"
	case filter.NotThere:
		return "ENOSYS"
	case filter.NotSupported:
		return "EOPNOTSUPP"
	case filter.NoProtocol:
		return "EPROTONOSUPPORT"
	case filter.Invalid:
		return "EINVAL"
	case filter.Nothing:
		return "nothing"
	case filter.Busy:
		return "EBUSY"
	case filter.Notify:
		return "notify"
	}
	return fmt.Sprintf("%#x", answer)
}

// table lists the filter's verdict for every number, with all arguments 0 and
// with all bits of all arguments set, as ranges.
func table(t *testing.T, arch string, p []filter.Inst) string {
	ones := [6]uint64{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}
	var b strings.Builder
	last, first := "", uint32(0)
	flush := func(to uint32) {
		if last != "" {
			fmt.Fprintf(&b, "%d-%d %s\n", first, to, last)
		}
	}
	for nr := range uint32(1000) {
		zero := name(interpret(t, p, data{nr: nr, arch: audit[arch]}))
		one := name(interpret(t, p, data{nr: nr, arch: audit[arch], args: ones}))
		now := zero
		if zero != one {
			now += " or " + one
		}
		if now != last {
			if nr > 0 {
				flush(nr - 1)
			}
			last, first = now, nr
		}
	}
	flush(999)
	return b.String()
}

// Review the golden files when they change: they are the only list of what a
// program may ask of the kernel.
func TestTheTablesAreTheGoldenOnes(t *testing.T) {
	t.Parallel()
	for _, arch := range arches {
		golden(t, arch, arch+".golden", program(t, arch))
		golden(t, arch, arch+".starts.golden", starts(t, arch))
		golden(t, arch, arch+".ownkernel.golden", ownKernel(t, arch))
	}
}

func ownKernel(t *testing.T, arch string) []filter.Inst {
	t.Helper()
	p, ok := filter.OwnKernel(arch)
	if !ok {
		t.Fatal("no filter for " + arch)
	}
	return p
}

// A kernel of the sandbox's own has no memory and no sockets of the host. Everything else that is
// denied on the host is denied there too, with the same answer.
func TestOwnKernel_AllowsOnlyMemoryAndSocketsMore(t *testing.T) {
	t.Parallel()
	ones := [6]uint64{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}
	more := map[string][]uint32{
		"amd64": {9, 29, 30, 31, 40, 41, 53, 54, 64, 68, 141, 142, 144, 160, 203, 206, 240, 251, 275, 276, 278, 302, 314, 319, 447},
		"arm64": {0, 30, 71, 75, 76, 77, 118, 119, 122, 140, 164, 180, 186, 190, 194, 195, 196, 198, 199, 208, 222, 261, 274, 279, 447},
	}
	for _, arch := range arches {
		var got []uint32
		for nr := range uint32(1000) {
			for _, args := range [][6]uint64{{}, ones, {3, 1, 7}, {4, 4, 1}} {
				d := data{nr: nr, arch: audit[arch], args: args}
				if interpret(t, program(t, arch), d) != interpret(t, ownKernel(t, arch), d) && !slices.Contains(got, nr) {
					got = append(got, nr)
				}
			}
		}
		if diff := cmp.Diff(more[arch], got); diff != "" {
			t.Errorf("%s: %s", arch, diff)
		}
	}
	if _, ok := filter.OwnKernel("riscv64"); ok {
		t.Error("got a filter for an architecture without a table")
	}
}

func starts(t *testing.T, arch string) []filter.Inst {
	t.Helper()
	p, ok := filter.Starts(arch)
	if !ok {
		t.Fatal("no filter for " + arch)
	}
	return p
}

func golden(t *testing.T, arch, name string, p []filter.Inst) {
	t.Helper()
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s: answers by system call, then the program\n%s\n", arch, table(t, arch, p))
	for _, i := range p {
		fmt.Fprintf(&b, "%02x %d %d %#x\n", i.Code, i.Jt, i.Jf, i.K)
	}
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("%s (run with -update to rewrite it):\n%s", name, diff)
	}
}

// Every call that starts a program is reported, and no other call. A second listener could answer in
// place of the first one.
func TestStarts_ReportsCallsThatStartPrograms(t *testing.T) {
	t.Parallel()
	type nr struct{ amd64, arm64 uint32 }
	const high = 1 << 32
	tests := []struct {
		name string
		call nr
		args [6]uint64
		want uint32
	}{
		{"execve", nr{59, 221}, [6]uint64{}, filter.Notify},
		{"execveat", nr{322, 281}, [6]uint64{0, 0, 0, 0, 0x1000}, filter.Notify},
		{"fork", nr{56, 220}, [6]uint64{17}, filter.Allow},
		{"a filter", nr{317, 277}, [6]uint64{1, 1}, filter.Allow},
		{"a listener", nr{317, 277}, [6]uint64{1, 8}, filter.Busy},
		{"a listener, with other flags", nr{317, 277}, [6]uint64{1, 0x29 | high}, filter.Busy},
	}
	for _, arch := range arches {
		for _, tt := range tests {
			n := map[string]uint32{"amd64": tt.call.amd64, "arm64": tt.call.arm64}[arch]
			if got := interpret(t, starts(t, arch), data{nr: n, arch: audit[arch], args: tt.args}); got != tt.want {
				t.Errorf("%s on %s: %s, want %s", tt.name, arch, name(got), name(tt.want))
			}
		}
		if got := interpret(t, starts(t, arch), data{nr: 59, arch: 0x40000003}); got != filter.Kill {
			t.Errorf("a foreign call on %s: %s", arch, name(got))
		}
	}
	if _, ok := filter.Starts("riscv64"); ok {
		t.Error("got a filter for an architecture without a table")
	}
}

func TestForeignCallsKill(t *testing.T) {
	t.Parallel()
	for _, arch := range arches {
		p := program(t, arch)
		for _, token := range []uint32{0x40000003, 0x40000028, 0xC000003E, 0xC00000B7, 0, ^uint32(0)} {
			want := uint32(filter.Kill)
			if token == audit[arch] {
				want = filter.Allow
			}
			if got := interpret(t, p, data{nr: 3, arch: token}); got != want {
				t.Errorf("%s, token %#x: %s", arch, token, name(got))
			}
		}
		// x32 has the same architecture token and a high bit in the number. The
		// other numbers do not exist in any kernel yet.
		for _, nr := range []uint32{467, 1000, 0x3fffffff, 0x40000000, 0x40000000 | 59, 0x7fffffff, 0x80000000, ^uint32(0)} {
			got := interpret(t, p, data{nr: nr, arch: audit[arch]})
			if got == filter.Allow || arch == "amd64" && nr >= 0x40000000 && got != filter.Kill {
				t.Errorf("%s, call %#x: %s", arch, nr, name(got))
			}
		}
	}
	if _, ok := filter.Program("riscv64"); ok {
		t.Error("got a filter for an architecture without a table")
	}
}

// Arguments are checked by their low half, which is all that the kernel reads
// of them.
func TestArgumentsAreJudged(t *testing.T) {
	t.Parallel()
	const high = 1 << 32
	type nr struct{ amd64, arm64 uint32 }
	clone, ioctl, socket, pair := nr{56, 220}, nr{16, 29}, nr{41, 198}, nr{53, 199}
	fchmod, fchmodat, fchmodat2, openat, mknodat := nr{91, 52}, nr{268, 53}, nr{452, 452}, nr{257, 56}, nr{259, 33}
	tests := []struct {
		name  string
		call  nr
		args  [6]uint64
		allow bool
	}{
		{"thread", clone, [6]uint64{0x3d0f00}, true},
		{"fork", clone, [6]uint64{17}, true},
		{"user namespace", clone, [6]uint64{0x10000000 | 17}, false},
		{"mount namespace", clone, [6]uint64{0x20000}, false},
		{"cgroup namespace", clone, [6]uint64{0x02000000}, false},
		{"uts namespace", clone, [6]uint64{0x04000000}, false},
		{"ipc namespace", clone, [6]uint64{0x08000000}, false},
		{"pid namespace", clone, [6]uint64{0x20000000}, false},
		{"net namespace", clone, [6]uint64{0x40000000 | high}, false},
		{"window size", ioctl, [6]uint64{0, 0x5413}, true},
		{"input", ioctl, [6]uint64{0, 0x5412}, false},
		{"input, with a high bit", ioctl, [6]uint64{0, 0x5412 | high}, false},
		{"console", ioctl, [6]uint64{0, 0x541c | high<<5}, false},
		{"line discipline", ioctl, [6]uint64{0, 0x5423}, false},
		{"snapshot", ioctl, [6]uint64{0, 0x50009417}, false},
		{"snapshot, with a high bit", ioctl, [6]uint64{0, 0x50009401 | high}, false},
		{"subvolume", ioctl, [6]uint64{0, 0x4020bc10}, false},
		{"copy of a file", ioctl, [6]uint64{0, 0x40049409}, true},
		{"unix", socket, [6]uint64{1}, false},
		{"inet", socket, [6]uint64{2}, true},
		{"inet6", socket, [6]uint64{10}, true},
		{"netlink", socket, [6]uint64{16}, false},
		{"packet", socket, [6]uint64{17}, false},
		{"alg", socket, [6]uint64{38}, false},
		{"vsock", socket, [6]uint64{40}, false},
		{"vsock, with a high bit", socket, [6]uint64{40 | high}, false},
		{"unspec", socket, [6]uint64{0}, false},
		{"pair", pair, [6]uint64{1, 1 | 0x80800}, true},
		{"pair of packets", pair, [6]uint64{1, 5}, true},
		{"pair of datagrams", pair, [6]uint64{1, 2 | 0x80000}, false},
		{"raw pair", pair, [6]uint64{1, 3 | high}, false},
		{"pair of tipc", pair, [6]uint64{30}, false},
		{"mode", fchmod, [6]uint64{0, 0o1777}, true},
		{"set-uid", fchmod, [6]uint64{0, 0o4755}, false},
		{"set-gid", fchmodat, [6]uint64{0, 0, 0o2755}, false},
		{"set-uid, newer", fchmodat2, [6]uint64{0, 0, 0o4000 | high}, false},
		{"fifo", mknodat, [6]uint64{0, 0, 0o10644}, true},
		{"set-uid file", mknodat, [6]uint64{0, 0, 0o104755}, false},
		{"read", openat, [6]uint64{0, 0, 0, 0o4000}, true}, // no mode: creates nothing
		{"create", openat, [6]uint64{0, 0, 0o101, 0o644}, true},
		{"create set-uid", openat, [6]uint64{0, 0, 0o101, 0o4755}, false},
		{"private memory", nr{9, 222}, [6]uint64{0, 0, 0, 0x4022}, true},
		{"shared memory of a file", nr{9, 222}, [6]uint64{0, 0, 0, 0x01}, true},
		{"shared memory of nothing", nr{9, 222}, [6]uint64{0, 0, 0, 0x21 | high}, false},
		{"shared memory of nothing, checked", nr{9, 222}, [6]uint64{0, 0, 0, 0x23}, false},
		{"reuse an address", nr{54, 208}, [6]uint64{0, 1, 2}, true},
		{"no delay", nr{54, 208}, [6]uint64{0, 6, 7}, true}, // another level
		{"record lock", nr{72, 25}, [6]uint64{3, 6}, true},
		{"read a lease", nr{72, 25}, [6]uint64{3, 1025}, true},
		{"lease", nr{72, 25}, [6]uint64{3, 1024}, false},
		{"lease, with a high bit", nr{72, 25}, [6]uint64{3, 1024 | high}, false},
		{"unnamed set-gid", openat, [6]uint64{0, 0, 0o20200002, 0o2755}, false},
	}
	for _, tt := range tests {
		for _, arch := range arches {
			n := tt.call.amd64
			if arch == "arm64" {
				n = tt.call.arm64
			}
			got := interpret(t, program(t, arch), data{nr: n, arch: audit[arch], args: tt.args})
			if (got == filter.Allow) != tt.allow || !tt.allow && got != filter.NotPermitted {
				t.Errorf("%s on %s: %s", tt.name, arch, name(got))
			}
		}
	}
}

func TestBuffersOfSocketsStay(t *testing.T) {
	t.Parallel()
	for arch, nr := range map[string]uint32{"amd64": 54, "arm64": 208} {
		for _, option := range []uint64{7, 8, 32, 33, 7 | 1<<32} {
			if got := interpret(t, program(t, arch), data{nr: nr, arch: audit[arch], args: [6]uint64{3, 1, option}}); got != filter.Nothing {
				t.Errorf("option %#x on %s: %s", option, arch, name(got))
			}
		}
	}
}

func TestBytesAreTheKernelsLayout(t *testing.T) {
	t.Parallel()
	got := filter.Bytes([]filter.Inst{{Code: 0x0120, Jt: 3, Jf: 4, K: 0x0a0b0c0d}})
	if diff := cmp.Diff([]byte{0x20, 0x01, 3, 4, 0x0d, 0x0c, 0x0b, 0x0a}, got); diff != "" {
		t.Error(diff)
	}
}
