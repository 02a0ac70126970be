// Package runtimes determines how to run a script.
package runtimes

import (
	"path"
	"strings"
)

// runtimes maps names in a shebang to runtime names.
var runtimes = map[string]string{"bash": "bash", "sh": "sh", "deno": "deno", "node": "node", "python": "python3", "python3": "python3",
	"ruby": "ruby", "perl": "perl", "pwsh": "pwsh"}

// Runtime infers the runtime of a script from its shebang line or, if that is "", from its
// extension: bash, deno, python3, and so on. It returns "shebang" for any other interpreter,
// otherwise "unknown".
func Runtime(file, shebang string) string {
	if shebang != "" {
		if r, ok := runtimes[path.Base(Program(shebang))]; ok {
			return r
		}
		return "shebang"
	}
	switch path.Ext(file) {
	case ".ts", ".mts", ".js", ".mjs":
		return "deno"
	case ".py":
		return "python3"
	case ".rb":
		return "ruby"
	case ".go":
		return "go"
	case ".pl":
		return "perl"
	case ".ps1":
		return "pwsh"
	}
	return "unknown"
}

// Program returns the path of the program in a shebang line, or "". It skips env with its options
// and variables.
func Program(shebang string) string {
	words := strings.Fields(strings.TrimPrefix(shebang, "#!"))
	if len(words) == 0 || path.Base(words[0]) != "env" {
		return strings.Join(words[:min(1, len(words))], "")
	}
	for _, w := range words[1:] {
		if !strings.HasPrefix(w, "-") && !strings.Contains(w, "=") {
			return w
		}
	}
	return ""
}
