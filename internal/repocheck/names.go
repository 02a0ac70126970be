package repocheck

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// emptyNames say nothing about what is inside.
var emptyNames = []string{"util", "utils", "helper", "helpers", "manager", "managers", "common", "misc", "types", "shared", "base", "impl"}

// Names finds packages whose name says nothing, exported names that repeat
// their package's, and getters that say Get.
func (t *Tree) Names() []Finding {
	var out []Finding
	seen := map[string]bool{}
	for _, f := range t.Go(func(p string) bool { return !strings.HasSuffix(p, "_test.go") }) {
		name := f.File.Name.Name
		if !seen[f.Dir] {
			seen[f.Dir] = true
			if slices.Contains(emptyNames, name) || slices.Contains(emptyNames, path.Base(f.Dir)) {
				out = append(out, Finding{f.Dir, 0, "package " + name + " says nothing: name it after what it holds"})
			}
			parent := path.Base(path.Dir(f.Dir))
			if parent != "." && name != parent+"test" && begins(name, parent) {
				out = append(out, Finding{f.Dir, 0, "package " + name + " repeats the folder above it"})
			}
		}
		for _, id := range Exported(f.File) {
			if begins(id.Name, name) {
				out = append(out, Finding{f.Path, f.Line(id.Pos()), id.Name + " repeats its package's name"})
			}
		}
		out = append(out, functions(f)...)
	}
	return out
}

func functions(f GoFile) []Finding {
	var out []Finding
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		switch {
		case !ok:
		case getter(fn.Name.Name):
			out = append(out, Finding{f.Path, f.Line(fn.Pos()), fn.Name.Name + ": Go getters have no Get prefix"})
		case fn.Recv == nil && fn.Name.IsExported() && ends(fn.Name.Name, f.File.Name.Name):
			out = append(out, Finding{f.Path, f.Line(fn.Pos()), fn.Name.Name + " repeats its package's name"})
		}
	}
	return out
}

func getter(name string) bool {
	rest, ok := strings.CutPrefix(name, "Get")
	r, _ := utf8.DecodeRuneInString(rest)
	return ok && unicode.IsUpper(r)
}

// begins says whether a name starts with pkg as a word of its own. The name
// alone (step.Step, as context.Context) is how Go names a package's one thing.
func begins(name, pkg string) bool {
	if len(name) <= len(pkg) || !strings.EqualFold(name[:len(pkg)], pkg) {
		return false
	}
	next, _ := utf8.DecodeRuneInString(name[len(pkg):])
	return unicode.IsUpper(next) || unicode.IsLower(rune(name[0])) // a package's name has no capitals to tell words by
}

// ends says whether a name ends with pkg as a word of its own.
func ends(name, pkg string) bool {
	if len(name) <= len(pkg) {
		return false
	}
	tail := name[len(name)-len(pkg):]
	return strings.EqualFold(tail, pkg) && unicode.IsUpper(rune(tail[0]))
}

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
