package runtimes

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Request describes a script to run.
type Request struct {
	Entry    string // slash path in the skill, scripts/x
	Dir      string // path of the skill's folder where the script runs
	Code     []byte
	Exec     bool // the file is executable
	Args     []string
	Runtimes []string // runtimes that may run it, by name; see Names
	// Stdin passes the code to the interpreter on standard input: a single file without others.
	// Only bash and deno support that.
	Stdin bool
	// Find returns the path of a program where the script runs.
	Find func(program string) (string, bool)
}

// Command describes how to run the script.
type Command struct {
	Runtime string
	Program string // the program that the first line names, without its folder, or ""
	Argv    []string
	Env     []string // KEY=VALUE; keeps the runtime quiet and in its scratch folder
	Needs   []string // packages that the script declares (PEP 723), which are not downloaded
}

// Programs returns the names of the programs that start the script.
func (c Command) Programs() []string {
	var out []string
	if len(c.Argv) > 0 {
		out = append(out, path.Base(c.Argv[0]))
	}
	if c.Program != "" && !slices.Contains(out, c.Program) {
		out = append(out, c.Program)
	}
	return out
}

// Refusal is the error for a script that cannot run.
type Refusal struct{ Code, Text, Hint string }

func (r *Refusal) Error() string { return r.Text }

// Codes of a Refusal.
const (
	CodeUnsupported = "unsupported_runtime"
	CodeInterpreter = "interpreter_missing"
)

func unsupported(hint, format string, a ...any) error {
	return &Refusal{Code: CodeUnsupported, Text: fmt.Sprintf(format, a...), Hint: hint}
}

type runtime struct {
	name     string
	bases    []string // its names in a shebang
	exts     []string
	programs []string // the first one that exists is used
	before   []string // arguments before those of the shebang
	after    []string // arguments between those and the script
	env      []string
}

// table lists the runtimes. The arguments keep an interpreter from reading files other than the
// script and its imports from its own folder.
var table = []runtime{
	{name: "bash", bases: []string{"bash"}, exts: []string{".sh", ".bash"}, programs: []string{"bash"}, before: []string{"--noprofile", "--norc"}, after: []string{"--"}},
	{name: "sh", bases: []string{"sh", "dash", "ash"}, programs: []string{"sh"}, after: []string{"--"}},
	{name: "node", bases: []string{"node", "nodejs"}, exts: []string{".js", ".mjs", ".cjs"}, programs: []string{"node", "nodejs"}, env: []string{"NO_UPDATE_NOTIFIER=1"}},
	{name: "deno", bases: []string{"deno"}, exts: []string{".ts", ".mts", ".js", ".mjs"}, programs: []string{"deno"}, env: []string{"DENO_DIR=/tmp/.deno", "DENO_NO_UPDATE_CHECK=1", "NO_COLOR=1"}},
	// -I and -P would keep a script from importing files next to it.
	{name: "python", bases: []string{"python3", "python"}, exts: []string{".py"}, programs: []string{"python3"}, before: []string{"-E", "-s", "-B"}},
	{name: "ruby", bases: []string{"ruby"}, exts: []string{".rb"}, programs: []string{"ruby"}, before: []string{"--disable=gems,rubyopt"}},
	{name: "perl", bases: []string{"perl"}, exts: []string{".pl"}, programs: []string{"perl"}, after: []string{"--"}},
	// With modules, go would take the module, and its packages, from the working folder.
	{name: "go", bases: []string{"go"}, exts: []string{".go"}, programs: []string{"go"}, before: []string{"run"},
		env: []string{"GOCACHE=/tmp/.go", "GOPATH=/tmp/.gopath", "GOPROXY=off", "GOTOOLCHAIN=local", "GOFLAGS=", "GO111MODULE=off"}},
	{name: "rust", bases: []string{"rust-script"}, exts: []string{".rs"}, programs: []string{"rust-script"}},
	{name: "pwsh", bases: []string{"pwsh"}, exts: []string{".ps1"}, programs: []string{"pwsh"}, before: []string{"-NoProfile", "-NonInteractive"}, after: []string{"-File"},
		env: []string{"POWERSHELL_TELEMETRY_OPTOUT=1"}},
}

// Names returns the names of all runtimes. executable stands for any other interpreter named in a
// shebang, or a program.
func Names() []string {
	out := make([]string, 0, len(table)+1)
	for _, r := range table {
		out = append(out, r.name)
	}
	return append(out, executable)
}

const executable = "executable"

// downloads are programs that download what they run. Without a network they hang until the time
// limit.
var downloads = map[string]bool{"npx": true, "npm": true, "pnpx": true, "pnpm": true, "yarn": true, "bunx": true, "uvx": true, "pipx": true}

// Limits of a shebang line: kernels do not read longer ones.
const (
	mostLine  = 255 // bytes
	mostWords = 16
)

// Plan determines how to run a script: by its shebang, then by its extension, never by its mode
// alone. The error is a *Refusal.
func Plan(r Request) (c Command, err error) {
	line, err := shebang(r.Code)
	if err != nil {
		return Command{}, err
	}
	program, flags, err := split(line)
	if err != nil {
		return Command{}, err
	}
	if program != "" {
		defer func() { c.Program = path.Base(program) }()
	}
	if base := path.Base(program); downloads[base] {
		return Command{}, unsupported("install the tool in a system folder and name it in the first line, or write the script for deno or node",
			"its first line runs %s, which downloads programs, and the sandbox has no network for that", strings.Join(append([]string{base}, flags...), " "))
	}
	run, ok := choose(r.Entry, program, r.Runtimes)
	name := run.name
	if !ok {
		name = executable
	}
	switch {
	case !ok && program == "" && !r.program():
		return Command{}, unsupported("start it with a line such as #!/usr/bin/env python3", "its interpreter is unknown: it has no #! line and no known extension")
	case !slices.Contains(r.Runtimes, name):
		if program != "" {
			name = path.Base(program)
		}
		return Command{}, unsupported("the setting script_runtimes lists the allowed interpreters", "%s is not an allowed interpreter (allowed: %s)", name, strings.Join(r.Runtimes, ", "))
	case r.Stdin:
		return r.onStdin(run, line, flags)
	case !ok:
		return r.direct(program, flags)
	}
	return r.staged(run, program, flags)
}

// program reports whether the code is an executable binary.
func (r Request) program() bool { return r.Exec && bytes.HasPrefix(r.Code, []byte("\x7fELF")) }

// choose returns the runtime for a script: the first that may run it, otherwise the first that
// could.
func choose(entry, program string, allowed []string) (found runtime, ok bool) {
	base, ext := path.Base(program), strings.ToLower(path.Ext(entry))
	if base == "uv" {
		base = "python3"
	}
	for _, run := range table {
		if (program == "" || !slices.Contains(run.bases, base)) && (program != "" || !slices.Contains(run.exts, ext)) {
			continue
		}
		if slices.Contains(allowed, run.name) {
			return run, true
		}
		if !ok {
			found, ok = run, true
		}
	}
	return found, ok
}

// shebang returns the first line of code after #!, or "". It ignores a byte order mark and a
// carriage return, which a kernel would not accept.
func shebang(code []byte) (string, error) {
	code = bytes.TrimPrefix(code, []byte("\xef\xbb\xbf"))
	rest, ok := bytes.CutPrefix(code, []byte("#!"))
	if !ok {
		return "", nil
	}
	line, _, _ := bytes.Cut(rest[:min(len(rest), mostLine+1)], []byte("\n"))
	if len(line) > mostLine {
		return "", unsupported("shorten it", "the first line is longer than %d bytes", mostLine)
	}
	if i := bytes.IndexFunc(line, func(c rune) bool { return c < ' ' && c != '\t' && c != '\r' || c == 0x7f }); i >= 0 {
		return "", unsupported("rewrite it", "the first line has the control character %#x", line[i])
	}
	return strings.TrimSpace(string(line)), nil
}

// split parses a shebang into the program and its arguments. It skips env, with or without -S, but
// rejects changes to the environment, which the skill must not control.
func split(line string) (program string, flags []string, err error) {
	words := strings.Fields(line)
	switch {
	case len(words) == 0:
		return "", nil, nil
	case len(words) > mostWords:
		return "", nil, unsupported("shorten it", "the first line has more than %d words", mostWords)
	case strings.ContainsAny(line, "\"'`$\\"):
		return "", nil, unsupported("write plain words", "the first line has quotes or variables, which nothing here expands")
	}
	if path.Base(words[0]) == "env" {
		words = words[1:]
		if len(words) > 0 && (words[0] == "-S" || words[0] == "--split-string") {
			words = words[1:]
		}
		if len(words) == 0 || strings.HasPrefix(words[0], "-") || strings.Contains(words[0], "=") {
			return "", nil, unsupported("write #!/usr/bin/env PROGRAM, or env -S with arguments", "the first line uses env in a way that is not understood: %s", line)
		}
		if strings.Contains(words[0], "/") {
			return "", nil, unsupported("write #!/usr/bin/env PROGRAM", "the first line gives env a path: %s", words[0])
		}
	} else if !path.IsAbs(words[0]) {
		return "", nil, unsupported("write the whole path, or #!/usr/bin/env PROGRAM", "the first line names its interpreter by a relative path: %s", words[0])
	}
	return words[0], words[1:], nil
}

// staged runs the file at its path.
func (r Request) staged(run runtime, program string, flags []string) (Command, error) {
	if run.name == "deno" {
		flags = append([]string{"run", "--no-prompt", "--no-remote", "--no-npm", "--no-config"}, denoFlags(flags)...)
	}
	if run.name == "go" && len(flags) > 0 && flags[0] == "run" {
		flags = flags[1:]
	}
	if run.name == "go" && len(r.Args) > 0 && strings.HasSuffix(r.Args[0], ".go") {
		return Command{}, unsupported("put another argument before it", "go run takes the first argument %s for a source file", r.Args[0])
	}
	c := Command{Runtime: run.name, Env: run.env}
	if run.name == "python" {
		uv, needs := path.Base(program) == "uv", declared(r.Code)
		if found, ok := r.Find("uv"); ok && (uv || len(needs) > 0) {
			c.Argv = append([]string{found, "run", "--offline", "--no-project", "--no-config", "--script", r.file()}, r.Args...)
			c.Env = []string{"UV_CACHE_DIR=/tmp/.uv", "UV_NO_PROGRESS=1"}
			return c, nil
		}
		c.Needs = needs
		if uv {
			flags = nil // they are for uv
		}
	}
	found, err := r.find(run)
	if err != nil {
		return c, err
	}
	c.Argv = slices.Concat([]string{found}, run.before, flags, run.after, []string{r.file()}, r.Args)
	return c, nil
}

// direct runs a program, or an interpreter named in a shebang that is not in the table.
func (r Request) direct(program string, flags []string) (Command, error) {
	c := Command{Runtime: executable}
	if program == "" {
		c.Argv = append([]string{r.file()}, r.Args...)
		return c, nil
	}
	found, ok := r.Find(program)
	if !ok {
		return c, missing(program)
	}
	c.Argv = slices.Concat([]string{found}, flags, []string{r.file()}, r.Args)
	return c, nil
}

func (r Request) file() string { return path.Join(r.Dir, r.Entry) }

func (r Request) find(run runtime) (string, error) {
	for _, p := range run.programs {
		if found, ok := r.Find(p); ok {
			return found, nil
		}
	}
	return "", missing(run.programs[0])
}

func missing(program string) error {
	return &Refusal{Code: CodeInterpreter, Text: fmt.Sprintf("the script needs %s, which is not there where scripts run", path.Base(program)),
		Hint: "install it in a system folder, because home folders are not visible in the sandbox"}
}
