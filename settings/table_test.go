package settings_test

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/internal/testenv"
	"metier/settings"
)

var update = flag.Bool("update", false, "write docs/SETTINGS.md")

func TestEveryRowRoundTrips(t *testing.T) {
	t.Parallel()
	for _, r := range settings.Table() {
		values := r.Values
		switch r.Shape {
		case settings.ShapeNumber:
			low, high, _ := strings.Cut(r.Values[0], " to ")
			values = []string{low, high}
		case settings.ShapeName:
			values = []string{"none", "a_tool", "a.tool-2"}
		case settings.ShapeSet:
			values = append(slices.Clone(values), r.Empty, strings.Join(r.Values, ", "))
		}
		for _, v := range values {
			var s settings.Settings
			if err := r.Set(&s, v); err != nil {
				t.Errorf("%s: %v", r.Name, err)
			}
			if got := r.Get(&s); got != v {
				t.Errorf("%s: set %q, got %q", r.Name, v, got)
			}
		}
		var s settings.Settings
		before := s
		if err := r.Set(&s, "no such value!"); err == nil || cmp.Diff(before, s) != "" {
			t.Errorf("%s took a bad value: %v", r.Name, err)
		}
		if r.Doc == "" || r.Stage == "" || len(r.Values) == 0 || r.Default == "" || !strings.HasSuffix(r.Doc, ".") {
			t.Errorf("%s: row is not complete: %+v", r.Name, r)
		}
		if r.Shape == settings.ShapeChoice && len(r.Values) < 2 {
			t.Errorf("%s leaves no choice", r.Name)
		}
	}
}

// Every field of every stage has exactly one row.
func TestRowsAndFieldsMatch(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	moved := map[string]string{}
	for _, r := range settings.Table() {
		if names[r.Name] {
			t.Errorf("%s is there twice", r.Name)
		}
		names[r.Name] = true
		var s settings.Settings
		value := r.Values[len(r.Values)-1]
		switch r.Shape {
		case settings.ShapeNumber:
			_, value, _ = strings.Cut(r.Values[0], " to ")
		case settings.ShapeName:
			value = "a_tool"
		}
		if err := r.Set(&s, value); err != nil {
			t.Fatal(err)
		}
		all := reflect.ValueOf(s)
		for i := range all.NumField() {
			stage := all.Field(i)
			if all.Type().Field(i).Name == "Operator" { // copies of two stages
				continue
			}
			for j := range stage.NumField() {
				if stage.Field(j).IsZero() {
					continue
				}
				field := all.Type().Field(i).Name + "." + stage.Type().Field(j).Name
				if strings.ToLower(all.Type().Field(i).Name) != r.Stage || moved[field] != "" {
					t.Errorf("%s sets %s, as does %q", r.Name, field, moved[field])
				}
				moved[field] = r.Name
			}
		}
	}
	all := reflect.TypeFor[settings.Settings]()
	for i := range all.NumField() {
		if all.Field(i).Name == "Operator" {
			continue
		}
		for j := range all.Field(i).Type.NumField() {
			if field := all.Field(i).Name + "." + all.Field(i).Type.Field(j).Name; moved[field] == "" {
				t.Errorf("no row sets %s", field)
			}
		}
	}
}

// source is what the Go files of this package declare.
type source struct {
	typeOf  map[string]string // constant -> its type
	comment map[string]string // type and token, joined by a space -> the comment of the constant
	types   map[string]bool   // named string types that have constants
}

func readSource(t *testing.T) source {
	t.Helper()
	src := source{map[string]string{}, map[string]string{}, map[string]bool{}}
	for _, name := range []string{"values.go", "values_use.go", "values_act.go"} {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST {
				continue
			}
			for _, s := range g.Specs {
				v := s.(*ast.ValueSpec)
				id, ok := v.Type.(*ast.Ident)
				if !ok {
					continue
				}
				value, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				src.types[id.Name] = true
				src.typeOf[v.Names[0].Name] = id.Name
				src.comment[id.Name+" "+value] = strings.TrimSpace(v.Comment.Text())
			}
		}
	}
	return src
}

// The table has every constant, in the order of the source, with the same words.
func TestTableAndConstantsAgree(t *testing.T) {
	t.Parallel()
	src := readSource(t)
	seen := map[string]bool{}
	all := reflect.TypeFor[settings.Settings]()
	byRow := map[string]string{}
	for _, r := range settings.Table() {
		if r.Shape != settings.ShapeChoice && r.Shape != settings.ShapeSet || r.Name == "default_tools" || r.Name == "root_families" {
			continue // their values are tables of tools and of agents
		}
		var s settings.Settings
		if err := r.Set(&s, r.Values[0]); err != nil {
			t.Fatal(err)
		}
		for i := range all.NumField() {
			stage := reflect.ValueOf(s).Field(i)
			for j := range stage.NumField() {
				if f := stage.Field(j); !f.IsZero() {
					if f.Kind() == reflect.Slice {
						f = f.Index(0)
					}
					byRow[r.Name] = f.Type().Name()
				}
			}
		}
		for _, v := range r.Values {
			key := byRow[r.Name] + " " + v
			seen[key] = true
			if src.comment[key] != r.Meaning[v] {
				t.Errorf("%s: the table says %q, the constant %q", key, r.Meaning[v], src.comment[key])
			}
		}
	}
	for key := range src.comment {
		if !seen[key] {
			t.Errorf("%s is in no row", key)
		}
	}
}

// outside parses the Go files of the module that are neither tests nor of this package.
func outside(t *testing.T) map[string]*ast.File {
	t.Helper()
	files := map[string]*ast.File{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != ".." && (strings.HasPrefix(name, ".") || name == "testdata" || path == filepath.Join("..", "settings")) {
				return filepath.SkipDir
			}
			if _, err := os.Stat(filepath.Join(path, "go.mod")); path != ".." && err == nil {
				return filepath.SkipDir // a nested module stands for an embedding program
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Logf("not checked: %v", err) // the compiler has the details
			return nil
		}
		files[path] = f
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// users lists, for each type of a setting, the files outside this package that name it or one of
// its values.
func users(t *testing.T) map[string][]string {
	t.Helper()
	src := readSource(t)
	used := map[string][]string{}
	for path, f := range outside(t) {
		for name := range namesUsed(f, testenv.ModulePath+"/settings") {
			typ := src.typeOf[name]
			if src.types[name] {
				typ = name
			}
			if typ != "" && !slices.Contains(used[typ], path) {
				used[typ] = append(used[typ], path)
			}
		}
	}
	return used
}

// A setting's type and its values are named in one file outside this package.
func TestEachSettingIsReadInOneFile(t *testing.T) {
	t.Parallel()
	for typ, files := range users(t) {
		if len(files) > 1 {
			slices.Sort(files)
			t.Errorf("settings.%s is read in %s: let one file decide; hand the stage's struct through the others", typ, strings.Join(files, ", "))
		}
	}
}

// A setting is marked later as long as nothing uses it. Uses are known only by name: a setting
// whose field shares its name with something else may pass unmarked.
func TestLaterIsWhatNothingReads(t *testing.T) {
	t.Parallel()
	selected := map[string]bool{}
	files := outside(t)
	stages, err := parser.ParseFile(token.NewFileSet(), "stages.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	files["stages.go"] = stages // its methods use other types
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				selected[sel.Sel.Name] = true
			}
			return true
		})
	}
	used := users(t)
	for _, r := range settings.Table() {
		var s settings.Settings
		value := r.Values[0]
		switch r.Shape {
		case settings.ShapeNumber:
			_, value, _ = strings.Cut(value, " to ")
		case settings.ShapeName:
			value = "a_tool"
		}
		if err := r.Set(&s, value); err != nil {
			t.Fatal(err)
		}
		for _, stage := range reflect.ValueOf(s).Fields() {
			for field, v := range stage.Fields() {
				switch typ := v.Type(); {
				case v.IsZero():
				case !r.Later && !selected[field.Name]:
					t.Errorf("%s: nothing reads it; mark it later", r.Name)
				case r.Later && len(used[typ.Name()]) > 0:
					t.Errorf("%s: %s reads it; it is not later any more", r.Name, used[typ.Name()])
				}
			}
		}
	}
}

// namesUsed returns the names that f uses from an imported package.
func namesUsed(f *ast.File, pkg string) map[string]bool {
	local := ""
	for _, imp := range f.Imports {
		if path, _ := strconv.Unquote(imp.Path.Value); path == pkg {
			local = filepath.Base(pkg)
			if imp.Name != nil {
				local = imp.Name.Name
			}
		}
	}
	used := map[string]bool{}
	if local == "" {
		return used
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if id, ok := sel.X.(*ast.Ident); ok && id.Name == local {
				used[sel.Sel.Name] = true
			}
		}
		return true
	})
	return used
}

func TestNamesUsed(t *testing.T) {
	t.Parallel()
	f, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nimport st \""+testenv.ModulePath+"/settings\"\nvar a, b = st.ScanChildren, fmt.Scan\n", 0)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]bool{"ScanChildren": true}, namesUsed(f, testenv.ModulePath+"/settings")); d != "" {
		t.Error(d)
	}
}

func TestDocumentationIsTheTable(t *testing.T) {
	t.Parallel()
	page := filepath.Join("..", "docs", "SETTINGS.md")
	if *update {
		if err := os.MkdirAll(filepath.Dir(page), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(page, []byte(settings.Markdown()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(settings.Markdown(), string(got)); d != "" {
		t.Errorf("run go test ./settings -update (-table +page):\n%s", d)
	}
}
