package engine_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/config"
	"metier/engine"
	"metier/internal/atomicfile"
)

func TestCreateRecord_FullDisk(t *testing.T) {
	ws := t.TempDir()
	t.Cleanup(atomicfile.SetHook(func(stage, path string) error {
		if strings.HasPrefix(path, ws) && filepath.Base(path) == ".gitignore" && stage == atomicfile.BeforeWrite {
			return syscall.ENOSPC
		}
		return nil
	}))
	e := engine.New(config.NewEnv([]string{"HOME=" + t.TempDir()}, ws), engine.Options{})
	_, err := e.CreateRecord(t.Context(), ws, filepath.Join(ws, ".metier", "runs"), "r")
	if diff := cmp.Diff("disk_full", metier.CodeOf(err)); diff != "" {
		t.Errorf("%v; code (-want +got):\n%s", err, diff)
	}
}
