package shell

import (
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// special reports whether the shell itself runs, expands, or obeys the text of a variable.
func special(name string) bool {
	return strings.HasPrefix(name, "BASH") || strings.HasPrefix(name, "LD_") || len(name) == 3 && strings.HasPrefix(name, "PS") || set("ENV PROMPT_COMMAND SHELLOPTS FCEDIT POSIXLY_CORRECT")[name]
}

// launching are variables that hold options of a program, and an option can name a program to
// start.
var launching = set("TAR_OPTIONS RIPGREP_CONFIG_PATH ZIPOPT RSYNC_CONNECT_PROG")

// searchesHere matches a PATH with a folder that depends on where the text runs.
var searchesHere = regexp.MustCompile("\\bPATH=[\"']?(?:[^\\s\"';&|]*:)?(?:\\.{1,2}(?:/[^:\\s\"';&|]*)?|\\$\\{?PWD[^:\\s\"';&|]*|:)(?:[:\"'\\s;&|]|$)")

// counted are variables that evaluate what they are set to.
var counted = set("RANDOM SRANDOM SECONDS LINENO OPTIND EPOCHSECONDS EPOCHREALTIME HISTCMD UID EUID PPID COLUMNS LINES TMOUT IGNOREEOF HISTSIZE HISTFILESIZE MAILCHECK FUNCNEST")

// volatile reports whether the content of a variable may come from commands or files.
func volatile(name string) bool {
	return special(name) || set("_ REPLY MAPFILE OPTARG DIRSTACK FUNCNAME PWD OLDPWD COPROC GROUPS @ * - 0 1 2 3 4 5 6 7 8 9")[name] || name != "" && name[0] >= '0' && name[0] <= '9'
}

// Kinds of values.
const (
	anything = iota
	named    // no word starts with a hyphen
	single   // text that stays one word without quotes, and does not start with a hyphen
	integral // an integer
)

// content returns the kind of a word's value.
func content(w *syntax.Word) int {
	switch {
	case number(w):
		return integral
	case w == nil:
		return named
	}
	r := read(w)
	if r.known {
		return textual(r.text)
	}
	for _, p := range w.Parts { // a file name pattern, or text with a number
		switch p := p.(type) {
		case *syntax.Lit, *syntax.SglQuoted:
		default:
			if !integer(p) {
				return anything
			}
		}
	}
	if textual(r.text) == anything || w.Lit() == "" && !r.bound() || strings.HasPrefix(w.Lit(), "{") || strings.HasPrefix(w.Lit(), "[") {
		return anything
	}
	return named
}

// textual returns the kind of a known value.
func textual(s string) int {
	if digits(s) {
		return integral
	}
	for f := range strings.FieldsSeq(s) {
		if f[0] == '-' {
			return anything
		}
	}
	if s != "" && !strings.ContainsAny(s, " \t\n\\*?[") {
		return single
	}
	return named
}

// sets records that a variable is set to a kind of value. assigned: an assignment sets it, whose
// value passes looks at.
func (s *starter) sets(name string, value int, assigned bool) {
	if !identifier(name) || special(name) || launching[name] || value < integral && counted[name] {
		s.unknown()
		return
	}
	if !assigned && launches(name) { // its value is not looked at
		s.unknown()
	}
	s.searched = s.searched || name == "PATH"
	if value < integral {
		s.tainted[name] = true
	}
	if value < named || name == "IFS" {
		s.hyphens[name] = true
	}
	if value < single || name == "IFS" {
		s.several[name] = true
	}
}

// bound reports whether an unknown word cannot become an option. For a variable, that is decided
// after the whole text is read.
func (s *starter) bound(w word) bool {
	if w.bound() {
		return true
	}
	if w.first == "" || volatile(w.first) {
		return false
	}
	s.needs[w.first] = true
	return true
}

// splits reports whether an unknown word may become several words. For a variable, that is decided
// after the whole text is read.
func (s *starter) splits(w word) bool {
	if w.one {
		return false
	}
	if !w.lone || volatile(w.first) {
		return true
	}
	s.alone[w.first] = true
	return false
}

func identifier(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

func digits(s string) bool { return s != "" && len(s) < 19 && strings.Trim(s, "0123456789") == "" }

// number reports whether a word is always an integer, whatever the variables hold.
func number(w *syntax.Word) bool {
	if w == nil {
		return true
	}
	r := read(w)
	if r.known {
		return r.text == "" || digits(strings.TrimPrefix(r.text, "-"))
	}
	if lit := w.Lit(); strings.HasPrefix(lit, "{") && strings.HasSuffix(lit, "}") { // {1..9}
		return strings.Trim(lit[1:len(lit)-1], "0123456789.") == ""
	}
	for _, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.DblQuoted:
			if len(p.Parts) != 1 || !integer(p.Parts[0]) {
				return false
			}
		default:
			if !integer(p) {
				return false
			}
		}
	}
	return len(w.Parts) == 1
}

// assigns handles an assignment in a command line, a declaration, or an array.
func (s *starter) assigns(n *syntax.Assign) {
	if n.Name == nil {
		return
	}
	s.sum(n.Index)
	v := content(n.Value)
	if n.Array != nil || n.Index != nil {
		s.arrays[n.Name.Value] = true
	}
	if n.Array != nil {
		for _, e := range n.Array.Elems {
			v = min(v, content(e.Value))
		}
	}
	if n.Append {
		v = min(v, content(n.Value))
	}
	s.sets(n.Name.Value, v, !n.Append)
}

// launchers are parts of the names of variables that tell programs which program to start.
var launchers = regexp.MustCompile("PAGER|EDITOR|VISUAL|BROWSER|OPEN|CLOSE|DIFF|MERGE|SSH|SHELL|COMMAND|CMD|PROG|EXEC|RUNNER|WRAPPER|ASKPASS|HOOK|FILTER|COMPRESS|GREP|MAKEFLAGS|_OPTIONS|PERL5OPT|^GIT_CONFIG|^GIT_EXEC|^COMPILER_|^LD_")

// launches reports whether a program may start what a variable holds.
func launches(name string) bool { return launchers.MatchString(strings.ToUpper(name)) }

// passes records a variable that an assignment passes to a program.
func (s *starter) passes(a *syntax.Assign) {
	text, known := value(a.Value)
	switch {
	case known:
		s.environment(text)
	case a.Name != nil && launches(a.Name.Value):
		s.unknown()
	}
}

// environment adds the commands that could begin at any word of a variable's value. A program may
// run it, for example as a pager or an editor.
func (s *starter) environment(value string) {
	if value == Dynamic {
		s.unknown()
		return
	}
	parts := strings.FieldsFunc(strings.NewReplacer("'", "", `"`, "", `\`, "").Replace(value), func(r rune) bool { return strings.ContainsRune(" \t\n=,:;&|<>(){}$`", r) })
	words := plain(parts)
	for i := range words {
		if !s.spends(words[i:]) {
			return
		}
		s.starts(parts[i:])
	}
}

// declares handles declare, export, local, readonly, and typeset.
func (s *starter) declares(n *syntax.DeclClause) {
	s.starts([]string{n.Variant.Value, Dynamic})
	array := flagged(n, "aA")
	s.exports = s.exports || n.Variant.Value == "export" || flagged(n, "x")
	for _, a := range n.Args {
		if a.Name != nil && a.Name.Value != "" {
			s.compound(a.Name.Value, a.Value, array)
			if a.Value != nil {
				s.passes(a)
			}
			continue
		}
		w := word{}
		if a.Value != nil {
			w = read(a.Value)
		}
		switch {
		case !w.known, strings.HasPrefix(w.text, "+"):
			s.unknown()
		case strings.HasPrefix(w.text, "-"):
			if strings.Trim(w.text, "-xragApfFlut") != "" { // not -i or -n: integers, references to names
				s.unknown()
			}
		default:
			name, text, _ := strings.Cut(w.text, "=")
			s.sets(name, textual(text), false)
			if strings.HasPrefix(text, "(") {
				s.compounds[name] = true
			}
			s.arrays[name] = s.arrays[name] || array
		}
	}
}

// flagged reports whether a declaration has any of the given options.
func flagged(n *syntax.DeclClause, letters string) bool {
	return slices.ContainsFunc(n.Args, func(a *syntax.Assign) bool {
		if a.Name != nil || a.Value == nil {
			return false
		}
		w := read(a.Value)
		return strings.HasPrefix(w.text, "-") && strings.ContainsAny(w.text, letters)
	})
}

// compound records what declare assigns to a variable. For an array, declare reads a text in
// parentheses as a list and runs the substitutions in it, quoted or not.
func (s *starter) compound(name string, w *syntax.Word, array bool) {
	s.arrays[name] = s.arrays[name] || array
	if w == nil {
		return
	}
	if r := read(w); strings.HasPrefix(r.text, "(") || r.text == "" && !r.known {
		s.compounds[name] = true
	}
}

// expands handles a parameter expansion.
func (s *starter) expands(n *syntax.ParamExp) {
	if n.Param == nil || n.Flags != nil || n.NestedParam != nil || len(n.Modifiers) > 0 || n.Width || n.IsSet {
		s.unknown()
		return
	}
	if index, ok := n.Index.(*syntax.Word); !ok || index.Lit() != "@" && index.Lit() != "*" {
		s.sum(n.Index)
		if n.Excl {
			s.unknown()
		}
	}
	if n.Excl && n.Names == 0 && n.Index == nil { // a variable's text used as a name
		s.unknown()
	}
	if n.Slice != nil {
		s.sum(n.Slice.Offset)
		s.sum(n.Slice.Length)
	}
	if n.Exp == nil {
		return
	}
	switch n.Exp.Op {
	case syntax.AssignUnset, syntax.AssignUnsetOrNull:
		s.sets(n.Param.Value, content(n.Exp.Word), false)
		s.arrays[n.Param.Value] = s.arrays[n.Param.Value] || n.Index != nil
	case syntax.OtherParamOps:
		if op := n.Exp.Word.Lit(); op == "" || strings.Trim(op, "QEAaKkuUL") != "" { // not P: the text as a prompt
			s.unknown()
		}
	}
}

// sum handles an arithmetic expression. It evaluates the text in the variables it names, including
// substitutions.
func (s *starter) sum(x syntax.ArithmExpr) {
	switch x := x.(type) {
	case nil:
	case *syntax.Word:
		s.sumWord(x)
	case *syntax.BinaryArithm:
		s.sum(x.X)
		s.sum(x.Y)
	case *syntax.UnaryArithm:
		s.sum(x.X)
	case *syntax.ParenArithm:
		s.sum(x.X)
	default:
		s.unknown()
	}
}

// cutsLet reports whether an argument of let contains an operator that ends or redirects the command in
// bash, such as let 1|rm x.
func cutsLet(x syntax.ArithmExpr) bool {
	switch x := x.(type) {
	case *syntax.BinaryArithm:
		switch x.Op {
		case syntax.Or, syntax.And, syntax.AndArit, syntax.OrArit, syntax.Lss, syntax.Gtr, syntax.Leq, syntax.Geq, syntax.Shl, syntax.Shr, syntax.OrAssgn, syntax.AndAssgn, syntax.ShlAssgn, syntax.ShrAssgn:
			return true
		}
		return cutsLet(x.X) || cutsLet(x.Y)
	case *syntax.UnaryArithm:
		return cutsLet(x.X)
	case *syntax.ParenArithm:
		return cutsLet(x.X)
	}
	return false
}

func (s *starter) sumWord(w *syntax.Word) {
	if w == nil {
		return
	}
	parts := w.Parts
	if len(parts) == 1 {
		if q, ok := parts[0].(*syntax.DblQuoted); ok {
			parts = q.Parts
		}
	}
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			switch {
			case identifier(p.Value):
				s.uses(p.Value)
			case strings.Trim(p.Value, "0123456789abcdefABCDEFx#") != "":
				s.unknown()
			}
		case *syntax.ParamExp:
			if !integer(p) {
				s.sumParam(p)
			}
		default:
			if !integer(p) {
				s.unknown()
			}
		}
	}
	if len(parts) > 1 { // 1$x is combined text
		s.unknown()
	}
}

func (s *starter) sumParam(p *syntax.ParamExp) {
	plain := p.Param != nil && !p.Excl && p.Names == 0 && p.Slice == nil && p.Repl == nil
	if plain && p.Exp != nil {
		plain = (p.Exp.Op == syntax.DefaultUnset || p.Exp.Op == syntax.DefaultUnsetOrNull) && number(p.Exp.Word)
	}
	if !plain {
		s.unknown()
		return
	}
	s.uses(p.Param.Value)
}

func (s *starter) uses(name string) {
	if volatile(name) {
		s.unknown()
		return
	}
	s.used[name] = true
}
