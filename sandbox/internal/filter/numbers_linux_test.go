package filter_test

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"metier/sandbox/internal/filter"
)

// Compares the numbers of this machine's architecture with another list.
func TestNumbersAreTheKernels(t *testing.T) {
	t.Parallel()
	known := map[string]int{"ptrace": unix.SYS_PTRACE, "mount": unix.SYS_MOUNT, "umount2": unix.SYS_UMOUNT2, "setns": unix.SYS_SETNS, "unshare": unix.SYS_UNSHARE,
		"bpf": unix.SYS_BPF, "keyctl": unix.SYS_KEYCTL, "add_key": unix.SYS_ADD_KEY, "request_key": unix.SYS_REQUEST_KEY, "io_uring_setup": unix.SYS_IO_URING_SETUP,
		"userfaultfd": unix.SYS_USERFAULTFD, "perf_event_open": unix.SYS_PERF_EVENT_OPEN, "process_vm_readv": unix.SYS_PROCESS_VM_READV,
		"process_vm_writev": unix.SYS_PROCESS_VM_WRITEV, "pidfd_getfd": unix.SYS_PIDFD_GETFD, "kexec_load": unix.SYS_KEXEC_LOAD, "init_module": unix.SYS_INIT_MODULE,
		"finit_module": unix.SYS_FINIT_MODULE, "open_by_handle_at": unix.SYS_OPEN_BY_HANDLE_AT, "name_to_handle_at": unix.SYS_NAME_TO_HANDLE_AT,
		"pivot_root": unix.SYS_PIVOT_ROOT, "chroot": unix.SYS_CHROOT, "move_mount": unix.SYS_MOVE_MOUNT, "open_tree": unix.SYS_OPEN_TREE, "fsopen": unix.SYS_FSOPEN,
		"mount_setattr": unix.SYS_MOUNT_SETATTR, "syslog": unix.SYS_SYSLOG, "reboot": unix.SYS_REBOOT, "kcmp": unix.SYS_KCMP, "clone3": unix.SYS_CLONE3,
		"openat2": unix.SYS_OPENAT2, "memfd_create": unix.SYS_MEMFD_CREATE, "shmget": unix.SYS_SHMGET, "shmat": unix.SYS_SHMAT, "msgget": unix.SYS_MSGGET,
		"semget": unix.SYS_SEMGET, "mq_open": unix.SYS_MQ_OPEN, "clock_settime": unix.SYS_CLOCK_SETTIME, "settimeofday": unix.SYS_SETTIMEOFDAY,
		"adjtimex": unix.SYS_ADJTIMEX, "clock_adjtime": unix.SYS_CLOCK_ADJTIME, "acct": unix.SYS_ACCT, "swapon": unix.SYS_SWAPON, "swapoff": unix.SYS_SWAPOFF,
		"quotactl": unix.SYS_QUOTACTL, "fanotify_init": unix.SYS_FANOTIFY_INIT, "sethostname": unix.SYS_SETHOSTNAME, "vhangup": unix.SYS_VHANGUP,
		"setxattr": unix.SYS_SETXATTR, "lsetxattr": unix.SYS_LSETXATTR, "fsetxattr": unix.SYS_FSETXATTR, "setxattrat": unix.SYS_SETXATTRAT,
		"removexattr": unix.SYS_REMOVEXATTR, "lremovexattr": unix.SYS_LREMOVEXATTR, "fremovexattr": unix.SYS_FREMOVEXATTR, "removexattrat": unix.SYS_REMOVEXATTRAT}
	p := program(t, runtime.GOARCH)
	for name, nr := range known {
		if got := interpret(t, p, data{nr: uint32(nr), arch: audit[runtime.GOARCH]}); got == filter.Allow {
			t.Errorf("%s (%d) is allowed, want refused", name, nr)
		}
	}
	for name, nr := range map[string]int{"read": unix.SYS_READ, "execve": unix.SYS_EXECVE, "execveat": unix.SYS_EXECVEAT, "exit_group": unix.SYS_EXIT_GROUP,
		"wait4": unix.SYS_WAIT4, "futex": unix.SYS_FUTEX, "landlock_restrict_self": unix.SYS_LANDLOCK_RESTRICT_SELF, "seccomp": unix.SYS_SECCOMP} {
		if got := interpret(t, p, data{nr: uint32(nr), arch: audit[runtime.GOARCH]}); got != filter.Allow {
			t.Errorf("%s (%d) is refused, want allowed", name, nr)
		}
	}
	for name, nr := range map[string]int{"execve": unix.SYS_EXECVE, "execveat": unix.SYS_EXECVEAT} {
		if got := interpret(t, starts(t, runtime.GOARCH), data{nr: uint32(nr), arch: audit[runtime.GOARCH]}); got != filter.Notify {
			t.Errorf("%s (%d) is not reported", name, nr)
		}
	}
}
