package repocheck

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// maxFile is the maximum size of a file to read. Larger files count as data.
const maxFile = 2 << 20

// Finding is a violation of a rule.
type Finding struct {
	Path string
	Line int // 1-based; 0: the whole file
	Why  string
}

func (f Finding) String() string {
	if f.Line == 0 {
		return f.Path + ": " + f.Why
	}
	return fmt.Sprintf("%s:%d: %s", f.Path, f.Line, f.Why)
}

// Tree is the repository's text: all files except build output and version control data.
type Tree struct {
	Paths []string // slash-separated, sorted
	data  map[string][]byte
	fset  *token.FileSet
	files map[string]*ast.File // parsed Go files
}

// Load reads a repository. It fails for Go files that do not parse, except in testdata folders,
// where they are data.
func Load(root fs.FS) (*Tree, error) {
	t := &Tree{data: map[string][]byte{}, fset: token.NewFileSet(), files: map[string]*ast.File{}}
	err := fs.WalkDir(root, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if slices.Contains([]string{".git", ".metier", "bin", "dist", "node_modules"}, d.Name()) {
				return fs.SkipDir
			}
			return nil
		case !d.Type().IsRegular():
			return nil
		}
		return t.read(root, p, d)
	})
	if err != nil {
		return nil, fmt.Errorf("read the repository: %w", err)
	}
	slices.Sort(t.Paths)
	return t, nil
}

func (t *Tree) read(root fs.FS, p string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil || info.Size() > maxFile {
		return err
	}
	b, err := fs.ReadFile(root, p)
	if err != nil {
		return err
	}
	if bytes.IndexByte(b, 0) >= 0 {
		return nil // not text
	}
	t.Paths = append(t.Paths, p)
	t.data[p] = b
	if !IsGo(p) {
		return nil
	}
	t.files[p], err = parser.ParseFile(t.fset, p, b, parser.ParseComments|parser.SkipObjectResolution)
	return err
}

// IsGo reports whether a file is compiled, which excludes files in testdata folders.
func IsGo(p string) bool {
	return strings.HasSuffix(p, ".go") && !slices.Contains(strings.Split(path.Dir(p), "/"), "testdata")
}

// IsTest reports whether a Go file is a test, or belongs to a package that only tests import.
func IsTest(p string) bool {
	dir := path.Dir(p)
	return strings.HasSuffix(p, "_test.go") || strings.HasSuffix(dir, "test") ||
		dir == "internal/repocheck" || dir == "internal/testenv"
}

// Go returns the parsed Go files that keep accepts, by path.
func (t *Tree) Go(keep func(path string) bool) []GoFile {
	var out []GoFile
	for _, p := range t.Paths {
		if f := t.files[p]; f != nil && keep(p) {
			out = append(out, GoFile{Path: p, Dir: path.Dir(p), File: f, fset: t.fset})
		}
	}
	return out
}

// GoFile is one parsed Go file.
type GoFile struct {
	Path, Dir string
	*ast.File
	fset *token.FileSet
}

// Line returns the 1-based line of a position.
func (f GoFile) Line(p token.Pos) int { return f.fset.Position(p).Line }

// Lines returns the number of lines in the file.
func (f GoFile) Lines() int { return f.fset.File(f.FileStart).LineCount() }

// Local returns the file's name for the package it imports from path, or "" if it does not import
// it or only for side effects.
func (f GoFile) Local(importPath string) string {
	for _, im := range f.Imports {
		if strings.Trim(im.Path.Value, `"`) != importPath {
			continue
		}
		if im.Name != nil {
			return strings.Trim(im.Name.Name, "_")
		}
		return path.Base(importPath)
	}
	return ""
}

// Uses returns the places where the file refers to pkg.name.
func (f GoFile) Uses(importPath, name string) []ast.Node {
	pkg := f.Local(importPath)
	if pkg == "" {
		return nil
	}
	var at []ast.Node
	ast.Inspect(f.File, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == name {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == pkg {
				at = append(at, s)
			}
		}
		return true
	})
	return at
}

// Exported returns a file's exported package-level identifiers: constants, variables, types, and
// functions. It does not include methods and fields.
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
