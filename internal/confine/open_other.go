//go:build !unix

package confine

// Other systems have no open that blocks on a name in a folder of files.
const nonblock = 0

func openBackend(path string) (backend, error) { return openRoot(path) }

func fillSys(*Info, any) {}

func codeOfErrno(error) Code { return "" }
