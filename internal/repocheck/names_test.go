package repocheck

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// emptyNames do not describe the content of a package.
var emptyNames = []string{"util", "utils", "helper", "helpers", "manager", "managers", "common", "misc", "types", "shared", "base", "impl"}

// Names finds packages whose name has no meaning, exported names that repeat
// their package's name, and getters named Get.
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

// begins reports whether a name starts with pkg as a separate word. The name
// alone (step.Step, as context.Context) is how Go names a package's one type.
func begins(name, pkg string) bool {
	if len(name) <= len(pkg) || !strings.EqualFold(name[:len(pkg)], pkg) {
		return false
	}
	next, _ := utf8.DecodeRuneInString(name[len(pkg):])
	return unicode.IsUpper(next) || unicode.IsLower(rune(name[0])) // a package's name has no capitals that separate words
}

// ends reports whether a name ends with pkg as a separate word.
func ends(name, pkg string) bool {
	if len(name) <= len(pkg) {
		return false
	}
	tail := name[len(name)-len(pkg):]
	return strings.EqualFold(tail, pkg) && unicode.IsUpper(rune(tail[0]))
}
