package shell

import (
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Limits on what a text may start.
const (
	maxStarts = 4096
	maxWords  = 1 << 18      // of all commands; each wrapper in a chain counts the rest of the chain
	maxLength = 1 << 22      // bytes of the words that are read
	maxTexts  = 64           // nested texts: bash -c, eval, trap
	maxNested = 8 * MaxBytes // bytes of these texts
	maxSearch = 1 << 26      // bytes that are searched for the names of files
)

// starter collects the commands that a text may start. It works by allowlist: an unfamiliar node,
// builtin, or word adds an unknown command.
type starter struct {
	out           [][]string
	steps         int
	words, length int
	texts, nested int
	searches      int  // bytes
	spent         bool // a limit was reached, so the rest of the text is not read
	blind         bool // out contains {Dynamic}
	posix         bool // the text is read by sh

	// Arithmetic evaluates the text in variables. used are the variables it reads, and tainted
	// those that may hold something other than an integer.
	used, tainted map[string]bool

	// A variable's value may become an option. needs are the variables for which that must not
	// happen, and hyphens those for which it may.
	needs, hyphens map[string]bool

	// It may also become several words. alone are the variables for which that must not happen.
	alone, several map[string]bool

	// A text in parentheses that declare assigns to an array may be evaluated.
	arrays, compounds map[string]bool

	// A file that is run must not be one that the text writes.
	run, written map[string]bool

	// The same applies to a file passed to a program that may start it, and to programs in a search
	// path that the text sets.
	passed, found map[string]bool
	searched      bool

	// Programs are also searched where the text runs, so a program may start one
	// that the text writes, by a name that the text does not have.
	here bool

	// The values of variables, which programs have where the text exports some.
	values  []string
	exports bool
}

func newStarter() *starter {
	return &starter{used: map[string]bool{}, tainted: map[string]bool{}, needs: map[string]bool{}, hyphens: map[string]bool{}, alone: map[string]bool{}, several: map[string]bool{}, arrays: map[string]bool{"MAPFILE": true}, compounds: map[string]bool{}, run: map[string]bool{}, passed: map[string]bool{}, found: map[string]bool{}, written: map[string]bool{}}
}

// all returns the commands in the order they were found.
func (s *starter) all() [][]string {
	for name := range s.used {
		if s.tainted[name] || s.tainted[Dynamic] {
			s.unknown()
		}
	}
	for name := range s.needs {
		if s.hyphens[name] || s.hyphens["IFS"] {
			s.unknown()
		}
	}
	for name := range s.alone {
		if s.several[name] || s.several["IFS"] {
			s.unknown()
		}
	}
	for name := range s.compounds {
		if s.arrays[name] {
			s.unknown()
		}
	}
	s.runsWritten()
	return s.out
}

// unknown adds a command that the text does not determine.
func (s *starter) unknown() {
	if !s.blind {
		s.blind = true
		s.out = append(s.out, []string{Dynamic})
	}
}

// starts adds a command.
func (s *starter) starts(c []string) {
	switch {
	case len(c) == 0:
	case len(s.out) >= maxStarts:
		s.unknown()
	default:
		s.out = append(s.out, c)
	}
}

// text analyzes a text that a command runs. A POSIX shell reads some texts differently than bash,
// so for sh both readings count.
func (s *starter) text(src string, posix, fed bool) {
	defer func(p bool) { s.posix = p }(s.posix)
	s.posix = posix
	s.texts++
	s.nested += len(src)
	if s.texts > maxTexts || s.nested > maxNested || unreadable(src) != nil {
		s.unknown()
		return
	}
	variants := []syntax.LangVariant{syntax.LangBash}
	if posix {
		variants = append(variants, syntax.LangPOSIX)
	}
	for _, v := range variants {
		f, err := syntax.NewParser(syntax.Variant(v), syntax.KeepComments(true)).Parse(strings.NewReader(src), "")
		if err != nil {
			s.unknown()
			return
		}
		s.walk(src, f, fed)
	}
}

// place is the context of a node. fed: standard input comes from the text (a pipe, a file, or a
// here-document). quoted: the node is in double quotes, where bash reads a single quote as a
// character and the parser as a quote. operand: it is the operand of an expansion, which is never
// plain text, even in quotes. inner: it is in a substitution. back: it is in one in backquotes.
type place struct{ fed, quoted, operand, inner, back bool }

// walk visits a syntax tree.
func (s *starter) walk(src string, f *syntax.File, fed bool) {
	if continued.MatchString(src) {
		s.unknown()
	}
	s.here = s.here || searchesHere.MatchString(src)
	stack := []place{{fed: fed}}
	piped, documents := map[*syntax.Stmt]bool{}, map[*syntax.Word]bool{}
	syntax.Walk(f, func(n syntax.Node) bool {
		if n == nil {
			stack = stack[:len(stack)-1]
			return true
		}
		at := stack[len(stack)-1]
		switch n := n.(type) {
		case *syntax.SglQuoted:
			if at.quoted && strings.ContainsAny(n.Value, "$`\"\\}'") {
				s.unknown()
			}
		case *syntax.Lit:
			if (!at.quoted || at.operand) && substitutes(n.Value) {
				s.unknown()
			}
		case *syntax.DblQuoted:
			at.quoted, at.operand = true, false
			if n.Dollar { // a translation may contain anything
				s.unknown()
			}
		case *syntax.Redirect:
			if n.Hdoc != nil {
				documents[n.Hdoc] = true
			}
			if (n.Op == syntax.Hdoc || n.Op == syntax.DashHdoc) && !endsClearly(src, n) {
				s.unknown()
			}
		case *syntax.Word:
			at.quoted = at.quoted || documents[n]
		case *syntax.CmdSubst:
			if n.Backquotes && (at.back || !cutsAt(src, n)) {
				s.unknown()
			}
			at.quoted, at.back, at.inner = false, at.back || n.Backquotes, true
		case *syntax.BinaryCmd:
			if n.Op == syntax.Pipe || n.Op == syntax.PipeAll {
				piped[n.Y] = true
			}
		case *syntax.Stmt:
			at.fed = s.redirects(n) || at.fed || piped[n]
		case *syntax.ProcSubst:
			at.quoted, at.inner = false, true
			at.fed = at.fed || n.Op == syntax.CmdOut
		case *syntax.FuncDecl:
			at.fed = true // a call may be in a pipe
			if n.Name == nil || counters[n.Name.Value] {
				s.unknown()
			}
		case *syntax.CallExpr:
			s.call(n, at.fed)
		case *syntax.Comment, *syntax.ExtGlob, *syntax.ArrayExpr:
			if misread(src, n, at.inner) {
				s.unknown()
			}
		default:
			if _, is := n.(*syntax.ParamExp); is {
				at.operand = true
			}
			s.visit(n)
		}
		stack = append(stack, at)
		return true
	})
}

// substitutes reports whether bash would read a substitution in unquoted text that the parser
// considers literal, as in ${x:-<(rm y)}.
func substitutes(text string) bool {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '`':
			return true
		case '(':
			if i > 0 && strings.IndexByte("$<>", text[i-1]) >= 0 {
				return true
			}
		}
	}
	return false
}

// redirects records what a statement writes. It reports whether its input is redirected.
func (s *starter) redirects(n *syntax.Stmt) bool {
	if n.Coprocess || n.Disown {
		s.unknown()
	}
	if len(n.Redirs) > 0 && stored(n.Cmd) {
		s.unknown()
	}
	fed := false
	for _, r := range n.Redirs {
		if r.N != nil && strings.HasPrefix(r.N.Value, "{") {
			if strings.Contains(r.N.Value, "[") { // an element of an array
				s.unknown()
			}
			s.sets(strings.Trim(r.N.Value, "{}"), integral, false)
		}
		switch r.Op {
		case syntax.RdrIn, syntax.RdrInOut, syntax.DplIn, syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
			fed = true
		}
		if first, ok := r.Word.Parts[0].(*syntax.Lit); ok && (r.Op == syntax.DplOut || r.Op == syntax.DplIn) && strings.HasPrefix(first.Value, "-") && r.Word.Lit() != "-" {
			s.unknown() // bash runs b for >&-b
		}
		switch w := read(r.Word); {
		case r.Op == syntax.DplOut && !(w.num && expansion(r.Word)) && (!w.known || strings.ContainsAny(w.text, "$`\\")): // bash expands it twice
			s.unknown()
		case r.Op == syntax.RdrIn, r.Op == syntax.Hdoc, r.Op == syntax.DashHdoc, r.Op == syntax.WordHdoc, r.Op == syntax.DplIn:
		case w.known:
			s.written[path.Base(w.text)] = true
		case !w.num:
			s.written[Dynamic] = true
		}
	}
	if c, ok := n.Cmd.(*syntax.CallExpr); ok && fed {
		for _, a := range c.Args {
			if a.Lit() == "exec" { // redirects all input that follows
				s.unknown()
			}
		}
	}
	return fed
}

// expansion reports whether a word is one expansion and no text.
func expansion(w *syntax.Word) bool {
	parts := w.Parts
	if q, ok := parts[0].(*syntax.DblQuoted); ok && len(parts) == 1 {
		parts = q.Parts
	}
	if len(parts) != 1 {
		return false
	}
	switch parts[0].(type) {
	case *syntax.ArithmExp, *syntax.ParamExp:
		return true
	}
	return false
}

// visit handles the nodes that start nothing themselves.
func (s *starter) visit(n syntax.Node) {
	switch n := n.(type) {
	case *syntax.File, *syntax.Subshell, *syntax.Block, *syntax.IfClause, *syntax.WhileClause, *syntax.CaseClause, *syntax.CaseItem, *syntax.ArrayExpr, *syntax.TimeClause, *syntax.TestClause, *syntax.ParenTest, *syntax.BinaryArithm, *syntax.UnaryArithm, *syntax.ParenArithm, *syntax.ForClause, *syntax.BraceExp:
	case *syntax.DeclClause:
		s.declares(n)
	case *syntax.Assign:
		s.assigns(n)
	case *syntax.WordIter:
		v := anything
		for i, w := range n.Items {
			if w := content(w); i == 0 || w < v {
				v = w
			}
		}
		s.sets(n.Name.Value, v, false)
	case *syntax.ParamExp:
		s.expands(n)
	case *syntax.ArithmExp:
		s.sum(n.X)
	case *syntax.ArithmCmd:
		s.sum(n.X)
	case *syntax.LetClause:
		s.starts([]string{"let", Dynamic})
		for _, x := range n.Exprs {
			if cutsLet(x) {
				s.unknown()
			}
			s.sum(x)
		}
	case *syntax.CStyleLoop:
		for _, x := range []syntax.ArithmExpr{n.Init, n.Cond, n.Post} {
			s.sum(x)
		}
	case *syntax.ArrayElem:
		s.sum(n.Index)
	case *syntax.UnaryTest:
		if x, _ := n.X.(*syntax.Word); (n.Op == syntax.TsVarSet || n.Op == syntax.TsRefVar) && !identifier(x.Lit()) {
			s.unknown()
		}
	case *syntax.BinaryTest:
		switch n.Op {
		case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
			x, _ := n.X.(*syntax.Word)
			y, _ := n.Y.(*syntax.Word)
			s.sumWord(x)
			s.sumWord(y)
		}
	default:
		s.unknown()
	}
}

// call handles a simple command.
func (s *starter) call(n *syntax.CallExpr, fed bool) {
	if len(n.Args) == 0 {
		for _, a := range n.Assigns {
			switch text, known := value(a.Value); {
			case known:
				s.values = append(s.values, text)
			case a.Name != nil && launches(a.Name.Value):
				s.values = append(s.values, Dynamic)
			}
		}
		return
	}
	for _, a := range n.Assigns {
		s.passes(a)
	}
	words := make([]word, len(n.Args))
	for i, a := range n.Args {
		if words[i] = read(a); words[i].bare {
			s.alone["IFS"] = true
		}
	}
	s.command(words, fed)
}

// spends reports whether the limits allow one more command. If not, it adds an unknown command.
func (s *starter) spends(words []word) bool {
	if s.spent {
		return false
	}
	s.steps++
	s.words += len(words)
	if s.spent = s.steps > maxStarts || s.words > maxWords; s.spent {
		s.unknown()
	}
	return !s.spent
}

// reads is like spends for a command whose words are read.
func (s *starter) reads(words []word) bool {
	if !s.spends(words) {
		return false
	}
	for _, w := range words {
		s.length += len(w.text)
	}
	if s.spent = s.length > maxLength; s.spent {
		s.unknown()
	}
	return !s.spent
}

// command adds a command and what it starts in turn.
func (s *starter) command(words []word, fed bool) {
	if !s.reads(words) {
		return
	}
	if len(words) == 0 {
		return
	}
	if !words[0].known {
		s.unknown()
		return
	}
	s.starts(texts(words))
	name := words[0].text
	base := path.Base(name)
	if strings.Contains(name, "/") {
		s.run[name] = true
	} else {
		s.found[name] = true
	}
	s.spreads(base, fed)
	s.subcommands(words, len(words))
	g, wraps := wrappers[base]
	_, decides := own[base]
	_, helps := helped[base]
	switch {
	case name == "--" || name == "-p": // after the word time
		if len(words) > 1 && (!words[1].known || strings.Contains(words[1].text, "=") || set("time !")[words[1].text]) { // an assignment to bash, now or after the next time
			s.unknown()
		}
		s.command(words[1:], fed)
	case strings.HasPrefix(name, "-"):
		s.unknown()
	case wraps:
		s.wrapped(g, words, fed)
	case s.builtin(base, words, fed), data[base]:
	case helps:
		s.withHelp(words)
	case decides:
		s.decides(words, fed)
	case strings.Contains(name, "/") && !path.IsAbs(name) && scripted(base):
	default:
		s.strict(words, fed)
	}
}

// grammar reports whether the grammar of a program that starts others is known.
func (s *starter) grammar(name string) bool {
	_, wraps := wrappers[name]
	return wraps || set("sh bash dash rbash ash ksh mksh eval source . find awk gawk mawk sed trap")[name]
}

// scripted reports whether a file name is that of a script, which decides itself what it starts.
func scripted(base string) bool {
	switch path.Ext(base) {
	case ".sh", ".bash", ".py", ".js", ".mjs", ".ts", ".rb", ".pl":
		return true
	}
	return set("gradlew mvnw configure")[base]
}
