package repocheck

import (
	"fmt"
	"go/ast"
	"strings"
)

// The sizes above which a file or function is split.
const (
	maxLines     = 600
	maxTestLines = 900
	maxFunc      = 90
)

// Sizes finds files and functions that are too long to read in one go.
func (t *Tree) Sizes() []Finding {
	var out []Finding
	for _, f := range t.Go(anyGo) {
		limit := maxLines
		if strings.HasSuffix(f.Path, "_test.go") {
			limit = maxTestLines
		}
		if n := f.Lines(); n > limit {
			out = append(out, Finding{f.Path, 0, fmt.Sprintf("%d lines, at most %d: split it by what it is about", n, limit)})
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := f.Line(fn.End()) - f.Line(fn.Pos()) + 1; n > maxFunc {
				out = append(out, Finding{f.Path, f.Line(fn.Pos()), fmt.Sprintf("%s has %d lines, at most %d: name its parts", fn.Name.Name, n, maxFunc)})
			}
		}
	}
	return out
}

func anyGo(string) bool { return true }
