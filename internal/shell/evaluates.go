package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// evaluates reports whether a bash builtin evaluates an argument. A name with a subscript is
// arithmetic, and arithmetic runs substitutions, quoted or not: printf -v 'a[$(rm x)]' y runs rm.
func evaluates(words []string) bool {
	for len(words) > 1 && (words[0] == "command" || words[0] == "builtin" || strings.HasPrefix(words[0], "-")) {
		words = words[1:]
	}
	rest := words[1:]
	option := func(o string) bool {
		return slices.ContainsFunc(rest, func(w string) bool { return strings.HasPrefix(w, o) })
	}
	switch words[0] {
	case "compgen", "complete": // words and commands that are expanded later
		return option("-")
	case "printf", "test", "[":
		if !option("-v") {
			return false
		}
	case "read", "unset", "getopts", "wait", "mapfile", "readarray":
	default:
		return false
	}
	return slices.ContainsFunc(rest, func(w string) bool { return strings.Contains(w, "[") || w == Dynamic })
}

// arithmetic reports whether a node may evaluate text as arithmetic.
func arithmetic(n syntax.Node) bool {
	switch n.(type) {
	case *syntax.LetClause, *syntax.ArithmCmd, *syntax.ArithmExp, *syntax.TestClause, *syntax.DeclClause:
		return true
	}
	return false
}

// holds reports whether quoted text contains a substitution that arithmetic would run.
func holds(n *syntax.SglQuoted) bool {
	return strings.Contains(n.Value, "$(") || strings.Contains(n.Value, "`") || n.Dollar && strings.Contains(n.Value, `\`)
}
