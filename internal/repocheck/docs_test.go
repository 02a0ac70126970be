package repocheck

import (
	"go/ast"
	"regexp"
	"slices"
	"strconv"
)

// row is the number of a requirement or of a decision about requirements. Such
// numbers belong above tests: readers of a package's documentation do not have
// the list.
var row = regexp.MustCompile(`\b[A-E]-[0-9]{3}\b|\brulings? [0-9]|\bconflicts row\b|\b(contracts|design) §|\(D[0-9]{1,2}\)`)

// Docs finds the numbers of requirements in the documentation of packages.
func (t *Tree) Docs() []Finding {
	var out []Finding
	for _, f := range t.Go(func(p string) bool { return !IsTest(p) }) {
		groups := []*ast.CommentGroup{f.File.Doc}
		for _, d := range f.Decls {
			groups = append(groups, documentation(d)...)
		}
		for _, g := range groups {
			if g == nil {
				continue
			}
			for _, c := range g.List {
				if m := row.FindString(c.Text); m != "" {
					out = append(out, Finding{f.Path, f.Line(c.Pos()), strconv.Quote(m) + " says nothing to who reads the documentation"})
				}
			}
		}
	}
	return out
}

// Comments finds comments above a function or a type that begin with the name of another one. A
// comment may begin with a sentence instead.
func (t *Tree) Comments() []Finding {
	var out []Finding
	for _, f := range t.Go(IsGo) {
		for _, d := range f.Decls {
			name, doc := "", (*ast.CommentGroup)(nil)
			switch d := d.(type) {
			case *ast.FuncDecl:
				name, doc = d.Name.Name, d.Doc
			case *ast.GenDecl:
				if len(d.Specs) != 1 {
					continue
				}
				if s, ok := d.Specs[0].(*ast.TypeSpec); ok {
					name, doc = s.Name.Name, d.Doc
				}
			}
			if first := leading.FindStringSubmatch(doc.Text()); first != nil && first[1] != name && first[1] != "req" {
				out = append(out, Finding{f.Path, f.Line(doc.Pos()), "the comment of " + name + " begins with " + first[1]})
			}
		}
	}
	return out
}

// leading matches the word in lower case that begins a comment.
var leading = regexp.MustCompile(`\A(\p{Ll}[\pL\pN_]*)(?:[\s:,]|\z)`)

// documentation returns the comments that go doc shows of a declaration.
func documentation(d ast.Decl) (out []*ast.CommentGroup) {
	if fn, ok := d.(*ast.FuncDecl); ok {
		if fn.Name.IsExported() {
			out = append(out, fn.Doc)
		}
		return out
	}
	decl, ok := d.(*ast.GenDecl)
	if !ok {
		return nil
	}
	for _, s := range decl.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() {
				out = append(append(out, decl.Doc, s.Doc, s.Comment), fields(s.Type)...)
			}
		case *ast.ValueSpec:
			if slices.ContainsFunc(s.Names, (*ast.Ident).IsExported) {
				out = append(out, decl.Doc, s.Doc, s.Comment)
			}
		}
	}
	return out
}

// fields returns the comments of exported fields and methods.
func fields(e ast.Expr) (out []*ast.CommentGroup) {
	ast.Inspect(e, func(n ast.Node) bool {
		if f, ok := n.(*ast.Field); ok && (len(f.Names) == 0 || slices.ContainsFunc(f.Names, (*ast.Ident).IsExported)) {
			out = append(out, f.Doc, f.Comment)
		}
		return true
	})
	return out
}
