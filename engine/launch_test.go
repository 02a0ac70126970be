package engine_test

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"metier/engine"
	"metier/policy"
	"metier/sandbox"
)

// Records contain a launch, and old ones must remain readable: no field is renamed, removed, or
// changed in type. New optional fields are added to the file. The runs in testdata/records, which
// cli resumes, use most of them.
func TestFieldsOfALaunchStayAsTheyAreRecorded(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("testdata/launch.txt")
	if err != nil {
		t.Fatal(err)
	}
	is := fieldsOf(reflect.TypeFor[engine.Launch](), "")
	if d := cmp.Diff(strings.Split(strings.TrimSpace(string(b)), "\n"), is); d != "" {
		t.Errorf("testdata/launch.txt (-recorded +is):\n%s", d)
	}
}

// fieldsOf lists the fields of a type as its JSON names them, each with its kind.
func fieldsOf(t reflect.Type, path string) (out []string) {
	marshals := t.Implements(reflect.TypeFor[json.Marshaler]()) || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]())
	switch {
	case marshals || t == reflect.TypeFor[time.Time]():
		return []string{path + " " + t.String()}
	case t.Kind() == reflect.Pointer:
		return fieldsOf(t.Elem(), path)
	case t.Kind() == reflect.Slice:
		return fieldsOf(t.Elem(), path+"[]")
	case t.Kind() == reflect.Map:
		return fieldsOf(t.Elem(), path+"{}")
	case t.Kind() != reflect.Struct:
		return []string{path + " " + t.Kind().String()}
	}
	for _, f := range reflect.VisibleFields(t) {
		name, more, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" || len(f.Index) > 1 {
			continue
		}
		if name == "" {
			name = f.Name
		}
		if more != "" {
			name += "?"
		}
		out = append(out, fieldsOf(f.Type, strings.TrimPrefix(path+"."+name, "."))...)
	}
	slices.Sort(out)
	return out
}

// Package policy, which imports nothing, has its own list of the levels.
func TestLevels_PolicyAcceptsThoseOfSandboxes(t *testing.T) {
	t.Parallel()
	for _, l := range sandbox.Levels() {
		if err := policy.CheckLevel(l.String()); err != nil {
			t.Error(err)
		}
		if parsed, err := sandbox.ParseLevel(l.String()); parsed != l || err != nil {
			t.Errorf("ParseLevel(%s) = %s, %v", l, parsed, err)
		}
		if l.Meaning() == "" {
			t.Errorf("%s has no meaning", l)
		}
	}
	after := sandbox.L3 + 1
	if err := policy.CheckLevel("L4"); err == nil || after.Meaning() != "" {
		t.Errorf("a level after L3 is accepted, or has the meaning %q", after.Meaning())
	}
}
