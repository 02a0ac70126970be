package engine

import (
	"fmt"
	"os"
	"path/filepath"

	"metier/internal/atomicfile"
	"metier/run"
)

// CheckOutput fails for a file in the folder of a record, or in .metier: writing it would destroy the
// record.
func (e *Engine) CheckOutput(file string) error {
	real, _, err := atomicfile.Target(e.Env.Path(file))
	if err != nil {
		return err
	}
	for dir := filepath.Dir(real); ; dir = filepath.Dir(dir) {
		if filepath.Base(dir) == ".metier" {
			return fmt.Errorf("it is in %s, the folder for records", dir)
		}
		if _, err := os.Lstat(filepath.Join(dir, run.FileLog)); err == nil {
			return fmt.Errorf("it is in %s, the folder of a record", dir)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}
