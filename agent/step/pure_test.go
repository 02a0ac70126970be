package step_test

import (
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"metier/agent/step"
	"metier/event"
	"metier/internal/testenv"
)

func TestPureImportsOnlyWhatHasNoWorld(t *testing.T) {
	t.Parallel()
	allowed := []string{"encoding/json", "errors", "fmt", "slices", "strings", "unicode",
		testenv.ModulePath + "/event", testenv.ModulePath + "/model", testenv.ModulePath + "/policy", testenv.ModulePath + "/record"}
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		read++
		parsed, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, im := range parsed.Imports {
			if p, _ := strconv.Unquote(im.Path.Value); !slices.Contains(allowed, p) {
				t.Errorf("%s imports %s: the machine does no input or output and reads no clock; let the driver do it and bring an event", f.Name(), p)
			}
		}
	}
	if read == 0 {
		t.Fatal("no file was read")
	}
}

func TestStateHoldsNoMapChannelFuncOrInterface(t *testing.T) {
	t.Parallel()
	seen := map[reflect.Type]bool{}
	var walk func(reflect.Type, string)
	walk = func(y reflect.Type, path string) {
		if seen[y] {
			return
		}
		seen[y] = true
		switch y.Kind() {
		case reflect.Map, reflect.Chan, reflect.Func, reflect.Interface, reflect.UnsafePointer:
			t.Errorf("%s is a %s: its order or content would not survive the log", path, y.Kind())
		case reflect.Slice, reflect.Array, reflect.Pointer:
			walk(y.Elem(), path)
		case reflect.Struct:
			for f := range y.Fields() {
				if !f.IsExported() {
					t.Errorf("%s.%s would be lost in JSON", path, f.Name)
				}
				walk(f.Type, path+"."+f.Name)
			}
		}
	}
	walk(reflect.TypeFor[step.State](), "State")
}

func TestEveryEventIsKnown(t *testing.T) {
	t.Parallel()
	for _, e := range event.All() {
		if b, ok := e.(event.RunStarted); ok {
			b.Rules = step.Rules
			e = b
		}
		if _, ok := e.(event.RunStopped); ok {
			e = event.RunStopped{Scope: "run"}
		}
		if _, err := new(step.State).Apply(e); err != nil {
			t.Errorf("%s: %v", e.Type(), err)
		}
	}
}
