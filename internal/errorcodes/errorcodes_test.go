package errorcodes_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/internal/diagcodes"
	"metier/internal/errorcodes"
)

// use is one place in the source that names a code.
type use struct {
	code, at string
	kind     string // name of a metier.Kind next to it; empty: none
	snake    bool   // it is the code of an error or of a notice
}

// source is the parsed code of the module without tests.
type source struct {
	fset   *token.FileSet
	files  map[string][]*ast.File // by folder
	params map[string]int         // folder and function: the index of its parameter "code"
	kinds  map[string]int         // the same for "kind"
	consts map[string]string      // folder and name: the value of a constant string
	words  map[string]bool        // every string literal
}

func parseModule(t *testing.T) *source {
	t.Helper()
	s := &source{token.NewFileSet(), map[string][]*ast.File{}, map[string]int{}, map[string]int{}, map[string]string{}, map[string]bool{}}
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, p)
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			top := strings.Split(rel, "/")[0]
			if d.Name() == "testdata" || strings.HasSuffix(d.Name(), "test") || rel != "." && strings.HasPrefix(d.Name(), ".") ||
				slices.Contains([]string{"bench", "conformance", "bin", "skillmd"}, top) ||
				slices.Contains([]string{"internal/errorcodes", "internal/repocheck", "internal/confine", "internal/yaml"}, rel) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") || strings.HasSuffix(rel, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(s.fset, p, nil, parser.SkipObjectResolution)
		if err == nil {
			s.add(filepath.ToSlash(filepath.Dir(rel)), f)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *source) add(dir string, f *ast.File) {
	s.files[dir] = append(s.files[dir], f)
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			s.declare(dir, n.Name.Name, n.Type)
		case *ast.AssignStmt: // fail := func(code string) …
			if fn, ok := n.Rhs[0].(*ast.FuncLit); ok && len(n.Lhs) == 1 {
				if id, ok := n.Lhs[0].(*ast.Ident); ok {
					s.declare(dir, id.Name, fn.Type)
				}
			}
		case *ast.ValueSpec:
			for i, name := range n.Names {
				if i < len(n.Values) {
					if v, ok := literal(n.Values[i]); ok {
						s.consts[dir+"."+name.Name] = v
					}
				}
			}
		case *ast.BasicLit:
			if v, ok := literal(n); ok {
				s.words[v] = true
			}
		}
		return true
	})
}

func (s *source) declare(dir, name string, fn *ast.FuncType) {
	i := 0
	for _, field := range fn.Params.List {
		for _, p := range field.Names {
			switch p.Name {
			case "code":
				s.params[dir+"."+name] = i
			case "kind":
				s.kinds[dir+"."+name] = i
			}
			i++
		}
		if len(field.Names) == 0 {
			i++
		}
	}
}

func literal(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	v, err := strconv.Unquote(lit.Value)
	return v, err == nil
}

// value returns a code known at compile time, or "".
func (s *source) value(dir string, imports map[string]string, e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		v, _ := literal(e)
		return v
	case *ast.Ident:
		return s.consts[dir+"."+e.Name]
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok {
			return s.consts[imports[x.Name]+"."+e.Sel.Name]
		}
	case *ast.CallExpr: // string(x)
		if len(e.Args) == 1 {
			return s.value(dir, imports, e.Args[0])
		}
	}
	return ""
}

// uses lists every code passed to an error, a notice, or a parameter named
// code, and every exported constant of a code.
func (s *source) uses() (out []use) {
	for dir, files := range s.files {
		for _, f := range files {
			imports := importsOf(f)
			ast.Inspect(f, func(n ast.Node) bool {
				var code, kind ast.Expr
				snake := false
				switch n := n.(type) {
				case *ast.CompositeLit:
					code, kind = fieldOf(n, "Code", "code"), fieldOf(n, "Kind")
					name := typeName(n.Type)
					if foreign(n.Type) {
						return true
					}
					snake = name == "Error" || name == "problem" || name == "Notice"
					if name == "Notice" && code == nil && len(n.Elts) > 0 {
						if _, keyed := n.Elts[0].(*ast.KeyValueExpr); !keyed {
							code = n.Elts[0]
						}
					}
				case *ast.CallExpr:
					code, kind, snake = s.argument(dir, imports, n)
				}
				if code == nil {
					return true
				}
				if v := s.value(dir, imports, code); codeLike.MatchString(v) {
					u := use{code: v, at: s.fset.Position(n.Pos()).String(), snake: snake}
					if sel, ok := kind.(*ast.SelectorExpr); ok {
						u.kind = sel.Sel.Name
					} else if id, ok := kind.(*ast.Ident); ok {
						u.kind = id.Name
					}
					out = append(out, u)
				}
				return true
			})
		}
	}
	return out
}

func (s *source) argument(dir string, imports map[string]string, call *ast.CallExpr) (code, kind ast.Expr, snake bool) {
	name := ""
	switch fn := call.Fun.(type) {
	case *ast.Ident:
		name = dir + "." + fn.Name
	case *ast.SelectorExpr:
		name = dir + "." + fn.Sel.Name
		if x, ok := fn.X.(*ast.Ident); ok && imports[x.Name] != "" {
			name = imports[x.Name] + "." + fn.Sel.Name
		}
	}
	i, ok := s.params[name]
	if !ok || i >= len(call.Args) {
		return nil, nil, false
	}
	if k, ok := s.kinds[name]; ok && k < len(call.Args) {
		kind = call.Args[k]
	}
	return call.Args[i], kind, name == "..Errorf" || name == "cli.wrong" || name == "run.wrong"
}

// mentions reports whether a string literal is the code, or begins with it.
func (s *source) mentions(code string) bool {
	for w := range s.words {
		if w == code || strings.HasPrefix(w, code+":") {
			return true
		}
	}
	return false
}

func importsOf(f *ast.File) map[string]string {
	m := map[string]string{}
	for _, im := range f.Imports {
		p, _ := strconv.Unquote(im.Path.Value)
		if rel, ours := strings.CutPrefix(p, "metier"); ours {
			dir := strings.TrimPrefix(rel, "/")
			name := p[strings.LastIndex(p, "/")+1:]
			if im.Name != nil {
				name = im.Name.Name
			}
			if dir == "" {
				dir = "."
			}
			m[name] = dir
		}
	}
	return m
}

func fieldOf(lit *ast.CompositeLit, names ...string) ast.Expr {
	for _, e := range lit.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			if id, ok := kv.Key.(*ast.Ident); ok && slices.Contains(names, id.Name) {
				return kv.Value
			}
		}
	}
	return nil
}

func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

var codeLike = regexp.MustCompile(`^[a-z0-9]+([_-][a-z0-9]+)*$`)

var snakeCase = regexp.MustCompile(`^[a-z]+(_[a-z0-9]+)*$`)

func TestCodes_AreRegistered(t *testing.T) {
	for _, u := range parseModule(t).uses() {
		if _, ok := errorcodes.Of(u.code); ok {
			continue
		}
		if _, ok := diagcodes.Of(u.code); ok && !u.snake {
			continue
		}
		t.Errorf("%s: the code %q is not registered in internal/errorcodes", u.at, u.code)
	}
}

func TestCodes_OfErrorsAreSnakeCase(t *testing.T) {
	for _, u := range parseModule(t).uses() {
		if u.snake && !snakeCase.MatchString(u.code) {
			t.Errorf("%s: the code %q is not in snake_case", u.at, u.code)
		}
	}
	for _, g := range errorcodes.Groups() {
		for _, c := range g.Codes {
			if !snakeCase.MatchString(c.Code) {
				t.Errorf("the registered code %q is not in snake_case", c.Code)
			}
		}
	}
}

func TestCodes_HaveTheirKinds(t *testing.T) {
	kinds := map[string]string{"Invalid": "invalid", "NotFound": "not_found", "Denied": "denied", "Approval": "approval", "Drift": "drift", "Conflict": "conflict",
		"Unsupported": "unsupported", "LimitReached": "limit", "Unavailable": "unavailable", "Internal": "internal"}
	for _, u := range parseModule(t).uses() {
		k := kinds[u.kind]
		c, ok := errorcodes.Of(u.code)
		if k == "" || !ok || !u.snake {
			continue
		}
		if !slices.Contains(strings.Split(c.Kinds, ","), k) {
			t.Errorf("%s: the code %q has the kind %s here, and %q in internal/errorcodes", u.at, u.code, k, c.Kinds)
		}
	}
}

func TestCodes_AreUsed(t *testing.T) {
	s := parseModule(t)
	var dead []string
	for _, g := range errorcodes.Groups() {
		for _, c := range g.Codes {
			prefixed := strings.HasPrefix(c.Code, "run_") // "run_" and the status of a run
			if !s.mentions(c.Code) && !(prefixed && s.words[strings.TrimPrefix(c.Code, "run_")]) {
				dead = append(dead, c.Code)
			}
		}
	}
	if diff := cmp.Diff([]string(nil), dead); diff != "" {
		t.Errorf("registered codes that nothing uses (-want +got):\n%s", diff)
	}
}

func TestCodes_AreRegisteredOnce(t *testing.T) {
	seen := map[string]int{}
	for _, g := range errorcodes.Groups() {
		for _, c := range g.Codes {
			seen[c.Code]++
		}
	}
	maps.DeleteFunc(seen, func(_ string, n int) bool { return n == 1 })
	if len(seen) > 0 {
		t.Errorf("registered more than once: %v", slices.Sorted(maps.Keys(seen)))
	}
}

// foreign reports whether a type belongs to an internal package with its own
// vocabulary, which the layers above translate.
func foreign(e ast.Expr) bool {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	return ok && (x.Name == "confine" || x.Name == "yaml")
}
