package scan

import (
	"encoding/base64"
	"iter"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"metier/internal/shell"
)

// action is a command with what it does.
type action struct {
	shell.Call
	program string
	args    string // the words after the program
	in, out label
	twin    bool // it reads the output of the same command
	does    deed
	text    string // code in its arguments or its input
	lang    string // of that code; "" is shell code
}

// tracer follows data through the commands of a text.
type tracer struct {
	variables map[string]label
	files     map[string]label
	paths     map[string]bool // variables that have the path of a file with credentials
	all       []action
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
	offsets := lineOffsets(text)
	t := &tracer{variables: map[string]label{}, files: map[string]label{}, paths: map[string]bool{}}
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
				s.addCommand(f, r, where, line, &u, revealed(t, a))
			}
		}
		inner := u
		if u.place == inLine {
			inner.place = inFence
		}
		if inner.text = a.text; a.text == "" && a.does == executes {
			inner.text = revealed(t, a)
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
	if depth == 0 {
		s.remarks(f, u, '#')
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
		case !continued:
			lines[i] = ""
		}
		continued = strings.HasSuffix(l, "\\")
	}
	return strings.Join(lines, "\n")
}

func (t *tracer) trace(c shell.Call) action {
	a := action{Call: c}
	for _, i := range c.Inputs {
		if i < len(t.all) {
			a.in |= t.all[i].out
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
		t.paths[c.Name] = t.paths[c.Name] || slices.ContainsFunc(c.Words, func(w string) bool { return t.secretIn(w) != 0 })
		t.variables[c.Name] |= a.in
		a.out = a.in
		t.all = append(t.all, a)
		return a
	}
	words := shell.Command(c.Words)
	if len(words) > 0 {
		a.program = strings.ToLower(path.Base(words[0]))
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
		for _, w := range words[1:] {
			a.in |= t.secretIn(w)
		}
	}
	_, named := interpreters[a.program]
	switch {
	case fetchers[a.program]:
		t.fetch(a, words)
	case decodes(a.program, a.args):
		a.out |= decoded
	case a.program == "env" && len(words) == 1, a.program == "printenv" && len(words) == 1, a.program == "set" && len(words) == 1, a.program == "export" && strings.HasPrefix(a.args, "-p"):
		a.out |= environ
	case senders[a.program]:
		a.does = transmits
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
	case a.program == "tee":
		for _, w := range words[1:] {
			t.files[w] |= a.in
		}
	case (a.program == "cp" || a.program == "mv") && len(words) > 2:
		t.files[words[len(words)-1]] |= t.files[words[len(words)-2]]
	case a.program == "chmod":
	case t.files[words[0]] != 0: // a file that was downloaded or decoded
		a.in |= t.files[words[0]]
		a.does = executes
	}
	if a.does == nothing && lookups[a.program] && a.in&(secret|environ) != 0 {
		a.does = transmits
	}
}

// fetch handles the programs that download and upload.
func (t *tracer) fetch(a *action, words []string) {
	sends, output := false, ""
	for i, w := range words[1:] {
		next := ""
		if i+2 < len(words) {
			next = words[i+2]
		}
		switch {
		case w == "-o" || w == "--output" || w == "-O" && a.program == "wget" || w == "-OutFile":
			output = next
		case sendOption.MatchString(w):
			sends = true
			a.in |= t.secretIn(afterAt(next)) | t.secretIn(afterAt(w))
		case strings.Contains(w, "://") || looksLikeHost(w):
			a.out |= origin(w)
			if output == "" && a.program != "curl" {
				output = path.Base(w)
			}
			sends = sends || t.values(w)&(secret|environ) != 0 || strings.Contains(w, "$(…)") && a.in&(secret|environ) != 0
		}
		if w == "-O" && a.program == "curl" || w == "-LO" || w == "-OL" || w == "-fsSLO" {
			output = "?"
		}
	}
	if output == "?" {
		for _, w := range words[1:] {
			if strings.Contains(w, "://") {
				output = path.Base(w)
			}
		}
	}
	if a.out != 0 && output != "" {
		t.files[output] |= a.out
		t.files["./"+output] |= a.out
	}
	if sends {
		a.does = transmits
	}
}

func afterAt(w string) string {
	if _, file, ok := strings.Cut(w, "@"); ok {
		return file
	}
	return w
}

var sendOption = regexp.MustCompile(`^(-d|--data.*|-F|--form.*|-T|--upload-file.*|--json|--post-data.*|--post-file.*|--body-.*|-Body|-InFile)$|^-(d|F|T)[@a-z]`)

func looksLikeHost(w string) bool {
	return !strings.HasPrefix(w, "-") && strings.Contains(w, ".") && strings.Contains(w, "/") && !strings.ContainsAny(w, "{}:, '\"") && w[0] != '.' && w[0] != '/'
}

// origin returns the labels of data from an address.
func origin(address string) label {
	switch h := hostOf(address); {
	case h.local:
		return 0
	case h.installer:
		return installer
	case h.risky():
		return download | untrusted
	}
	return download
}

// interpret handles the programs that execute code.
func (t *tracer) interpret(a *action, words []string) {
	flags := interpreters[a.program]
	operand := false
	for i := 1; i < len(words); i++ {
		w := words[i]
		switch {
		case flags != "" && strings.HasPrefix(w, "-") && !strings.HasPrefix(w, "--") && strings.ContainsAny(w, flags):
			a.does = executes
			operand = true
			if i+1 < len(words) {
				a.text = words[i+1]
			}
			i = len(words)
		case w == "-" || w == "/dev/stdin" || w == "-s":
		case strings.HasPrefix(w, "-"):
		case strings.HasPrefix(w, "<("):
			a.does, operand = executes, true
		default:
			if !operand && t.files[w] != 0 {
				a.does = executes
				a.in |= t.files[w]
			}
			operand = true
		}
	}
	if !operand && a.in != 0 {
		a.does = executes
	}
	if !operand && a.Text != "" {
		a.text = a.Text
	}
	a.lang = codeOf(a.program)
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

// plainText decodes base64 if the result is text.
func plainText(w string) string {
	w = strings.TrimRight(w, "=\n ")
	if len(w) < 16 || len(w) > 64<<10 || strings.Trim(w, base64Letters) != "" {
		return ""
	}
	b, err := base64.RawStdEncoding.DecodeString(w)
	if err != nil || !utf8.Valid(b) {
		return ""
	}
	for _, c := range string(b) {
		if c < ' ' && c != '\n' && c != '\t' && c != '\r' || c == 0x7f {
			return ""
		}
	}
	return string(b)
}

const base64Letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

func decodes(program, args string) bool {
	switch program {
	case "base64", "base32", "gbase64":
		return decodeFlag.MatchString(args)
	case "openssl":
		return strings.Contains(args, " -d")
	case "xxd":
		return strings.Contains(args, "-r")
	case "rev", "uudecode":
		return true
	case "tr":
		return strings.Contains(strings.ToLower(args), "a-z") && strings.Contains(strings.ToLower(args), "n-z")
	}
	return false
}

var decodeFlag = regexp.MustCompile(`(^| )(-d|-D|--decode|-di)( |$)`)

var (
	fetchers     = set("curl wget iwr invoke-webrequest invoke-restmethod irm aria2c http https xh fetch lynx")
	readers      = set("cat head tail less more cp mv tar zip gzip base64 xxd openssl grep sed awk sort strings od scp rsync gpg dd jq cut tee curl source .")
	senders      = set("nc ncat netcat socat scp sftp ftp rsync telnet sendmail mail mutt")
	lookups      = set("nslookup dig host ping")
	interpreters = map[string]string{"sh": "c", "bash": "c", "zsh": "c", "dash": "c", "ksh": "c", "fish": "c", "python": "c", "python3": "c", "node": "e", "perl": "e", "ruby": "e", "php": "r", "osascript": "e", "pwsh": "c", "powershell": "c", "iex": "", "invoke-expression": "", "deno": "", "bun": "e"}
)
