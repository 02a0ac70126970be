package cli_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"metier/cli"
	"metier/event"
	"metier/record"
	"metier/run"
)

// hostile controls a terminal, turns the direction of text, and begins a line
// that looks like one of ours.
const hostile = "x\x1b[31mE\u202eV\u009bI\rL\nverified: yes\u2028\x07"

// fill puts hostile text into every field. Content refers to a blob with it.
func fill(v reflect.Value, blob record.Ref, depth int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(hostile)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint64:
		v.SetUint(1)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), blob, depth+1)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[record.Ref]() {
			v.Set(reflect.ValueOf(blob))
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && depth < 6 {
				fill(v.Field(i), blob, depth+1)
			}
		}
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			v.SetBytes([]byte(`"\u001b[31m\u202e"`))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), blob, depth+1)
	}
}

// whereItIs gives an event ids that are already in the record, so that it is
// read as part of it.
func whereItIs(v reflect.Value, id string) {
	for name, text := range map[string]string{"ID": "t1.c1", "Call": "t1.c1", "SkillID": "skills:alpha", "Run": id} {
		if f := v.FieldByName(name); f.IsValid() && f.Kind() == reflect.String {
			f.SetString(text)
		}
	}
}

// recordOf writes a run with one event after its start, as the author of a
// hostile record could. It returns its folder.
func recordOf(t *testing.T, e event.Event, media string, fits bool) string {
	t.Helper()
	root, id, at := t.TempDir(), "20310504-100000-aaaaaaaa", time.Date(2031, 5, 4, 10, 0, 0, 0, time.UTC)
	f, err := run.Create(root, id, &run.Options{Now: func() time.Time { return at }})
	if err != nil {
		t.Fatal(err)
	}
	content, _ := json.Marshal([]map[string]string{{"kind": "text", "text": hostile}}) // plain data
	blob, err := f.Blobs().Put(t.Context(), media, content)
	if err != nil {
		t.Fatal(err)
	}
	p := reflect.New(reflect.TypeOf(e)).Elem()
	if fill(p, blob, 0); fits {
		whereItIs(p, id)
	}
	for _, e := range []event.Event{event.SessionOpened{Session: id}, event.RunStarted{Run: id, Rules: 1}, p.Interface().(event.Event)} {
		head, err := f.Log().Head(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		en, err := event.New(e, "e-"+e.Type(), "somebody", at)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Log().Append(t.Context(), head, en); err != nil {
			t.Fatal(err)
		}
	}
	_ = f.Project(t.Context()) // what cannot be projected is still shown
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, id)
}

// Whatever a record contains, displaying it prints no terminal control characters, and no forged
// lines outside of the answer.
func TestNothingInARecordActsOnATerminal(t *testing.T) {
	t.Parallel()
	env := []string{"HOME=" + t.TempDir()}
	for _, e := range event.All() {
		for _, fits := range []bool{false, true} {
			media := map[bool]string{false: "text/plain; charset=utf-8", true: "application/json"}[fits]
			dir := recordOf(t, e, media, fits)
			for _, args := range [][]string{{"runs", "list", "--artifact-root", filepath.Dir(dir)}, {"runs", "show", dir}, {"runs", "show", dir, "--transcript"}, {"runs", "stats", "--artifact-root", filepath.Dir(dir)},
				{"runs", "answer", dir}, {"audit", "show", dir}, {"audit", "show", dir, "--normalized"}, {"audit", "verify", dir}, {"audit", "replay", dir}, {"run", "--resume", dir}, {"run", "--resume", dir, "--trust-record", "--model", "none:x"}} {
				var out bytes.Buffer
				cli.Main(t.Context(), args, env, cli.IO{In: strings.NewReader(""), Out: &out, Err: &out, Dir: t.TempDir()})
				if i := strings.IndexAny(out.String(), "\x1b\u202e\u009b\r\u2028\x07"); i >= 0 {
					t.Errorf("%s, %v: %q", e.Type(), args[:2], out.String()[max(0, i-60):min(out.Len(), i+40)])
				}
				before, _, _ := strings.Cut(out.String(), "\noutput\n")
				if strings.Contains(before, "\nverified: yes") {
					t.Errorf("%s, %v: a line of somebody else's: %q", e.Type(), args[:2], before)
				}
			}
		}
	}
}
