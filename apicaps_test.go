package metier_test

import (
	"go/ast"
	"os"
	"slices"
	"strings"
	"testing"

	"metier/internal/repocheck"
	"metier/internal/testenv"
)

// The root package is what a reader needs to understand metier. These limits
// keep it readable in an afternoon. What does not fit goes to an adapter or to
// its own package.
const (
	maxRootFiles = 24
	maxRootNames = 80 // exported constants, variables, types and functions; without methods and fields
	maxSession   = 16 // methods of Session
	maxMethods   = 5  // of an interface
)

func TestRootStaysSmall(t *testing.T) {
	t.Parallel()
	files, lines := 0, 0
	var names, methods []string
	for _, f := range root(t) {
		files++
		lines += f.Lines()
		for _, id := range repocheck.Exported(f.File) {
			names = append(names, id.Name)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.IsExported() && receiver(fn) == "Session" {
				methods = append(methods, fn.Name.Name)
			}
		}
	}
	slices.Sort(names)
	slices.Sort(methods)
	t.Logf("the root package: %d files, %d lines, %d exported names; Session has %d methods", files, lines, len(names), len(methods))
	if files > maxRootFiles {
		t.Errorf("%d files, at most %d", files, maxRootFiles)
	}
	if len(names) > maxRootNames {
		t.Errorf("%d exported names, at most %d: %v", len(names), maxRootNames, names)
	}
	if n := len(methods); n == 0 || n > maxSession {
		t.Errorf("Session has %d methods, at most %d: %v", n, maxSession, methods)
	}
}

func TestInterfacesAreSmall(t *testing.T) {
	t.Parallel()
	for _, f := range load(t).Go(func(p string) bool { return repocheck.IsGo(p) && !repocheck.IsTest(p) }) {
		ast.Inspect(f.File, func(n ast.Node) bool {
			if y, ok := n.(*ast.TypeSpec); ok {
				if i, ok := y.Type.(*ast.InterfaceType); ok && len(i.Methods.List) > maxMethods {
					t.Errorf("%s:%d: %s has %d methods, at most %d: ask for less, or make what is optional an interface of its own",
						f.Path, f.Line(y.Pos()), y.Name.Name, len(i.Methods.List), maxMethods)
				}
			}
			return true
		})
	}
}

// Only Session queries policy, at one place per question. A second place would be a second set of
// rules.
func TestOnlySessionAsksPolicy(t *testing.T) {
	t.Parallel()
	tree := load(t)
	for _, name := range []string{"Decide", "DecideStart", "Release"} {
		calls := 0
		for _, f := range tree.Go(func(p string) bool { return repocheck.IsGo(p) && !repocheck.IsTest(p) }) {
			all := f.Uses(testenv.ModulePath+"/policy", name)
			if len(all) == 0 {
				continue
			}
			inSession := 0
			for _, d := range f.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok || f.Dir != "." || receiver(fn) != "Session" {
					continue
				}
				for _, at := range all {
					if fn.Pos() <= at.Pos() && at.End() <= fn.End() {
						inSession++
					}
				}
			}
			calls += inSession
			if inSession != len(all) {
				t.Errorf("%s uses policy.%s outside a method of Session: call Session.Call", f.Path, name)
			}
		}
		if calls != 1 {
			t.Errorf("Session uses policy.%s in %d places, want one", name, calls)
		}
	}
}

// A Tool acts only after Session.Call has claimed the action in the log. A tool that wraps another
// forwards its own Invoke.
func TestOnlySessionInvokesTools(t *testing.T) {
	t.Parallel()
	for _, f := range load(t).Go(func(p string) bool { return repocheck.IsGo(p) && !repocheck.IsTest(p) }) {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || f.Path == "gate.go" || fn.Recv != nil && fn.Name.Name == "Invoke" {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Invoke" {
					t.Errorf("%s:%d: Invoke is called by the gate alone", f.Path, f.Line(s.Pos()))
				}
				return true
			})
		}
	}
}

func load(t *testing.T) *repocheck.Tree {
	t.Helper()
	tree, err := repocheck.Load(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func root(t *testing.T) []repocheck.GoFile {
	t.Helper()
	return load(t).Go(func(p string) bool { return !strings.Contains(p, "/") && !strings.HasSuffix(p, "_test.go") })
}

// receiver returns the name of a method's type, "" for a function.
func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return ""
	}
	y := fn.Recv.List[0].Type
	if p, ok := y.(*ast.StarExpr); ok {
		y = p.X
	}
	if id, ok := y.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}
