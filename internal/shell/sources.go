package shell

import (
	"cmp"
	"fmt"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// MaxSources is the maximum script size for Sources in bytes. The parser can recurse a level for
// every byte, and a stack overflow crashes the process.
const MaxSources = 128 << 10

// Sources returns the files that a bash script includes by a literal name, with source or a dot, at
// any depth, and Dynamic for each computed name. It returns an error for scripts with invalid syntax.
func Sources(script string) ([]string, error) {
	if len(script) > MaxSources {
		return nil, fmt.Errorf("%d bytes of shell text; at most %d are read", len(script), MaxSources)
	}
	f, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(script), "")
	if err != nil {
		return nil, err
	}
	var out []string
	syntax.Walk(f, func(n syntax.Node) bool {
		if c, ok := n.(*syntax.CallExpr); ok {
			words := c.Args
			for len(words) > 1 && (literal(words[0]) == "command" || literal(words[0]) == "builtin") {
				words = words[1:]
			}
			if len(words) > 1 && (literal(words[0]) == "source" || literal(words[0]) == ".") {
				name := words[1]
				if literal(name) == "--" && len(words) > 2 {
					name = words[2]
				}
				out = append(out, cmp.Or(literal(name), Dynamic))
			}
		}
		return true
	})
	return out, nil
}

// literal returns the value of a literal word without quotes, or "".
func literal(w *syntax.Word) string {
	var b strings.Builder
	for _, part := range w.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			b.WriteString(strings.ReplaceAll(p.Value, "\\", ""))
		case *syntax.SglQuoted:
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			for _, q := range p.Parts {
				l, ok := q.(*syntax.Lit)
				if !ok {
					return ""
				}
				b.WriteString(l.Value)
			}
		default:
			return ""
		}
	}
	return b.String()
}
