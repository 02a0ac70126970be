package cli_test

import (
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"
)

// harnessCommands are the commands of scripts about harnesses.
var harnessCommands = map[string]func(ts *testscript.TestScript, neg bool, args []string){"example": example}

// example copies one of our examples, modes of files included: example NAME TO.
func example(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: example NAME TO")
	}
	from, to := filepath.Join("..", "examples", args[0]), ts.MkAbs(args[1])
	ts.Check(copyTree(from, to))
	ts.Check(filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return os.Chmod(filepath.Join(to, rel), info.Mode().Perm())
	}))
}
