package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Attacks that exhaust shared resources, or outlive their job. Each ends by
// itself at a bound, so that it can run in a cage.
var _ = learn(map[string]func([]string) error{
	"forks":     forks,
	"bomb":      bomb,
	"mem":       holding(mem),
	"mem-many":  holding(memMany),
	"mem-memfd": holding(memMemfd),
	"mem-shm":   holding(memShm),
	"shm-of":    shmOf,
	"fill":      holding(fill),
	"fill-one":  holding(fillOne),
	"inodes":    holding(inodes),
	"openfds":   holding(openfds),
	"flood":     flood,
	"spin":      spin,
	"daemon":    daemon,
	"holdout":   holdout,
	"stop":      stop,
})

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

// forks creates idle children.
func forks(a []string) error {
	made := 0
	var failed error
	for range number(a[0]) {
		if failed = forked(onlyStay); failed != nil {
			break
		}
		made++
	}
	fmt.Println("MADE", made)
	hold()
	return failed
}

//go:nosplit
func onlyStay() syscall.Errno { return 0 }

// bomb doubles itself a number of times, each half staying.
func bomb(a []string) error {
	for range number(a[0]) {
		if pid, _, _ := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0); pid == 0 {
			syscall.RawSyscall(syscall.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0)
		}
	}
	for {
		stay()
	}
}

func touch(mb int) error {
	b, err := unix.Mmap(-1, 0, mb<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	return nil
}

// mem allocates MB of memory.
func mem(a []string) error {
	err := touch(number(a[0]))
	if err == nil {
		fmt.Println("TOOK", a[0])
	}
	return err
}

// memMany allocates MB in each of N processes.
func memMany(a []string) error {
	for range number(a[0]) {
		cmd := exec.Command("/proc/self/exe", "mem", a[1])
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if _, err := cmd.StdinPipe(); err != nil {
			return err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		line := make([]byte, 16)
		if n, _ := out.Read(line); !bytes.HasPrefix(line[:n], []byte("TOOK")) {
			return errors.New("a child took no memory")
		}
	}
	return nil
}

// memMemfd allocates MB in each of N memfd files that are never mapped.
func memMemfd(a []string) error {
	chunk := make([]byte, 1<<20)
	took := 0
	for range number(a[0]) {
		fd, err := unix.MemfdCreate("m", 0)
		if err != nil {
			return err
		}
		for range number(a[1]) {
			if _, err := unix.Write(fd, chunk); err != nil {
				return err
			}
			took++
		}
	}
	fmt.Println("TOOK", took)
	return nil
}

// memShm allocates MB in each of N shared memory segments that no process has
// mapped.
func memShm(a []string) error {
	for range number(a[0]) {
		size := number(a[1]) << 20
		id, err := unix.SysvShmGet(unix.IPC_PRIVATE, size, 0o600)
		if err != nil {
			return err
		}
		b, err := unix.SysvShmAttach(id, 0, 0)
		if err != nil {
			return err
		}
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		if err := unix.SysvShmDetach(b); err != nil {
			return err
		}
	}
	return nil
}

// shmOf serves the judge: it prints how many MiB of shared memory segments exist
// in the namespaces of a process. Only a single-threaded child can enter them.
func shmOf(a []string) error {
	for i, ns := range []string{"user", "ipc"} {
		theirs, err := os.Readlink("/proc/" + a[0] + "/ns/" + ns)
		if err != nil {
			return err
		}
		if ours, _ := os.Readlink("/proc/self/ns/" + ns); ours == theirs {
			continue
		}
		if shmSpaces[i], err = unix.Open("/proc/"+a[0]+"/ns/"+ns, unix.O_RDONLY, 0); err != nil {
			return err
		}
	}
	mb := forked(shmUsed)
	if mb == nil {
		mb = syscall.Errno(0)
	}
	n, ok := mb.(syscall.Errno)
	if !ok || n == shmFailed {
		return fmt.Errorf("cannot go where %s lives: %w", a[0], mb)
	}
	fmt.Println(int(n) * 4)
	return nil
}

var (
	shmSpaces [2]int    // namespaces to enter, unless 0
	shmInfo   [8]uint64 // struct shm_info: ids, all pages, resident pages
)

const shmFailed = 255

//go:nosplit
func shmUsed() syscall.Errno {
	for _, fd := range shmSpaces {
		if fd == 0 {
			continue
		}
		if _, _, e := syscall.RawSyscall(unix.SYS_SETNS, uintptr(fd), 0, 0); e != 0 {
			return shmFailed
		}
	}
	const command = 14 // SHM_INFO
	if _, _, e := syscall.RawSyscall(unix.SYS_SHMCTL, 0, command, uintptr(unsafe.Pointer(&shmInfo))); int(e) != 0 {
		return shmFailed
	}
	return syscall.Errno(min(shmInfo[2]*4096>>22, 254)) // in 4 MiB, to fit into a byte
}

// fill writes up to MB into each folder, and holds: MB FOLDER…
func fill(a []string) error {
	chunk := make([]byte, 1<<20)
	total := 0
	for _, dir := range a[1:] {
		for n := 0; n < number(a[0]); {
			f, err := os.CreateTemp(dir, "fill")
			if err != nil {
				break
			}
			before := n
			for range 8 {
				k, err := f.Write(chunk)
				if total += k; err != nil {
					break
				}
				n++
			}
			_ = f.Close()
			if n < before+8 {
				break
			}
		}
	}
	fmt.Println("FILLED", total)
	return nil
}

// fillOne writes up to MB into one file, and holds: MB FILE.
func fillOne(a []string) error {
	f, err := os.Create(a[1])
	if err != nil {
		return err
	}
	chunk := make([]byte, 1<<20)
	for range number(a[0]) {
		if _, err := f.Write(chunk); err != nil {
			fmt.Fprintln(os.Stderr, err)
			break
		}
	}
	return nil
}

// inodes creates up to N files in each folder, and holds: N FOLDER…
func inodes(a []string) error {
	total := 0
	for _, dir := range a[1:] {
		for i := range number(a[0]) {
			if unix.Mknod(dir+"/fill"+strconv.Itoa(i), unix.S_IFREG|0o600, 0) != nil {
				break
			}
			total++
		}
	}
	fmt.Println("MADE", total)
	return nil
}

func openfds(a []string) error {
	made := 0
	for range number(a[0]) {
		if _, err := unix.Open("/dev/null", unix.O_RDONLY, 0); err != nil {
			break
		}
		made++
	}
	fmt.Println("MADE", made)
	return nil
}

// flood writes a number of bytes: WHERE WHAT BYTES.
func flood(a []string) error {
	what := map[string]string{"lines": "all work and no play\n", "plain": "x", "binary": "\x00\xff\x1b\n", "utf8": "\u20ac", "broken": "\xe2\x82"}[a[1]]
	chunk := bytes.Repeat([]byte(what), 1<<15/len(what))
	to := map[string][]*os.File{"stdout": {os.Stdout}, "stderr": {os.Stderr}, "both": {os.Stdout, os.Stderr}}[a[0]]
	for sent := 0; sent < number(a[2]); sent += len(chunk) {
		for _, f := range to {
			if _, err := f.Write(chunk); err != nil {
				return err
			}
		}
	}
	return nil
}

// spin ignores signals that ask it to end, and uses some seconds of processor
// time.
func spin(a []string) error {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGXCPU, syscall.SIGALRM)
	for u := (unix.Rusage{}); u.Utime.Nano()+u.Stime.Nano() < int64(number(a[0]))*1e9; {
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			return err
		}
	}
	fmt.Println("SPUN")
	return nil
}

// daemon leaves a process behind: HOW SECONDS.
func daemon(a []string) error {
	argv := []string{"/proc/self/exe", "linger", a[1]}
	attr := &syscall.SysProcAttr{}
	switch a[0] {
	case "setsid":
		attr.Setsid = true
	case "double": // an orphan of an orphan, in its own session
		argv = []string{"/proc/self/exe", "daemon", "setsid", a[1]}
		attr.Setsid = true
	case "group":
		attr.Setpgid = true
	case "nohup":
		signal.Ignore(syscall.SIGHUP, syscall.SIGTERM)
		attr.Setpgid = true
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = attr
	return cmd.Start()
}

// holdout exits at once, while a child keeps its output open: SECONDS FILE.
func holdout(a []string) error {
	cmd := exec.Command("/proc/self/exe", "linger", a[0], a[1])
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd.Start()
}

// stop stops itself, and prints WOKEN if it is continued.
func stop([]string) error {
	if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
		return err
	}
	fmt.Println("WOKEN")
	return nil
}
