package filter

// call is a system call with its name and its number on each architecture.
type call struct {
	name         string
	amd64, arm64 int
}

// none is the number of a call that an architecture does not have.
const none = -1

func (c call) nr(arch string) int {
	if arch == "arm64" {
		return c.arm64
	}
	return c.amd64
}

// Calls filtered by their arguments.
var (
	clone      = call{"clone", 56, 220}
	ioctl      = call{"ioctl", 16, 29}
	socket     = call{"socket", 41, 198}
	socketpair = call{"socketpair", 53, 199}
	chmod      = call{"chmod", 90, none}
	fchmod     = call{"fchmod", 91, 52}
	fchmodat   = call{"fchmodat", 268, 53}
	fchmodat2  = call{"fchmodat2", 452, 452}
	creat      = call{"creat", 85, none}
	mknod      = call{"mknod", 133, none}
	mknodat    = call{"mknodat", 259, 33}
	open       = call{"open", 2, none}
	openat     = call{"openat", 257, 56}
	mmap       = call{"mmap", 9, 222}
	setsockopt = call{"setsockopt", 54, 208}

	setrlimit = call{"setrlimit", 160, 164}
	prlimit64 = call{"prlimit64", 302, 261}

	schedSetparam     = call{"sched_setparam", 142, 118}
	schedSetscheduler = call{"sched_setscheduler", 144, 119}
	schedSetaffinity  = call{"sched_setaffinity", 203, 122}
	schedSetattr      = call{"sched_setattr", 314, 274}
	setpriority       = call{"setpriority", 141, 140}
	ioprioSet         = call{"ioprio_set", 251, 30}
	fcntl             = call{"fcntl", 72, 25}
)

// Calls of the filter that Starts returns.
var (
	execve   = call{"execve", 59, 221}
	execveat = call{"execveat", 322, 281}
	seccomp  = call{"seccomp", 317, 277}
)

// absent are calls that fail as if the kernel did not have them, which programs can handle. A
// filter cannot see their arguments.
var absent = []call{
	{"clone3", 435, 435},
	{"openat2", 437, 437},
}

// hostAbsent are also absent if the host's kernel runs the program. They create memory that belongs
// to no process, so monitoring processes would miss it. Shared memory without a file is denied for a
// similar reason: its pages remain after a program unmaps them, as long as one page is mapped.
var hostAbsent = []call{
	{"memfd_create", 319, 279},
	{"memfd_secret", 447, 447},
	{"shmget", 29, 194},
	{"shmat", 30, 196},
	{"shmctl", 31, 195},
	{"msgget", 68, 186},
	{"semget", 64, 190},
	{"mq_open", 240, 180},
	{"io_setup", 206, 0}, // its limit is one for the whole machine
}

// pinning are calls that keep whole pages of a program or a file in a pipe or a socket, up to 2 MiB
// for each byte, also after the program freed them. That memory belongs to no process. They fail as for
// files with which they do not work, and programs then copy.
var pinning = []call{
	{"sendfile", 40, 71},
	{"splice", 275, 76},
	{"tee", 276, 77},
	{"vmsplice", 278, 75},
}

// attributes are calls that fail as on a file system without extended attributes. A default access
// control list on a folder would let others write to what its owner creates in it later.
var attributes = []call{
	{"setxattr", 188, 5},
	{"lsetxattr", 189, 6},
	{"fsetxattr", 190, 7},
	{"setxattrat", 463, 463},
	{"removexattr", 197, 14},
	{"lremovexattr", 198, 15},
	{"fremovexattr", 199, 16},
	{"removexattrat", 466, 466},
}

// forbidden are calls that no sandboxed program needs.
var forbidden = []call{
	// Other processes.
	{"ptrace", 101, 117},
	{"process_vm_readv", 310, 270},
	{"process_vm_writev", 311, 271},
	{"process_madvise", 440, 440},
	{"pidfd_getfd", 438, 438},
	{"kcmp", 312, 272},
	{"move_pages", 279, 239},
	{"migrate_pages", 256, 238},
	// Other interfaces to the kernel.
	{"io_uring_setup", 425, 425},
	{"io_uring_enter", 426, 426},
	{"io_uring_register", 427, 427},
	{"bpf", 321, 280},
	{"perf_event_open", 298, 241},
	{"userfaultfd", 323, 282},
	{"fanotify_init", 300, 262},
	{"fanotify_mark", 301, 263},
	{"lookup_dcookie", 212, 18},
	{"uretprobe", 335, none},
	{"uprobe", 336, none},
	// Session keys.
	{"keyctl", 250, 219},
	{"add_key", 248, 217},
	{"request_key", 249, 218},
	// Mounts and roots.
	{"mount", 165, 40},
	{"umount2", 166, 39},
	{"pivot_root", 155, 41},
	{"chroot", 161, 51},
	{"move_mount", 429, 429},
	{"open_tree", 428, 428},
	{"fsopen", 430, 430},
	{"fsconfig", 431, 431},
	{"fsmount", 432, 432},
	{"fspick", 433, 433},
	{"mount_setattr", 442, 442},
	{"statmount", 457, 457},
	{"listmount", 458, 458},
	{"name_to_handle_at", 303, 264},
	{"open_by_handle_at", 304, 265},
	{"quotactl", 179, 60},
	{"quotactl_fd", 443, 443},
	// Namespaces and security modules.
	{"setns", 308, 268},
	{"unshare", 272, 97},
	{"sethostname", 170, 161},
	{"setdomainname", 171, 162},
	{"lsm_get_self_attr", 459, 459},
	{"lsm_set_self_attr", 460, 460},
	{"lsm_list_modules", 461, 461},
	// The machine.
	{"kexec_load", 246, 104},
	{"kexec_file_load", 320, 294},
	{"init_module", 175, 105},
	{"finit_module", 313, 273},
	{"delete_module", 176, 106},
	{"create_module", 174, none},
	{"query_module", 178, none},
	{"get_kernel_syms", 177, none},
	{"reboot", 169, 142},
	{"swapon", 167, 224},
	{"swapoff", 168, 225},
	{"syslog", 103, 116},
	{"acct", 163, 89},
	{"settimeofday", 164, 170},
	{"clock_settime", 227, 112},
	{"adjtimex", 159, 171},
	{"clock_adjtime", 305, 266},
	{"vhangup", 153, 58},
	{"iopl", 172, none},
	{"ioperm", 173, none},
	{"modify_ldt", 154, none},
	{"nfsservctl", 180, 42},
	{"uselib", 134, none},
	{"ustat", 136, none},
	{"sysfs", 139, none},
	{"_sysctl", 156, none},
}
