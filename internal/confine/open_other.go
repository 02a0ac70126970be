//go:build !unix

package confine

// On other systems, opening a name in a folder of files never blocks.
const nonblock = 0

// Direct makes an open fail for symbolic links and not block on pipes.
const Direct = 0

func openBackend(path string) (backend, error) { return openRoot(path) }

func fillSys(*Info, any) {}

func codeOfErrno(error) Code { return "" }
