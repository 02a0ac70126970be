package repocheck

import (
	"go/ast"
	"go/token"
	"slices"
)

// Exported lists a file's exported package-level identifiers: constants,
// variables, types and functions. Methods and fields are not counted.
func Exported(f *ast.File) []*ast.Ident {
	var out []*ast.Ident
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				out = append(out, d.Name)
			}
		case *ast.GenDecl:
			if d.Tok != token.IMPORT {
				out = append(out, specNames(d)...)
			}
		}
	}
	return slices.DeleteFunc(out, func(id *ast.Ident) bool { return !id.IsExported() })
}

func specNames(d *ast.GenDecl) []*ast.Ident {
	var out []*ast.Ident
	for _, s := range d.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			out = append(out, s.Name)
		case *ast.ValueSpec:
			out = append(out, s.Names...)
		}
	}
	return out
}

// Shown lists the nodes of a declaration that users of its package see:
// signatures of exported functions and methods of exported types, exported
// types with their exported fields and methods, the types of exported
// variables and constants. Bodies and values are not shown.
func Shown(d ast.Decl) []ast.Node {
	var out []ast.Node
	see := func(n ast.Node) {
		ast.Inspect(n, func(n ast.Node) bool {
			if n != nil {
				out = append(out, n)
			}
			return true
		})
	}
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && (d.Recv == nil || receiverShown(d)) {
			see(d.Type)
		}
	case *ast.GenDecl:
		if d.Tok == token.IMPORT {
			return nil
		}
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() {
					seeType(s.Type, see)
				}
			case *ast.ValueSpec:
				if s.Type != nil && s.Names[0].IsExported() {
					see(s.Type)
				}
			}
		}
	}
	return out
}

func receiverShown(d *ast.FuncDecl) bool {
	y := d.Recv.List[0].Type
	if p, ok := y.(*ast.StarExpr); ok {
		y = p.X
	}
	if g, ok := y.(*ast.IndexExpr); ok {
		y = g.X
	}
	id, ok := y.(*ast.Ident)
	return !ok || id.IsExported()
}

// seeType shows a type; of a struct or interface only what is exported.
func seeType(y ast.Expr, see func(ast.Node)) {
	var fields *ast.FieldList
	switch y := y.(type) {
	case *ast.StructType:
		fields = y.Fields
	case *ast.InterfaceType:
		fields = y.Methods
	default:
		see(y)
		return
	}
	for _, f := range fields.List {
		shown := len(f.Names) == 0
		for _, n := range f.Names {
			shown = shown || n.IsExported()
		}
		if shown {
			seeType(f.Type, see)
		}
	}
}
