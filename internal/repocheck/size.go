package repocheck

import (
	"fmt"
	"go/ast"
	"go/format"
	"path"
	"strings"
)

// The sizes past which a file or function is split.
const (
	maxLines     = 600
	maxTestLines = 900
	maxFunc      = 90
)

// Sizes finds files and functions that grew too long to read in one go.
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

// Format finds Go files that gofmt would change.
func (t *Tree) Format() []Finding {
	var out []Finding
	for _, f := range t.Go(anyGo) {
		b, err := format.Source(t.data[f.Path])
		switch {
		case err != nil:
			out = append(out, Finding{f.Path, 0, err.Error()})
		case string(b) != string(t.data[f.Path]):
			out = append(out, Finding{f.Path, 0, "gofmt would change it: make fmt"})
		}
	}
	return out
}

// PackageDocs finds packages without a package comment, or with two: godoc
// would glue them together.
func (t *Tree) PackageDocs() []Finding {
	docs := map[string][]string{}
	seen := map[string]bool{}
	for _, f := range t.Go(func(p string) bool { return !strings.HasSuffix(p, "_test.go") }) {
		seen[f.Dir] = true
		if f.Doc != nil && strings.TrimSpace(f.Doc.Text()) != "" {
			docs[f.Dir] = append(docs[f.Dir], path.Base(f.Path))
		}
	}
	var out []Finding
	for dir := range seen {
		if n := len(docs[dir]); n != 1 {
			out = append(out, Finding{dir, 0, fmt.Sprintf("%d package comments %v, want exactly one", n, docs[dir])})
		}
	}
	return byPlace(out)
}

func anyGo(string) bool { return true }
