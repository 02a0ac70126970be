package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"metier/internal/atomicfile"
)

// errOutput is the error for a file that already receives standard output.
var errOutput = errors.New("standard output of this command goes to this file")

// checkOutput fails if a file that the user named for output cannot be written. It leaves no files
// behind.
func (a *app) checkOutput(file string, workspaces ...string) error {
	if err := a.engine().CheckOutput(file, workspaces...); err != nil {
		return err
	}
	real, mode, err := atomicfile.Target(a.env.Path(file))
	switch {
	case err != nil:
		return err
	case !mode.IsRegular():
		return nil
	case a.isOutput(real):
		return errOutput
	}
	f, err := os.CreateTemp(filepath.Dir(real), ".metier-output-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// isOutput reports whether standard output goes to this file.
func (a *app) isOutput(file string) bool {
	o, ok := a.Out.(*output)
	if !ok {
		return false
	}
	out, ok := o.Writer.(*os.File)
	if !ok {
		return false
	}
	x, err := out.Stat()
	y, err2 := os.Stat(file)
	return err == nil && err2 == nil && x.Mode()&fs.ModeDevice == 0 && os.SameFile(x, y)
}
