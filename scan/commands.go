package scan

import (
	"iter"
	"path"
	"slices"
	"strings"

	"metier/internal/shell"
)

// action is a command with what it does.
type action struct {
	shell.Call
	program string
	args    string // the words after the program
	in, out label
	twin    bool // it reads the output of the same command
	// computed reports whether the name of the program is put together.
	computed bool
	does     deed
	text     string // code in its arguments or its input
	lang     string // of that code; "" is shell code
}

// tracer follows data through the commands of a text.
type tracer struct {
	variables map[string]label
	literals  map[string]string // values of variables, as far as they are known
	files     map[string]label
	paths     map[string]bool // variables that have the path of a file with credentials
	folder    string          // the working folder, if it is the home folder, the root, or has credentials
	all       []action
}

func newTracer() *tracer {
	return &tracer{variables: map[string]label{}, literals: map[string]string{}, files: map[string]label{}, paths: map[string]bool{}}
}

const maxNested = 3 // texts in texts, as in bash -c

const maxArguments = 2 << 10 // bytes of a command's words that patterns search

// commands applies the rules for commands to shell code.
func (s *scanner) commands(f *source, u unit) { s.nestedCommands(f, u, 0, -1) }

// nestedCommands does it for code that is in a command. at is its offset, or -1.
func (s *scanner) nestedCommands(f *source, u unit, depth, at int) {
	text := u.text
	if u.place == inFence {
		text = prompts(text)
	}
	calls, whole := shell.Calls(text)
	if !whole && u.place == inScript {
		f.partly = true
	}
	offsets := lineOffsets(u.text)
	t := newTracer()
	for _, c := range calls {
		a := t.trace(c)
		where, line := at, at
		if at < 0 {
			start := offsets[min(max(a.Line-1, 0), len(offsets)-1)]
			line = u.offset(start)
			where = u.offset(min(start+max(a.Column-1, 0), len(u.text)))
		}
		s.usesOf(f, u, a, where)
		for _, r := range table.commands {
			if r.command.matches(a) {
				s.addCommand(f, r, where, line, &u, revealed(t, a), t.words(a, 0))
			}
		}
		inner := u
		if u.place == inLine {
			inner.place = inFence
		}
		if inner.text = a.text; a.text == "" && a.does == executes {
			if inner.text = revealed(t, a); inner.text == "" {
				inner.text = t.printed(a)
			}
		}
		switch {
		case inner.text == "" || depth >= maxNested:
		case a.lang == "":
			s.nestedCommands(f, inner, depth+1, where)
		default:
			inner.starts = nil
			s.embedded(f, inner, a.lang, where)
		}
	}
	if depth == 0 && u.place != inData {
		s.remarks(f, u)
	}
}

// embedded applies the rules for code to a program in the arguments of a command at an offset.
func (s *scanner) embedded(f *source, u unit, lang string, at int) {
	u.starts, u.fixed = []segment{{0, at}}, true
	s.statements(f, u, lang)
}

// codeOf returns the language that an interpreter reads, or "" for a shell.
func codeOf(program string) string {
	switch program {
	case "python", "python3", "perl", "ruby":
		return python
	case "node", "deno", "bun", "php", "osascript":
		return javascript
	case "pwsh", "powershell":
		return powershell
	}
	return ""
}

func lineOffsets(text string) []int {
	out := []int{0}
	for i := range len(text) {
		if text[i] == '\n' {
			out = append(out, i+1)
		}
	}
	return out
}

// prompts replaces the prompts of a terminal in front of commands. If there are any, the other lines
// are output.
func prompts(text string) string {
	if !strings.HasPrefix(text, "$ ") && !strings.Contains(text, "\n$ ") {
		return text
	}
	lines := strings.Split(text, "\n")
	continued := false
	for i, l := range lines {
		switch {
		case strings.HasPrefix(l, "$ "):
			lines[i] = "  " + l[2:]
		case !continued && !marked(l+" "):
			lines[i] = ""
		}
		continued = strings.HasSuffix(l, "\\")
	}
	return strings.Join(lines, "\n")
}

func (t *tracer) trace(c shell.Call) action {
	c.Words = t.resolved(c.Words)
	a := action{Call: c}
	substituted := slices.ContainsFunc(c.Words, func(w string) bool { return strings.Contains(w, "$(…)") })
	for _, i := range c.Inputs {
		if i < len(t.all) {
			a.in |= t.all[i].out &^ credential
			if t.all[i].out&credential != 0 && !substituted { // in a header, it is a login
				a.in |= secret
			}
			a.twin = a.twin || len(c.Words) == 1 && c.Background && slices.Equal(t.all[i].Words, c.Words)
		}
	}
	for _, r := range c.Reads {
		a.in |= t.files[r] | t.secretIn(r)
	}
	for _, w := range c.Words {
		a.in |= t.values(w)
	}
	if c.Name != "" {
		delete(t.literals, c.Name)
		if len(c.Words) == 1 && !substituted && !strings.Contains(c.Words[0], "<(…)") && len(t.literals) < maxLiterals {
			t.literals[c.Name] = c.Words[0]
		}
		for _, w := range c.Words {
			if strings.Contains(w, "://") {
				a.in |= origin(w)
			}
		}
		t.paths[c.Name] = t.paths[c.Name] || slices.ContainsFunc(c.Words, func(w string) bool { return t.secretIn(w) != 0 })
		t.variables[c.Name] |= a.in
		a.out = a.in
		t.all = append(t.all, a)
		return a
	}
	words := shell.Command(c.Words)
	if len(words) > 0 {
		a.program = strings.ToLower(path.Base(words[0]))
		a.computed = strings.Contains(words[0], "${IFS}") || words[0] == "$(…)" && slices.ContainsFunc(c.Inputs, func(i int) bool {
			return i < len(t.all) && (t.all[i].program == "printf" || t.all[i].out&decoded != 0)
		})
		if a.program == "rm" && (t.folder == "~" || t.folder == "/") {
			words = slices.Clone(words)
			for i, w := range words {
				if w == "*" || w == "./*" {
					words[i] = strings.TrimRight(t.folder, "/") + "/*"
				}
			}
		}
		a.args = strings.Join(words[1:], " ")
		a.args = a.args[:min(len(a.args), maxArguments)]
		t.act(&a, words)
	}
	a.out |= a.in
	for _, w := range c.Writes {
		t.files[w] |= a.out
	}
	t.all = append(t.all, a)
	return a
}

// words returns the words of a command and of those whose output it reads.
func (t *tracer) words(a action, depth int) string {
	out := strings.Join(a.Words, " ")
	for _, i := range a.Inputs {
		if i < len(t.all) && depth < maxNested && len(out) < maxArguments {
			out += "\n" + t.words(t.all[i], depth+1)
		}
	}
	return out
}

// printed returns the text that a command reads from echo, printf, or a here-document.
func (t *tracer) printed(a action) string {
	var out []string
	for _, i := range a.Inputs {
		if i >= len(t.all) {
			continue
		}
		switch from := t.all[i]; {
		case from.program == "echo" || from.program == "printf":
			words := shell.Command(from.Words)[1:]
			for len(words) > 0 && (strings.HasPrefix(words[0], "-") || from.program == "printf" && strings.Contains(words[0], "%")) {
				words = words[1:]
			}
			out = append(out, strings.Join(words, " "))
		case from.program == "cat" && from.Text != "":
			out = append(out, from.Text)
		}
	}
	return strings.Join(out, "\n")
}

const maxLiterals = 1000 // variables of a text

// resolved returns words in which variables are replaced by their values, as far as they are known.
func (t *tracer) resolved(words []string) []string {
	if len(t.literals) == 0 {
		return words
	}
	out := slices.Clone(words)
	for i, w := range out {
		for name := range variablesIn(w) {
			if value, known := t.literals[name]; known && len(out[i])+len(value) < maxArguments {
				out[i] = strings.ReplaceAll(out[i], "${"+name+"}", value)
			}
		}
	}
	return out
}

// values returns the labels of the variables and files in a word.
func (t *tracer) values(w string) (l label) {
	for name := range variablesIn(w) {
		l |= t.variables[name]
	}
	return l | t.files[strings.TrimPrefix(w, "@")]
}

// secretIn returns secret if a word is the path of a file with credentials.
func (t *tracer) secretIn(w string) label {
	if secretPath(strings.ToLower(w)) != "" || environmentFile(strings.ToLower(strings.TrimPrefix(w, "@"))) {
		return secret
	}
	for name := range variablesIn(w) {
		if t.paths[name] {
			return secret
		}
	}
	return 0
}

// variablesIn returns the names of the variables in a word.
func variablesIn(w string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for {
			_, after, ok := strings.Cut(w, "${")
			if !ok {
				return
			}
			name, rest, _ := strings.Cut(after, "}")
			if w = rest; !yield(name) {
				return
			}
		}
	}
}

// act sets what a command reads and does.
func (t *tracer) act(a *action, words []string) {
	if readers[a.program] {
		for i, w := range words[1:] {
			if words[i] != "-i" && words[i] != "-F" && words[i] != "-e" && words[i] != "-o" { // the key of the connection
				a.in |= t.secretIn(w)
			}
		}
	}
	if out := outputOf(a.program, words); out != "" && a.in&(secret|environ) != 0 {
		t.files[out] |= a.in & (secret | environ)
		t.files["./"+out] |= a.in & (secret | environ)
	}
	_, named := interpreters[a.program]
	switch {
	case fetchers[a.program]:
		t.fetch(a, words)
	case a.program == "cd":
		t.enter(words[1:])
	case printsToken(a.program, a.args):
		a.out |= credential
	case decodes(a.program, a.args):
		a.out |= decoded
	case a.program == "env" && len(words) == 1, a.program == "printenv" && len(words) == 1, a.program == "set" && len(words) == 1, a.program == "export" && strings.HasPrefix(a.args, "-p"):
		a.out |= environ
	case senders[a.program], a.program == "find" && strings.Contains(a.args, "-exec curl "):
		if a.does = transmits; (a.program == "rsync" || a.program == "rclone") && !strings.Contains(a.args, ":") {
			a.does = nothing // it copies on this machine
		}
		if sources[a.program] && !local(words) {
			a.out |= download
		}
	case uploads3(a.program, a.args):
		a.does = transmits
	case (sources[a.program] || a.program == "openssl" && strings.HasPrefix(a.args, "s_client")) && !local(words):
		if a.out |= download; a.program == "ssh" && a.in&(secret|environ) != 0 {
			a.does = transmits
		}
	case (a.program == "awk" || a.program == "gawk") && (strings.Contains(a.args, "system(") || strings.Contains(a.args, `| "sh`)):
		a.does = executes
	case a.program == "eval", a.program == "source", a.program == ".":
		a.does = executes
		if a.program == "eval" {
			a.text = a.args
		}
		for _, w := range words[1:] {
			a.in |= t.files[w]
		}
	case named:
		t.interpret(a, words)
	case a.program == "trap" && len(words) > 2:
		a.text = words[1]
	case a.program == "alias" && len(words) > 1:
		_, a.text, _ = strings.Cut(words[1], "=")
	case (a.program == "read" || a.program == "mapfile" || a.program == "readarray") && len(words) > 1:
		t.variables[words[len(words)-1]] |= a.in
	case (a.program == "open" || a.program == "xdg-open") && a.in&(secret|environ) != 0,
		a.program == "gh" && strings.HasPrefix(a.args, "gist create"):
		a.does = transmits
	case a.program == "tee":
		for _, w := range words[1:] {
			t.files[w] |= a.in
		}
	case (a.program == "cp" || a.program == "mv") && len(words) > 2:
		t.files[words[len(words)-1]] |= t.files[words[len(words)-2]] | a.in&secret
	case a.program == "chmod":
	case t.files[words[0]] != 0: // a file that was downloaded or decoded
		a.in |= t.files[words[0]]
		a.does = executes
	case strings.HasPrefix(words[0], "${") && t.values(words[0])&(download|untrusted|decoded) != 0: // its value is a command
		a.does = executes
	}
	if a.does == nothing && lookups[a.program] && a.in&(secret|environ) != 0 {
		a.does = transmits
	}
}

func (c *command) matches(a action) bool {
	switch {
	case a.program == "" && c.writesFile == nil:
		return false
	case len(c.programs) > 0 && !c.programs[a.program],
		c.does != nothing && c.does != a.does,
		c.gets != 0 && (a.in|a.out)&c.gets == 0,
		c.gets&untrusted == 0 && c.gets&download != 0 && a.in&untrusted != 0, // it has its own rule
		c.twin && !a.twin,
		c.computed && !a.computed,
		c.silent && !(a.Background && a.Quiet && a.Guarded),
		c.arguments != nil && !c.arguments.MatchString(a.args):
		return false
	}
	if c.writesFile == nil {
		return true
	}
	for _, w := range a.Writes {
		if c.writesFile.MatchString(w[:min(len(w), maxArguments)]) {
			return true
		}
	}
	return a.program == "tee" && c.writesFile.MatchString(a.args)
}

// revealed returns the text that a command decodes, for the excerpt.
func revealed(t *tracer, a action) string {
	if a.in&decoded == 0 {
		return ""
	}
	for i := len(t.all) - 1; i >= max(0, len(t.all)-16); i-- {
		for _, w := range t.all[i].Words {
			if plain := plainText(w); plain != "" {
				return plain
			}
		}
	}
	return ""
}
