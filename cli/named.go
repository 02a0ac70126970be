package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Limits of files that an invocation names.
const (
	maxConfig = 1 << 20 // configuration, run file
	maxPrompt = 8 << 20
	maxScript = 16 << 20
	maxSchema = 1 << 20
)

// readNamed reads a file the operator or a run file names. It may be a pipe, as
// a shell's <(…) is; one that nobody writes to does not block, and a device
// without an end does not fill the memory.
func readNamed(path string, most int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > most {
		return nil, fmt.Errorf("%s: %w", path, tooLong(most))
	}
	if info, err := f.Stat(); err == nil && len(b) == 0 && info.Mode()&fs.ModeNamedPipe != 0 {
		return nil, fmt.Errorf("%s: %w", path, errNoWriter)
	}
	return b, nil
}

type tooLong int64

func (n tooLong) Error() string { return fmt.Sprintf("longer than %d bytes", int64(n)) }

var errNoWriter = errors.New("nobody writes to this pipe")
