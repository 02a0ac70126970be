//go:build unix

package lockfile

import "syscall"

// direct opens neither what a link leads to nor a pipe that nobody writes to.
const direct = syscall.O_NOFOLLOW | syscall.O_NONBLOCK
