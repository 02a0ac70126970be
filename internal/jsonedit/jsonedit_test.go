package jsonedit_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/internal/jsonedit"
)

func TestWhatIsNotChangedStaysAsItIs(t *testing.T) {
	t.Parallel()
	in := "{\n\t\"z\": 1.50e+3,\n\t\"big\": 12345678901234567890123,\n\t\"a<b\": {\"q\": [1, 2.0], \"b\": \"\\u00e9<\"},\n\t\"is\": true\n}\n"
	o, err := jsonedit.Parse([]byte(in))
	if err != nil {
		t.Fatal(err)
	}
	o.Set("is", json.RawMessage("false"))
	o.Set("new", json.RawMessage(`"x"`))
	b, err := o.Text()
	if err != nil {
		t.Fatal(err)
	}
	want := "{\n\t\"z\": 1.50e+3,\n\t\"big\": 12345678901234567890123,\n\t\"a<b\": {\n\t\t\"q\": [\n\t\t\t1,\n\t\t\t2.0\n\t\t],\n\t\t\"b\": \"\\u00e9<\"\n\t},\n\t\"is\": false,\n\t\"new\": \"x\"\n}\n"
	if d := cmp.Diff(want, string(b)); d != "" {
		t.Error(d)
	}
	if _, ok := o.Get("none"); ok {
		t.Error("a member that was never set is there")
	}
}

func TestWhatIsNoObjectIsAnError(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"", " ", "[]", "3", "{", `{"a":1`, `{"a":1}{}`, `{"a":}`, `{"a":1,}`, `{"a":1,"a":2}`, "\xef\xbb\xbf{}", "{]", strings.Repeat(`{"a":`, 20000)} {
		if o, err := jsonedit.Parse([]byte(in)); err == nil {
			t.Errorf("%.20q gave %v", in, o)
		}
	}
	o, err := jsonedit.Parse([]byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	o.Set("k", json.RawMessage("1"))
	if b, err := o.Text(); err != nil || string(b) != "{\n  \"k\": 1\n}\n" {
		t.Errorf("%q %v", b, err)
	}
}

// A hostile file may have as many keys as fit in its bytes: reading it visits
// each once.
func TestVeryManyKeysAreReadInTheTimeOfTheirBytes(t *testing.T) {
	t.Parallel()
	const many = 400_000
	var b strings.Builder
	for i := range many {
		fmt.Fprintf(&b, `,"%x":0`, i)
	}
	o, err := jsonedit.Parse([]byte("{" + b.String()[1:] + "}"))
	if err != nil {
		t.Fatal(err)
	}
	last := fmt.Sprintf("%x", many-1)
	if v, ok := o.Get(last); !ok || string(v) != "0" {
		t.Errorf("the last key: %s %v", v, ok)
	}
	o.Set(last, json.RawMessage("2"))
	if v, _ := o.Get(last); string(v) != "2" {
		t.Errorf("it was set to 2 and is %s", v)
	}
}
