package folder

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"metier/internal/plural"
	"metier/internal/runtimes"
	"metier/skillmd"
)

// Codes of advice on a skill's scripts.
const (
	CodeInterpreter   = "interpreter-missing"   // a script needs a program that is not on this machine
	CodeScriptsUnseen = "scripts-not-looked-at" // there are too many
)

// maxScripts is how many files below scripts are looked at.
const maxScripts = 500

// byExtension are the programs that run a script without a shebang: any one will do.
var byExtension = map[string][]string{
	".py": {"python3", "python"}, ".sh": {"bash", "sh"}, ".bash": {"bash"}, ".zsh": {"zsh"}, ".js": {"node", "deno", "bun"}, ".mjs": {"node", "deno", "bun"},
	".cjs": {"node", "bun"}, ".ts": {"deno", "bun", "tsx", "node"}, ".mts": {"deno", "bun", "tsx", "node"}, ".rb": {"ruby"}, ".pl": {"perl"}, ".ps1": {"pwsh"},
	".go": {"go"}, ".r": {"Rscript"}, ".php": {"php"}, ".lua": {"lua"}, ".swift": {"swift"},
}

// missingInterpreters advises about scripts that no program on this machine can
// run. Their shebang decides, or else their extension.
func missingInterpreters(root *os.Root, has func(program string) bool) []skillmd.Diagnostic {
	needs := map[string][]string{} // what is not there: the scripts that need it
	seen := map[string]bool{}      // what was looked for: whether it is there
	n, more := 0, false
	_ = fs.WalkDir(root.FS(), "scripts", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fs.SkipDir // what cannot be listed is not judged
		case d.IsDir() && slices.Contains([]string{"node_modules", ".git", "target", ".venv", "__pycache__"}, d.Name()):
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		case n == maxScripts:
			more = true
			return fs.SkipAll
		}
		n++
		programs := interpretersOf(root, p)
		if len(programs) == 0 {
			return nil
		}
		what := alternatives(programs)
		there, looked := seen[what]
		if !looked {
			there = slices.ContainsFunc(programs, func(p string) bool { return runs(p, has) })
			seen[what] = there
		}
		if !there {
			needs[what] = append(needs[what], p)
		}
		return nil
	})
	var out []skillmd.Diagnostic
	for _, what := range slices.Sorted(maps.Keys(needs)) {
		files := needs[what]
		detail := fmt.Sprintf("%s needs %s, which this machine does not have", files[0], what)
		if len(files) > 1 {
			detail = fmt.Sprintf("%s and %s need %s, which this machine does not have", files[0], plural.Of(len(files)-1, "other script"), what)
		}
		out = append(out, advice(CodeInterpreter, "%s", detail))
	}
	if more {
		out = append(out, advice(CodeScriptsUnseen, "only %d scripts are looked at for their interpreters", maxScripts))
	}
	return out
}

// runs reports whether a program is on this machine. One with a path may be
// elsewhere, since shebangs are written for other machines.
func runs(program string, has func(string) bool) bool {
	if path.IsAbs(program) {
		if info, err := os.Stat(program); err == nil && info.Mode().IsRegular() {
			return true
		}
	}
	return has(path.Base(program))
}

// alternatives words "a, b or c".
func alternatives(list []string) string {
	if len(list) == 1 {
		return list[0]
	}
	return strings.Join(list[:len(list)-1], ", ") + " or " + list[len(list)-1]
}

// interpretersOf returns the programs of which any one runs a script, or none if
// they are not known.
func interpretersOf(root *os.Root, p string) []string {
	f, err := root.Open(filepath.FromSlash(p))
	if err != nil {
		return nil
	}
	defer f.Close()
	head, _ := io.ReadAll(io.LimitReader(f, 256))
	line, _, _ := bytes.Cut(head, []byte("\n"))
	if bytes.HasPrefix(line, []byte("#!")) {
		if program := runtimes.Program(string(line)); program != "" {
			return []string{program}
		}
		return nil
	}
	return byExtension[strings.ToLower(path.Ext(p))]
}
