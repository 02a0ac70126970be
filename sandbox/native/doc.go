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
// in Result.Notes. A program can be over its limit for that long. Wall time does
// not count the time a machine sleeps. The kernel's own system calls are
// reached directly: a flaw in them is what level L3 is for.
//
// # The program as a file
//
// The first process is started from /proc/self/exe and not from a sealed copy:
// a copy costs as much as the whole launch for a small program and holds its
// size in memory. That no program reaches the file by /proc/1/exe or
// /proc/self/exe rests on three things which tests hold: the process is not
// dumpable and invisible in /proc, Landlock refuses files that are not below the
// new root, and a program that runs cannot be written.
package native
