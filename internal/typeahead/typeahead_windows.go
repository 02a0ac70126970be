package typeahead

import (
	"os"

	"golang.org/x/sys/windows"
)

// Drop forgets the lines that wait at a console. Whether there were any, it
// cannot say: moves of the mouse count there, too.
func Drop(f *os.File) (dropped bool, err error) {
	return false, windows.FlushConsoleInputBuffer(windows.Handle(f.Fd()))
}
