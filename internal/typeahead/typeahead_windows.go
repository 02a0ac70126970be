package typeahead

import (
	"os"

	"golang.org/x/sys/windows"
)

// Drop discards the pending input of a console. It always returns false: pending events include
// mouse movements, so it is unknown whether there was input.
func Drop(f *os.File) (dropped bool, err error) {
	return false, windows.FlushConsoleInputBuffer(windows.Handle(f.Fd()))
}
