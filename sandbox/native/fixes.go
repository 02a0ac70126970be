package native

import "metier/sandbox/native/internal/plan"

// fixes are the suggested fixes, by primitive.
var fixes = map[string]string{
	"platform":         "use Linux on amd64 or arm64, or another backend",
	"user-namespaces":  "allow user namespaces: sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0; in a container use a seccomp profile that allows them",
	"ids":              "run in a container whose user namespace maps more than root, or as an ordinary user",
	"mount":            "allow mounts in user namespaces: on Ubuntu sysctl kernel.apparmor_restrict_unprivileged_userns=0 or an AppArmor profile for this program; in a container a seccomp profile that allows mount",
	"proc":             "the host's /proc is masked, as in containers by default: start the container with --security-opt systempaths=unconfined",
	"landlock":         "use a kernel of 5.19 or later with landlock among its security modules (boot option lsm=landlock,…)",
	"seccomp":          "use a kernel with CONFIG_SECCOMP_FILTER, and a container that allows seccomp",
	plan.Watching:      "use a kernel of 5.19 or later, and a container that allows seccomp notifications and ptrace and does not use seccomp notifications itself; or remove deny and ask rules for commands",
	"openat2":          "use a kernel of 5.6 or later, and a container whose seccomp profile allows openat2",
	"open_tree":        "use a kernel of 5.12 or later, and a container whose seccomp profile allows the mount calls",
	"move_mount":       "use a kernel of 5.12 or later, and a container whose seccomp profile allows the mount calls",
	"mount_setattr":    "use a kernel of 5.12 or later, and a container whose seccomp profile allows the mount calls",
	"close_range":      "use a kernel of 5.9 or later, and a container whose seccomp profile allows close_range",
	"pivot_root":       "in a container, allow pivot_root",
	"idmapped-mounts":  "let an ordinary user own the workspace, or start as an ordinary user, or put the workspace on a file system with idmapped mounts (ext4, xfs, btrfs, tmpfs) in the first user namespace",
	"file-descriptors": "raise the limit of open files (ulimit -n), or run fewer jobs at once",
	"processes":        "raise the limit of processes (ulimit -u), or run fewer jobs at once",
	"memfd":            "use a kernel of 3.17 or later with sealed memory files allowed",
	"level":            "use a sandbox that has its own kernel, such as gVisor",
	"executable":       "let everybody execute the program that embeds the sandbox, since the sandbox starts it again as a user of its own",
}
