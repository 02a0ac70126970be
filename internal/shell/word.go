package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// word is a word of a command, as far as the text determines it.
type word struct {
	text  string // the value if known, otherwise its literal prefix
	known bool
	one   bool   // expands to exactly one word
	num   bool   // expands to an integer, possibly inside literal text
	bare  bool   // with an integer outside of quotes, which IFS can split
	lone  bool   // expands to at most one word if the value of first is one
	first string // the variable it consists of or starts with, followed by literal text that does not start with a hyphen
}

// plain returns words with known values.
func plain(texts []string) []word {
	out := make([]word, len(texts))
	for i, t := range texts {
		out[i] = word{text: t, known: true, one: true}
	}
	return out
}

// texts returns the values of words, with Dynamic for unknown ones.
func texts(words []word) []string {
	out := make([]string, len(words))
	for i, w := range words {
		if out[i] = w.text; !w.known {
			out[i] = Dynamic
		}
	}
	return out
}

// bound reports whether an unknown word cannot become an option because it starts with literal text
// other than a hyphen.
func (w word) bound() bool { return w.text != "" && w.text[0] != '-' }

// leads returns the variable that a word consists of, or that it starts with if the literal text
// after it does not start with a hyphen. Otherwise it returns "".
func leads(parts []syntax.WordPart) string {
	if len(parts) == 1 {
		if q, ok := parts[0].(*syntax.DblQuoted); ok && !q.Dollar {
			parts = q.Parts
		}
	}
	if len(parts) == 0 || len(parts) > 2 {
		return ""
	}
	first := parts[0]
	if q, ok := first.(*syntax.DblQuoted); ok && len(q.Parts) == 1 {
		first = q.Parts[0]
	}
	p, ok := first.(*syntax.ParamExp)
	if !ok || p.Param == nil || p.Excl || p.Length || p.Names != 0 || p.Index != nil || p.Slice != nil || p.Repl != nil || p.Exp != nil {
		return ""
	}
	if len(parts) == 2 {
		if l, ok := parts[1].(*syntax.Lit); !ok || strings.IndexByte("-\\~*?[{", l.Value[0]) >= 0 {
			return ""
		}
	}
	return p.Param.Value
}

// read converts a word of the syntax tree.
func read(w *syntax.Word) word {
	if text, known := value(w); known {
		return word{text: text, known: true, one: true}
	}
	var head strings.Builder
	out := word{one: true, num: true, first: leads(w.Parts)}
	out.lone = out.first != ""
	open := true // all parts so far are literal
	for _, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			s := p.Value
			if i := strings.IndexAny(s, `\*?[{~`); i >= 0 {
				whole := strings.IndexByte(`\~`, s[i]) >= 0 && !strings.ContainsAny(s, "*?[{")
				out.one, out.lone = out.one && whole, out.lone && whole
				out.num = false
				s, open = s[:i], open && add(&head, s[:i], open)
			}
			open = open && add(&head, s, open && s == p.Value)
		case *syntax.SglQuoted:
			open = open && !p.Dollar && add(&head, p.Value, true)
			out.num = out.num && !p.Dollar
		case *syntax.DblQuoted:
			for _, q := range p.Parts {
				l, ok := q.(*syntax.Lit)
				open = open && ok && !strings.Contains(l.Value, `\`) && add(&head, l.Value, true)
				out.num = out.num && (ok || integer(q))
			}
			out.one = out.one && !lists(p)
		default:
			open = false
			_, prints := p.(*syntax.CmdSubst) // nothing, if the program fails
			out.num = out.num && integer(p)
			out.one, out.bare = out.one && out.num && !prints, true
		}
	}
	out.text = head.String()
	return out
}

// add appends s and returns literal.
func add(b *strings.Builder, s string, literal bool) bool {
	if literal || s != "" {
		b.WriteString(s)
	}
	return literal
}

// lists reports whether a quoted expansion can produce several words: "$@", "${a[@]}".
func lists(q *syntax.DblQuoted) bool {
	found := false
	syntax.Walk(q, func(n syntax.Node) bool {
		if p, ok := n.(*syntax.ParamExp); ok {
			index, _ := p.Index.(*syntax.Word)
			found = found || p.Param == nil || p.Param.Value == "@" || index != nil && index.Lit() == "@" || p.Excl
		}
		return !found
	})
	return found
}

// integer reports whether a part of a word always expands to an integer, or nothing if it is a
// command.
func integer(p syntax.WordPart) bool {
	switch p := p.(type) {
	case *syntax.ArithmExp:
		return true
	case *syntax.CmdSubst:
		return counts(p.Stmts)
	case *syntax.ParamExp:
		if p.Excl || p.Names != 0 || p.Slice != nil || p.Repl != nil || p.Exp != nil || p.Param == nil {
			return false
		}
		if p.Length {
			return true
		}
		switch p.Param.Value {
		case "#", "?", "$", "RANDOM", "SECONDS", "LINENO", "EPOCHSECONDS", "UID", "EUID", "PPID":
			return p.Index == nil
		}
	}
	return false
}

// counts reports whether commands print one integer or nothing: wc on standard input, nproc, and date
// +%s. A
// text that redefines one of these names as a function is not understood.
func counts(stmts []*syntax.Stmt) bool {
	if len(stmts) != 1 {
		return false
	}
	cmd := stmts[0].Cmd
	for {
		b, ok := cmd.(*syntax.BinaryCmd)
		if !ok || b.Op != syntax.Pipe {
			break
		}
		cmd = b.Y.Cmd
	}
	c, ok := cmd.(*syntax.CallExpr)
	if !ok || len(c.Args) == 0 || len(c.Assigns) > 0 {
		return false
	}
	words := make([]string, len(c.Args))
	for i, a := range c.Args {
		words[i], ok = value(a)
		if !ok {
			return false
		}
	}
	switch strings.Join(words, " ") {
	case "nproc", "date +%s", "wc -l", "wc -c", "wc -w", "wc -m":
		return true
	}
	return false
}

// counters are the programs that counts supports.
var counters = set("nproc date wc")

func set(words string) map[string]bool {
	out := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		out[w] = true
	}
	return out
}
