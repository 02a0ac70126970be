package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Limits of [Calls].
const (
	MaxCalls     = 4096      // commands and assignments
	maxScript    = 128 << 10 // bytes that are parsed as a whole; a longer text is parsed line by line
	maxCallLines = 16 << 10  // lines that are parsed one by one
	maxInputs    = 64        // of a call
)

// Call is a simple command or an assignment with its place and what it is connected to. It is for
// describing a text, not for permissions: the words of an expansion are unknown.
type Call struct {
	Line   int      // of its first word, from 1
	Column int      // of its first word, in bytes, from 1
	Words  []string // unquoted; an expansion is written as ${NAME}, and a substitution as $(…) or <(…)
	Inputs []int    // indexes of the calls whose output it reads: from a pipe or in a substitution
	Name   string   // for an assignment or a loop: the variable; Words has its values
	Reads  []string // files of its redirects
	Writes []string // files of its redirects
	Text   string   // its here-document

	Background bool
	Quiet      bool // at least one of its streams goes to /dev/null
	Guarded    bool // it runs only if a comparison with a constant holds
}

// Calls returns the commands of a text. A command comes after those whose output it reads. If the text is not valid as a whole,
// its lines are read one by one, and those that are not valid are left out. whole reports whether
// everything was read.
func Calls(src string) (calls []Call, whole bool) {
	src = strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f || r == '\ufffd' {
			return ' '
		}
		return r
	}, strings.ReplaceAll(src, "\r\n", "\n"))
	c := &caller{parser: syntax.NewParser(syntax.Variant(syntax.LangBash))}
	if len(src) <= maxScript && c.parse(src, 0) {
		return c.out, !c.full
	}
	c.out, whole = nil, true
	line, read := 0, 0
	for src != "" && !c.full && read < maxCallLines {
		text, rest, _ := strings.Cut(src, "\n")
		lines := 1
		for strings.HasSuffix(text, "\\") && rest != "" && len(text) < MaxBytes {
			var more string
			more, rest, _ = strings.Cut(rest, "\n")
			text += "\n" + more
			lines++
		}
		if strings.TrimSpace(text) != "" && (len(text) > MaxBytes || !c.parse(text, line)) {
			whole = false
		}
		src, line, read = rest, line+lines, read+1
	}
	return c.out, whole && src == "" && !c.full
}

// Command returns the words of a command without assignments and without the programs that only start
// another one, such as sudo and env.
func Command(words []string) []string {
	for len(words) > 1 {
		name := words[0]
		switch {
		case identifier(strings.SplitN(name, "=", 2)[0]) && strings.Contains(name, "="):
			words = words[1:]
		case starters[name]:
			words = words[1:]
			for len(words) > 1 && (strings.HasPrefix(words[0], "-") || starterValues[name] && strings.Trim(words[0], "0123456789.smhd") == "") {
				words = words[1:]
			}
		default:
			return words
		}
	}
	return words
}

// starters start the command in their arguments.
var starters = set("sudo doas env nohup time exec command builtin nice ionice setsid stdbuf timeout xargs busybox")

// starterValues are those of them whose first argument is a number.
var starterValues = set("timeout nice")

// Interprets reports whether a program is a shell.
func Interprets(program string) bool { return shells[program] }

type caller struct {
	parser *syntax.Parser
	out    []Call
	full   bool
}

// inside is the context of a command.
type inside struct {
	inputs            []int
	background, quiet bool
	guarded           bool
	line              int // lines before the text
}

// parse adds the calls of a text. It returns false if the text is not valid.
func (c *caller) parse(src string, line int) bool {
	if deep(src) {
		return false
	}
	file, err := c.parser.Parse(strings.NewReader(src), "")
	if err != nil {
		return false
	}
	c.list(file.Stmts, inside{line: line})
	return true
}

// list adds statements and returns the indexes of the calls whose output is theirs.
func (c *caller) list(list []*syntax.Stmt, in inside) (outputs []int) {
	for _, s := range list {
		outputs = append(outputs, c.stmt(s, in)...)
	}
	return outputs
}

func (c *caller) stmt(s *syntax.Stmt, in inside) []int {
	if s == nil || c.full {
		return nil
	}
	in.background = in.background || s.Background || s.Disown
	var reads, writes []string
	text := ""
	for _, r := range s.Redirs {
		file := ""
		if r.Word != nil {
			file = render(r.Word)
		}
		switch {
		case r.Hdoc != nil:
			text = render(r.Hdoc)
		case r.Op == syntax.WordHdoc:
			text = file
		case r.Op == syntax.RdrIn:
			reads = append(reads, file)
		case file == "/dev/null":
			in.quiet = true
		default:
			writes = append(writes, file)
		}
		if r.Word != nil {
			in.inputs = append(in.inputs[:len(in.inputs):len(in.inputs)], c.substitutions(r.Word, in)...)
		}
	}
	first := len(c.out)
	outputs := c.command(s.Cmd, in)
	if s.Cmd == nil && (len(writes) > 0 || len(reads) > 0) {
		outputs = c.add(Call{Line: int(s.Pos().Line()) + in.line, Column: int(s.Pos().Col())}, in)
	}
	if first < len(c.out) && len(reads)+len(writes)+len(text) > 0 {
		at := &c.out[first]
		if call, ok := s.Cmd.(*syntax.CallExpr); ok && len(call.Args) > 0 {
			at = &c.out[outputs[len(outputs)-1]]
		}
		at.Reads, at.Writes = append(at.Reads, reads...), append(at.Writes, writes...)
		at.Text += text
	}
	return outputs
}

func (c *caller) command(cmd syntax.Command, in inside) []int {
	switch x := cmd.(type) {
	case *syntax.CallExpr:
		return c.call(x, in)
	case *syntax.BinaryCmd:
		left := c.stmt(x.X, in)
		if x.Op != syntax.Pipe && x.Op != syntax.PipeAll {
			return append(left, c.stmt(x.Y, in)...)
		}
		in.inputs = append(in.inputs[:len(in.inputs):len(in.inputs)], left...)
		return c.stmt(x.Y, in)
	case *syntax.Block:
		return c.list(x.Stmts, in)
	case *syntax.Subshell:
		return c.list(x.Stmts, in)
	case *syntax.FuncDecl:
		return c.stmt(x.Body, in)
	case *syntax.TimeClause:
		return c.stmt(x.Stmt, in)
	case *syntax.CoprocClause:
		return c.stmt(x.Stmt, in)
	case *syntax.WhileClause:
		return append(c.list(x.Cond, in), c.list(x.Do, in)...)
	case *syntax.ForClause:
		if it, ok := x.Loop.(*syntax.WordIter); ok && len(it.Items) > 0 {
			c.iterate(it, in)
		}
		return c.list(x.Do, in)
	case *syntax.IfClause:
		out := c.list(x.Cond, in)
		then := in
		then.guarded = in.guarded || compares(x.Cond)
		out = append(out, c.list(x.Then, then)...)
		if x.Else != nil {
			out = append(out, c.command(x.Else, in)...)
		}
		return out
	case *syntax.CaseClause:
		var out []int
		in.guarded = true
		for _, item := range x.Items {
			out = append(out, c.list(item.Stmts, in)...)
		}
		return out
	case *syntax.DeclClause:
		var out []int
		for _, a := range x.Args {
			out = append(out, c.assign(a, in)...)
		}
		return out
	}
	return nil
}

func (c *caller) call(x *syntax.CallExpr, in inside) []int {
	var out []int
	for _, a := range x.Assigns {
		out = append(out, c.assign(a, in)...)
	}
	if len(x.Args) == 0 {
		return out
	}
	k := Call{Line: int(x.Pos().Line()) + in.line, Column: int(x.Pos().Col())}
	for _, w := range x.Args {
		k.Words = append(k.Words, render(w))
	}
	for _, w := range x.Args {
		in.inputs = append(in.inputs[:len(in.inputs):len(in.inputs)], c.substitutions(w, inside{line: in.line, guarded: in.guarded})...)
	}
	return c.add(k, in)
}

func (c *caller) assign(a *syntax.Assign, in inside) []int {
	if a.Name == nil || c.full {
		return nil
	}
	k := Call{Line: int(a.Pos().Line()) + in.line, Column: int(a.Pos().Col()), Name: a.Name.Value}
	if a.Value != nil {
		k.Words = []string{render(a.Value)}
	}
	own := inside{line: in.line, guarded: in.guarded}
	if a.Value != nil {
		own.inputs = c.substitutions(a.Value, own)
	}
	return c.add(k, own)
}

// iterate adds an assignment for the values of a loop.
func (c *caller) iterate(it *syntax.WordIter, in inside) {
	k := Call{Line: int(it.Pos().Line()) + in.line, Column: int(it.Pos().Col()), Name: it.Name.Value}
	own := inside{line: in.line, guarded: in.guarded}
	for _, w := range it.Items {
		k.Words = append(k.Words, render(w))
		own.inputs = append(own.inputs, c.substitutions(w, own)...)
	}
	c.add(k, own)
}

func (c *caller) add(k Call, in inside) []int {
	if c.full = c.full || len(c.out) >= MaxCalls; c.full {
		return nil
	}
	k.Inputs = append([]int(nil), in.inputs[max(0, len(in.inputs)-maxInputs):]...)
	k.Background, k.Quiet, k.Guarded = in.background, in.quiet, in.guarded
	c.out = append(c.out, k)
	return []int{len(c.out) - 1}
}

// substitutions adds the calls in a word and returns those whose output the word has.
func (c *caller) substitutions(w *syntax.Word, in inside) (out []int) {
	in.inputs = nil
	syntax.Walk(w, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst:
			out = append(out, c.list(n.Stmts, in)...)
			return false
		case *syntax.ProcSubst:
			out = append(out, c.list(n.Stmts, in)...)
			return false
		}
		return true
	})
	return out
}

// compares reports whether a condition compares something with a constant.
func compares(cond []*syntax.Stmt) bool {
	found := false
	for _, s := range cond {
		syntax.Walk(s, func(n syntax.Node) bool {
			switch n := n.(type) {
			case *syntax.CallExpr:
				for _, a := range n.Args {
					found = found || set("= == =~ -eq")[a.Lit()]
				}
			case *syntax.BinaryTest:
				switch n.Op {
				case syntax.TsMatch, syntax.TsMatchShort, syntax.TsReMatch, syntax.TsEql:
					found = true
				}
			}
			return !found
		})
	}
	return found
}

// render writes a word without quotes.
func render(w *syntax.Word) string {
	var b strings.Builder
	for _, p := range w.Parts {
		part(&b, p)
	}
	return b.String()
}

func part(b *strings.Builder, p syntax.WordPart) {
	switch p := p.(type) {
	case *syntax.Lit:
		for i := 0; i < len(p.Value); i++ {
			if p.Value[i] == '\\' && i+1 < len(p.Value) {
				if i++; p.Value[i] == '\n' {
					continue
				}
			}
			b.WriteByte(p.Value[i])
		}
	case *syntax.SglQuoted:
		b.WriteString(p.Value)
	case *syntax.DblQuoted:
		for _, q := range p.Parts {
			part(b, q)
		}
	case *syntax.ParamExp:
		if p.Param != nil {
			b.WriteString("${" + p.Param.Value + "}")
		}
	case *syntax.CmdSubst:
		b.WriteString("$(…)")
	case *syntax.ProcSubst:
		b.WriteString("<(…)")
	case *syntax.BraceExp:
		for _, e := range p.Elems {
			b.WriteString(render(e) + " ")
		}
	case *syntax.ArithmExp:
		b.WriteString("$((…))")
	case *syntax.ExtGlob:
		b.WriteString("*")
	}
}
