package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// misread reports whether bash may read a comment, an extended pattern, or an array in another way
// than the parser. inner: it is in a substitution.
func misread(src string, n syntax.Node, inner bool) bool {
	switch n := n.(type) {
	case *syntax.Comment: // bash continues a word before it
		i := int(n.Hash.Offset())
		return i > 0 && !strings.ContainsRune(" \t\n;&|()`", rune(src[i-1]))
	case *syntax.ExtGlob: // where bash does not read it, it drops the line and continues with the next
		return strings.ContainsAny(n.Pattern.Value, "$`(<>") || strings.Contains(src, "\n")
	case *syntax.ArrayExpr: // bash continues the word, and reads it twice in a substitution, the second time without backslashes
		end := int(n.End().Offset())
		return inner || end < len(src) && !strings.ContainsRune(" \t\n;&|)<>`", rune(src[end]))
	}
	return false
}

// cutsAt reports whether bash ends a substitution in backquotes where the parser does: at the next
// backquote without a backslash, even in quotes, a comment, or a here-document.
func cutsAt(src string, n *syntax.CmdSubst) bool {
	i := int(n.Left.Offset()) + 1
	for i < len(src) && src[i] != '`' {
		if src[i] == '\\' {
			i++
		}
		i++
	}
	return i == int(n.Right.Offset())
}

// stored reports whether a command has a word that bash can take for the array element in which a
// redirect stores its descriptor: {a['$(b)']}>c runs b.
func stored(cmd syntax.Command) (found bool) {
	switch cmd.(type) {
	case *syntax.CallExpr, *syntax.DeclClause, *syntax.LetClause:
		syntax.Walk(cmd, func(n syntax.Node) bool {
			if w, ok := n.(*syntax.Word); ok && len(w.Parts) > 0 {
				first, ok := w.Parts[0].(*syntax.Lit)
				found = found || ok && strings.HasPrefix(first.Value, "{") && strings.Contains(first.Value, "[")
			}
			return true
		})
	}
	return found
}
