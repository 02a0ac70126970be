// Package native is a sandbox based on Linux itself, for root and for ordinary users. It needs no
// other program.
//
// # How it works
//
// A job's first process is this same program, re-executed under another name in new user, mount,
// process, network, IPC, UTS, and cgroup namespaces (package pid1). A program that embeds this
// package only has to import it. The first process builds an empty root with a few folders of the
// host, read-only; the staged trees, from bytes that the parent verified and sealed; a tmpfs of
// limited size; five devices; and a /proc of its own processes. It switches to that root, detaches
// the host's, permanently drops every capability, restricts itself with Landlock and a system call
// filter, starts the program, and reaps processes. When it ends, by itself, by a limit, or because
// the parent died, the kernel ends everything in the sandbox.
//
// A clone copies the page tables of the cloned process: 1 ms for a small one, 30 ms for one that
// uses 800 MB. So only the first two launches of a small process are clones of it. Later ones, and
// those of a large process, are clones of a starter: this same program re-executed for nothing
// else. The starter serves all sandboxes of the process and ends with it. A first process remains a
// child of the process that requested it (CLONE_PARENT). It inherits the starter's initial state,
// such as the user, the limits, and ignored signals. After a failed launch, the process itself is
// cloned again until one launch succeeds.
//
// # User IDs
//
// Inside the sandbox, the program is uid 1000 without any privilege. On the host it runs as the
// user who started it or, if that is root, as an unused ID. It never runs as root: a root process
// passes the owner checks of root's files even in a namespace. In that case a workspace is mounted
// with mapped IDs, so that the program has the rights of the workspace's owner and its new files
// belong to that owner. If the file system does not support that, the program runs as the
// workspace's owner. If the owner is root, the job fails with idmapped-mounts.
//
// # Limitations
//
// Without a cgroup, memory is checked from outside every 50 ms (the total of all processes), with a
// limit on private memory as a fallback: memory-best-effort in Result.Notes. A program can exceed
// its limit for that long. The total includes pages, page tables, and data that may wait in
// sockets. Other kernel memory is small or denied: shared memory without a file is refused, and
// requests for larger socket buffers succeed without effect. Wall time does not include the time
// that the machine sleeps. Programs call the host's kernel directly; level L3 protects against its
// vulnerabilities.
//
// # Programs that a job starts
//
// If a job has Exec, a second filter reports each execve and execveat to this process, which reads
// the arguments and the path from the calling process and answers. A refused call never returns:
// the job ends first. If this process ends, waiting calls fail. Other jobs do not have the filter.
// With it, starting a program takes about 0.1 ms of CPU time more (BenchmarkExec). There are three
// limits. A process with several threads, or that shares memory with another, can change what was
// read before the kernel uses it, and so can a process that replaces a link. The kernel starts the
// interpreter of a script, and those of other formats (binfmt_misc), without another call: those of
// scripts are read from their first line, and others are not reported. A program that is copied, or
// loaded without a call, has another name or none.
//
// # The program as a file
//
// The first process is started from /proc/self/exe and not from a sealed copy. A copy takes 5 ms
// for a program of 8 MiB and 110 ms for one of 94 MiB, before the first job of each process, and
// uses that much memory as long as the process lives. Programs cannot reach the file by /proc/1/exe
// or /proc/self/exe for three reasons, which tests verify: the process is not dumpable and
// invisible in /proc, Landlock denies files outside of the new root, and a running executable
// cannot be written.
//
// # Workspaces
//
// Read-only and hidden paths of a job are covered by mounts. So is every folder above them, since a
// folder that contains a mount can be renamed. For a missing path, an empty folder with mode 1555
// is created at its first missing component, because a name can only be reserved by creating it. It
// is removed with the last job that needs it. A link at such a path is an error. A file with
// another hard link in the workspace can be changed through that name.
//
// # Output
//
// The first Limits.Output bytes of each stream are kept. Further output is dropped and counted, and
// the program continues, up to eight times the limit; then it is ended (limit output). If it ends
// by itself, its exit code is reported.
package native
