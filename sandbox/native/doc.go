// Package native is the sandbox that Linux itself gives, to root and to
// ordinary users, without another program.
//
// # How it works
//
// A job's first process is this same program, started again under another name
// in new user, mount, process, network, IPC, UTS and cgroup namespaces (package
// pid1). A program that embeds this package has nothing to do for that but the
// import. The first process builds a root from nothing: a few folders of the
// host, read-only; the staged trees, from bytes that the parent verified and
// sealed; a tmpfs of limited size; five devices; a /proc of its own processes.
// It makes that the root, detaches the host's, gives up every capability for
// good, binds itself with Landlock and a system call filter, starts the program
// and stays as the process that reaps. When it ends, by itself, by a limit, or
// because the parent died, the kernel ends everything in the sandbox.
//
// A clone copies the page tables of the process that is cloned: 1 ms for a small
// one, 30 ms for one that holds 800 MB. So only the first two launches of a small
// process are clones of it. Later ones, and those of a large process, are clones
// of a starter: this same program again, which does nothing else, serves all
// sandboxes of the process, and ends with it. A first process stays a child of the
// process that asked for it (CLONE_PARENT). It starts with what the starter began
// with, such as the user, the limits, and the signals that are ignored. A launch
// that failed is followed by clones of the process itself until one succeeds.
//
// # Who the program is
//
// Inside it is uid 1000 without any privilege. On the host it is the user who
// started it or, where that is root, an id that nobody uses, never root: a
// process of root passes the owner checks of root's files even in a namespace.
// A workspace is then mounted with ids mapped, so that the program owns what its
// owner owns, and what it makes belongs to that owner. Where the file system
// cannot do that, the program is the workspace's owner, unless that is root,
// which is refused as idmapped-mounts.
//
// # What is not there
//
// Without a cgroup memory is watched from outside every 50 ms (memory of all
// processes together) with a limit of private memory behind it: memory-best-effort
// in Result.Notes. A program can be over its limit for that long. What counts is
// pages, page tables and what may wait in sockets; what the kernel keeps of memory
// in other ways is small, or refused: shared memory without a file, and larger
// buffers of sockets, which is granted and not done. Wall time does
// not count the time a machine sleeps. The kernel's own system calls are
// reached directly: a flaw in them is what level L3 is for.
//
// # The program as a file
//
// The first process is started from /proc/self/exe and not from a sealed copy: a
// copy takes 5 ms for a program of 8 MiB and 110 ms for one of 94 MiB, before the
// first job of each process, and its size in memory for as long as the process
// lives. That no program reaches the file by /proc/1/exe or /proc/self/exe rests
// on three things which tests hold: the process is not dumpable and invisible in
// /proc, Landlock refuses files that are not below the new root, and a program
// that runs cannot be written.
//
// # Workspaces
//
// What a job names as read-only or hidden is covered by a mount, and so is every
// folder above it, since a folder with a mount further down can be renamed. A
// path that is not there is held by an empty folder at its first part that is
// missing, mode 1555, which goes away with the last job that needs it; a name
// cannot be taken without something that has it. A link there is refused. Files
// that have another name elsewhere in the workspace can be changed by that name.
//
// # Output
//
// The first Limits.Output bytes of each stream are kept. A program that writes
// more goes on, and its output is dropped and counted, up to eight times as much;
// then it is ended (limit output). One that ends by itself has its exit code.
package native
