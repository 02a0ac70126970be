package repocheck_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"metier/internal/testenv"
)

// A new owner of the project gives it the path of their own repository with one
// command. The copy builds, and the old path is no longer the path of any
// module or package. Other uses of the name stay.
func TestTheModulePathCanBeChanged(t *testing.T) {
	t.Parallel()
	root, dir := testenv.Module(t), filepath.Join(t.TempDir(), "copy")
	module := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(root, "tools", "module"), args...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	testenv.NeedTool(t, "bash", "bash")
	for _, path := range []string{"", "agents", "github.com/you/my agents", "https://github.com/you/agents"} {
		if out, err := module(path, dir, "build"); err == nil {
			t.Errorf("%q is taken:\n%s", path, out)
		}
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("a path that is none left a folder")
	}
	const path = "git.example.org/taken/over"
	if out, err := module(path, dir, "build"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := module(path, dir, "build"); err == nil || !strings.Contains(out, "is not empty") {
		t.Errorf("a folder that holds something is written to: %v\n%s", err, out)
	}
	modules := 0
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		switch {
		case d.Name() == "go.mod":
			modules++
			b, err := os.ReadFile(p)
			if !strings.Contains(string(b), "module "+path) || strings.Contains(string(b), "\t"+testenv.ModulePath+" ") || strings.Contains(string(b), "replace "+testenv.ModulePath+" ") {
				t.Errorf("%s:\n%s", p, b)
			}
			return err
		case filepath.Ext(p) == ".go" && !strings.Contains(p, string(filepath.Separator)+"testdata"+string(filepath.Separator)):
			f, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.ImportsOnly)
			if err != nil {
				return err
			}
			for _, im := range f.Imports {
				if s := strings.Trim(im.Path.Value, `"`); s == testenv.ModulePath || strings.HasPrefix(s, testenv.ModulePath+"/") {
					t.Errorf("%s imports %s", p, s)
				}
			}
		}
		return nil
	})
	if err != nil || modules < 4 {
		t.Errorf("%d modules: %v", modules, err)
	}
	for name, kept := range map[string]string{"cli/main.go": `Use:           "metier"`, "mcp/host/tools.go": `SkillsKey = "metier/skills"`, "docs/CLI.md": "`metier/index` in `XDG_CACHE_HOME`"} {
		if b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name))); err != nil || !strings.Contains(string(b), kept) {
			t.Errorf("%s does not hold %s: %v", name, kept, err)
		}
	}
}
