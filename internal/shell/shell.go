// Package shell analyzes a shell text to find the commands it would run, so that rules for commands
// can be checked. It runs and expands nothing. A text that cannot be fully analyzed is opaque, and
// an opaque text matches no allow rule.
package shell

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// Limits of [Facts].
const (
	MaxBytes    = 32 << 10
	MaxCommands = 512
	maxDepth    = 64 // open brackets, including quoted ones
)

// Dynamic stands for a word whose value is known only at run time. No program argument can contain
// it.
const Dynamic = "\x00"

// Script describes what a shell text does, as far as can be determined.
type Script struct {
	// Commands are all simple commands in the order they begin, at any depth: those of &&, ||, ;,
	// pipes, subshells, substitutions, conditions, loops, and functions. Words are unquoted; an
	// unknown word is Dynamic.
	Commands [][]string
	// Starts are all commands the text may start: Commands, and what those start in turn, as bash
	// -c, env, and xargs do. A command that is only {Dynamic} stands for commands that the text
	// does not determine.
	Starts [][]string
	// Opaque reports whether the text may do more than Commands show. It is false only for plain
	// commands without dynamic words, joined by &&, ||, ;, and pipes, on one line.
	Opaque bool
	// Why lists the reasons for Opaque, sorted.
	Why []string
}

// Facts analyzes a text as bash would. It returns an error if the text is not valid, contains bytes
// that no shell text needs, or exceeds a limit. A rule must not allow such a text.
func Facts(src string) (Script, error) {
	if err := unreadable(src); err != nil {
		return Script{}, err
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash), syntax.KeepComments(true)).Parse(strings.NewReader(src), "")
	if err != nil {
		return Script{}, fmt.Errorf("no shell text: %w", err)
	}
	r := reader{why: map[string]bool{}}
	syntax.Walk(file, r.visit)
	if r.sums && r.quoted {
		r.command([]string{Dynamic})
	}
	if r.over {
		return Script{}, fmt.Errorf("the shell text has more than %d commands", MaxCommands)
	}
	r.lines(file, src)
	s := newStarter()
	s.walk(src, file, false)
	r.out.Starts = s.all()
	for why := range r.why {
		r.out.Why = append(r.out.Why, why)
	}
	slices.Sort(r.out.Why)
	r.out.Opaque = len(r.out.Why) > 0
	return r.out, nil
}

// unreadable returns why a text is not analyzed, or nil.
func unreadable(src string) error {
	switch {
	case len(src) > MaxBytes:
		return fmt.Errorf("%d bytes of shell text; at most %d are read", len(src), MaxBytes)
	case !utf8.ValidString(src):
		return fmt.Errorf("the shell text is not UTF-8")
	case deep(src):
		return fmt.Errorf("the shell text has more than %d open brackets", maxDepth)
	}
	for i, c := range src {
		if c < ' ' && c != '\n' && c != '\t' || c == 0x7f {
			return fmt.Errorf("the shell text contains the control character %q at byte %d", c, i)
		}
	}
	return nil
}

// deep estimates, before parsing, whether the parser would recurse too deeply.
func deep(src string) bool {
	open, ticks := 0, 0
	for i := range len(src) {
		switch src[i] {
		case '(', '{', '[':
			open++
		case ')', '}', ']':
			open = max(open-1, 0)
		case '`':
			ticks++
		}
		if open > maxDepth {
			return true
		}
	}
	words := 0 // constructs that open without a bracket
	for w := range strings.FieldsSeq(src) {
		switch w {
		case "if", "while", "until", "for", "case", "select", "function", "time", "coproc", "!", "-", "+", "~":
			words++
		}
	}
	return ticks > 16*maxDepth || words > 16*maxDepth
}

// reader collects facts while walking the syntax tree.
type reader struct {
	out  Script
	why  map[string]bool
	over bool
	// The text has arithmetic (sums), and quoted text that arithmetic would run (quoted).
	sums, quoted bool
}

func (r *reader) opaque(why string) { r.why[why] = true }

// visit handles the few node types that keep a text plain. All others make it opaque, including
// those of later parser versions.
func (r *reader) visit(n syntax.Node) bool {
	r.sums = r.sums || arithmetic(n)
	switch n := n.(type) {
	case nil, *syntax.File, *syntax.Word, *syntax.Lit, *syntax.DblQuoted, *syntax.BinaryCmd:
	case *syntax.SglQuoted:
		r.quoted = r.quoted || holds(n)
	case *syntax.Stmt:
		if n.Background || n.Coprocess || n.Disown {
			r.opaque("a command in the background")
		}
		if n.Negated {
			r.opaque("a negated command")
		}
	case *syntax.CallExpr:
		r.call(n)
	case *syntax.Redirect:
		r.opaque("a redirect")
	case *syntax.Comment:
		r.opaque("a comment")
	case *syntax.FuncDecl:
		r.opaque("a function")
	case *syntax.Assign:
		r.opaque("an assignment")
	case *syntax.DeclClause:
		r.command([]string{n.Variant.Value, Dynamic})
		r.opaque("a declaration")
	case *syntax.LetClause:
		r.command([]string{"let", Dynamic})
		r.opaque("arithmetic")
	case *syntax.CmdSubst, *syntax.ProcSubst:
		r.opaque("a substitution")
	case *syntax.ParamExp, *syntax.ArithmExp, *syntax.ExtGlob, *syntax.BraceExp:
		r.opaque("a word that is known only when it runs")
	default:
		r.opaque("a compound command")
	}
	return !r.over
}

func (r *reader) command(words []string) {
	if r.over = len(r.out.Commands) >= MaxCommands; !r.over {
		r.out.Commands = append(r.out.Commands, words)
	}
}

func (r *reader) call(n *syntax.CallExpr) {
	if len(n.Args) == 0 {
		return
	}
	words := make([]string, 0, len(n.Args))
	for i, a := range n.Args {
		text, known := value(a)
		if !known {
			text = Dynamic
			r.opaque("a word that is known only when it runs")
		}
		if i == 0 && !bare(a) {
			r.opaque("a command whose name is quoted or put together")
		}
		words = append(words, text)
	}
	r.command(words)
	if evaluates(words) {
		r.command([]string{Dynamic})
		r.opaque("a builtin that evaluates its words")
	}
}

// lines makes a text opaque if it has a newline outside of quoted words: it then has several lines,
// or a continued one.
func (r *reader) lines(file *syntax.File, src string) {
	quoted := 0
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.SglQuoted:
			quoted += strings.Count(n.Value, "\n")
		case *syntax.DblQuoted:
			for _, p := range n.Parts {
				if l, ok := p.(*syntax.Lit); ok {
					quoted += strings.Count(l.Value, "\n")
				}
			}
			return false
		}
		return true
	})
	if strings.Contains(src, "\\\n") || strings.Count(strings.TrimSpace(src), "\n") != quoted {
		r.opaque("several lines")
	}
}

// bare reports whether a word is one piece of text without quotes or escapes.
func bare(w *syntax.Word) bool {
	if len(w.Parts) != 1 {
		return false
	}
	l, ok := w.Parts[0].(*syntax.Lit)
	return ok && !strings.ContainsAny(l.Value, "\\\"'$`")
}

// value returns the text of a word if it is constant: without expansions of any kind, including
// file names.
func value(w *syntax.Word) (string, bool) {
	if w == nil {
		return "", false
	}
	var b, plain strings.Builder // plain is the unquoted part
	for _, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			if !unescape(&b, &plain, p.Value) {
				return "", false
			}
		case *syntax.SglQuoted:
			if p.Dollar {
				return "", false
			}
			b.WriteString(p.Value)
			plain.WriteByte(' ')
		case *syntax.DblQuoted:
			if p.Dollar || !double(&b, p) {
				return "", false
			}
			plain.WriteByte(' ')
		default:
			return "", false
		}
	}
	if expands(plain.String()) {
		return "", false
	}
	return b.String(), true
}

// unescape adds unquoted text. In plain, an escaped character becomes a space.
func unescape(b, plain *strings.Builder, s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' {
			if i++; i == len(s) {
				return false
			}
			if s[i] != '\n' {
				b.WriteByte(s[i])
			}
			if s[i] < utf8.RuneSelf {
				plain.WriteByte(' ')
			}
			continue
		}
		b.WriteByte(s[i])
		plain.WriteByte(s[i])
	}
	return true
}

// expands reports whether unquoted text is, or may be, a glob, a brace expansion, or a home folder.
func expands(s string) bool {
	if s == "[" { // the command
		return false
	}
	if strings.ContainsAny(s, "*?[") || strings.Contains(s, "{") && (strings.Contains(s, ",") || strings.Contains(s, "..")) {
		return true
	}
	for i := range len(s) {
		if s[i] == '~' && (i == 0 || strings.IndexByte("=:", s[i-1]) >= 0) {
			return true
		}
	}
	return false
}

// double adds the text in double quotes if it is constant.
func double(b *strings.Builder, q *syntax.DblQuoted) bool {
	for _, p := range q.Parts {
		l, ok := p.(*syntax.Lit)
		if !ok {
			return false
		}
		for s := l.Value; s != ""; {
			if len(s) > 1 && s[0] == '\\' && strings.IndexByte("$`\"\\\n", s[1]) >= 0 {
				if s[1] != '\n' {
					b.WriteByte(s[1])
				}
				s = s[2:]
				continue
			}
			b.WriteByte(s[0])
			s = s[1:]
		}
	}
	return true
}
