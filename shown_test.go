package metier_test

import (
	"go/ast"
	"go/token"
)

// shown lists the nodes of a declaration that users of its package see:
// signatures of exported functions and methods of exported types, exported
// types with their exported fields and methods, the types of exported variables
// and constants. Bodies and values are left out.
func shown(d ast.Decl) []ast.Node {
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

// seeType shows a type; of a struct or interface only the exported part.
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
