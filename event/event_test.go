package event_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"metier/event"
	"metier/record"
)

var update = flag.Bool("update", false, "write missing golden data; never changes what is there")

// golden is where the data of every release is kept: a build must read the
// records of all earlier ones.
const golden = "../testdata/records/v1"

// filled returns a value of an event's type with every field set, each
// differently, so that a field that is dropped or mixed up is noticed.
func filled(e event.Event) event.Event {
	p := reflect.New(reflect.TypeOf(e))
	n := 0
	fill(p.Elem(), &n)
	return p.Elem().Interface().(event.Event)
}

func fill(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("text %d <&> \"é\"", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(1000 + *n))
	case reflect.Uint64:
		v.SetUint(uint64(1000 + *n))
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), n)
		fill(v.Index(1), n)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	default:
		panic("an event has a field of kind " + v.Kind().String())
	}
}

var at = time.Date(2031, 2, 3, 4, 5, 6, 789, time.FixedZone("x", 3600))

// entry creates an entry as a log would return it.
func entry(t *testing.T, e event.Event) record.Entry {
	t.Helper()
	en, err := event.New(e, "id", "me", at)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(en)
	if err != nil {
		t.Fatal(err)
	}
	var back record.Entry
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	return back
}

func TestEveryEventComesBack(t *testing.T) {
	t.Parallel()
	for _, zero := range event.All() {
		for name, want := range map[string]event.Event{"full": filled(zero), "zero": zero} {
			t.Run(zero.Type()+" "+name, func(t *testing.T) {
				t.Parallel()
				en := entry(t, want)
				if en.Type != zero.Type() || en.ID != "id" || en.By != "me" || en.V != 1 || !en.At.Equal(at) || en.At.Location() != time.UTC {
					t.Errorf("entry %+v", en)
				}
				if en.Must == (zero.Type() == "note") {
					t.Errorf("must be understood: %v", en.Must)
				}
				got, err := event.Decode(en)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

// Data written by version 1 always reads the same, and version 1 still writes
// it.
func TestGoldenData(t *testing.T) {
	t.Parallel()
	var want []string
	for _, zero := range event.All() {
		e := filled(zero)
		file := filepath.Join(golden, zero.Type()+".json")
		want = append(want, zero.Type()+".json")
		en := entry(t, e)
		if _, err := os.Stat(file); *update && errors.Is(err, os.ErrNotExist) {
			var b bytes.Buffer
			if err := json.Indent(&b, en.Data, "", "  "); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, append(b.Bytes(), '\n'), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Errorf("%v; go test ./event -update writes it", err)
			continue
		}
		got, err := event.Decode(record.Entry{V: 1, Seq: 1, Type: zero.Type(), Data: b})
		if err != nil {
			t.Error(err)
			continue
		}
		if diff := cmp.Diff(e, got); diff != "" {
			t.Errorf("%s is read as something else:\n%s", file, diff)
		}
		var flat bytes.Buffer
		if err := json.Compact(&flat, b); err != nil || !bytes.Equal(flat.Bytes(), en.Data) {
			t.Errorf("%s is written differently, %v:\n%s\n%s", file, err, flat.Bytes(), en.Data)
		}
	}
	// A renamed type reads as its current name.
	for old, zero := range map[string]event.Event{"skill.indexed": event.SkillsDiscovered{}} {
		want = append(want, old+".json")
		b, err := os.ReadFile(filepath.Join(golden, old+".json"))
		if err != nil {
			t.Fatal(err)
		}
		e, err := event.Decode(record.Entry{V: 1, Seq: 1, Type: old, Data: b})
		if i, is := e.(event.SkillsDiscovered); err != nil || !is || i.Loaded != 1006 || i.Registry.Digest == "" || e.Type() != zero.Type() {
			t.Errorf("%s reads as %+v, %v", old, e, err)
		}
	}
	have, err := os.ReadDir(golden)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range have {
		if !slices.Contains(want, f.Name()) {
			t.Errorf("%s is of a type that is gone: a record that holds it cannot be read", f.Name())
		}
	}
}

func TestTypesAreDottedAndUnique(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, e := range event.All() {
		name := e.Type()
		if seen[name] || name != "note" && strings.Count(name, ".") != 1 || name != strings.ToLower(name) {
			t.Errorf("type %q", name)
		}
		seen[name] = true
	}
	for _, name := range []string{"skill.discovered", "skill.activated", "skill.resource_read", "skill.script_executed"} {
		if !seen[name] {
			t.Errorf("no event %s", name)
		}
		if event.Schema(name) == nil {
			t.Errorf("no schema of %s", name)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		entry   record.Entry
		unknown bool
	}{
		"a type of the future":    {record.Entry{V: 1, Type: "skill.dreamed", Data: json.RawMessage(`{}`)}, true},
		"a version of the future": {record.Entry{V: 2, Type: "note", Data: json.RawMessage(`{}`)}, true},
		"no type":                 {record.Entry{V: 1, Data: json.RawMessage(`{}`)}, true},
		"another shape":           {record.Entry{V: 1, Type: "note", Data: json.RawMessage(`[]`)}, false},
		"another kind of field":   {record.Entry{V: 1, Type: "note", Data: json.RawMessage(`{"n":"1"}`)}, false},
		"no JSON":                 {record.Entry{V: 1, Type: "note", Data: json.RawMessage(`{`)}, false},
		"no data":                 {record.Entry{V: 1, Type: "note"}, false},
	} {
		e, err := event.Decode(tt.entry)
		if err == nil || errors.Is(err, event.ErrUnknown) != tt.unknown {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
	// A field that a later build of the same version added is ignored.
	if e, err := event.Decode(record.Entry{V: 1, Type: "note", Data: json.RawMessage(`{"code":"x","more":1}`)}); err != nil || e != (event.Note{Code: "x"}) {
		t.Errorf("%+v, %v", e, err)
	}
}

// foreign is an event that no build can read.
type foreign struct{}

func (foreign) Type() string { return "foreign.thing" }

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for _, e := range []event.Event{foreign{}, &event.Note{}} {
		if _, err := event.New(e, "id", "", at); err == nil {
			t.Errorf("%T was encoded", e)
		}
	}
}

// Every blob that an event names is in its entry's refs, in order, once for
// each mention. Empty references are left out.
func TestRefs(t *testing.T) {
	t.Parallel()
	for _, zero := range event.All() {
		if got := event.Refs(zero); len(got) != 0 {
			t.Errorf("%s: a zero value names %v", zero.Type(), got)
		}
		e := filled(zero)
		data, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := len(event.Refs(e)), bytes.Count(data, []byte(`,"media":"text`)); got != want {
			t.Errorf("%s: %d refs for %d mentions: %s", zero.Type(), got, want, data)
		}
	}
	ref := func(s string) record.Ref { return record.Ref{Digest: s, Size: 1} }
	for want, e := range map[string]event.Event{
		"a b":   event.ToolCallStarted{Args: ref("a"), Intent: ref("b")},
		"b":     event.ToolCallStarted{Intent: ref("b")},
		"m x y": event.ModelReplied{Message: ref("m"), Calls: []event.CallRef{{Args: ref("x")}, {}, {Args: ref("y")}}},
		"c d":   event.ToolResult{Content: ref("c"), Detail: ref("d"), Active: []event.SkillRef{{Digest: "no blob"}}},
		"":      event.Input{},
	} {
		var got []string
		for _, r := range event.Refs(e) {
			got = append(got, r.Digest)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%T: %v, want %s", e, got, want)
		}
	}
}
