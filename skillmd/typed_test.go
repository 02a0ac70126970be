package skillmd_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/skillmd"
)

func TestTypedJSON_ReadsCoreSchemaTypes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ yaml, want string }{
		"integers":          {"a: 7\nb: -0\nc: +12\nd: 007\n", `{"a":7,"b":-0,"c":12,"d":7}`},
		"bases":             {"a: 0o14\nb: 0x1F\nc: 0O14\nd: -0x1F\n", `{"a":12,"b":31,"c":"0O14","d":"-0x1F"}`},
		"floats":            {"a: 1.10\nb: .5\nc: -.5\nd: 1.\ne: 00.5\n", `{"a":1.10,"b":0.5,"c":-0.5,"d":1,"e":0.5}`},
		"exponents":         {"a: 1e3\nb: 1.5E-3\nc: .5e+2\nd: 1e\n", `{"a":1e3,"b":1.5E-3,"c":0.5e+2,"d":"1e"}`},
		"big":               {"a: 9007199254740993\nb: 0x20000000000001\n", `{"a":9007199254740993,"b":9007199254740993}`},
		"yaml 1.1 numbers":  {"a: 1_000\nb: 12:30:45\nc: 0b11\nd: 2026-01-02\n", `{"a":"1_000","b":"12:30:45","c":"0b11","d":"2026-01-02"}`},
		"booleans":          {"a: true\nb: True\nc: FALSE\nd: yes\ne: off\nf: tRue\n", `{"a":true,"b":true,"c":false,"d":"yes","e":"off","f":"tRue"}`},
		"null":              {"a:\nb: ~\nc: null\nd: Null\ne: NULL\nf: nULL\n", `{"a":null,"b":null,"c":null,"d":null,"e":null,"f":"nULL"}`},
		"quoted":            {"a: \"7\"\nb: '0x1F'\nc: |\n  7\n", `{"a":"7","b":"0x1F","c":"7\n"}`},
		"nested":            {"a:\n  b: [1, 2.50, x]\n  c: {d: 1e2}\n", `{"a":{"b":[1,2.50,"x"],"c":{"d":1e2}}}`},
		"quoted over lines": {"a: 'it''s\n  é'\nb: [é, \"c\\\"\n\n  d\"]\n", `{"a":"it's é","b":["é","c\"\nd"]}`},
		"keys":              {"1.0: a\n0x10: b\n~: c\nTrue: d\n\"2.0\": e\n", `{"1":"a","16":"b","":"c","true":"d","2.0":"e"}`},
	} {
		got, err := skillmd.TypedJSON([]byte("---\n" + c.yaml + "---\n"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d := cmp.Diff(c.want, string(got)); d != "" {
			t.Errorf("%s: -want +got:\n%s", name, d)
		}
	}
}

func TestTypedJSON_RefusesWhatReadersDisagreeOn(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"---\na: .inf\n---\n", "---\na: .NaN\n---\n", "---\na: 1e999\n---\n", "---\n1: a\n1.0: b\n---\n", "---\na: x\u2028y\n---\n", "---\na: x\ry\n---\n",
		"---\n- a\n---\n", "---\n...\na: b\n---\n", "---\na: |+\n  b\n\n---\n", "---\n" + strings.Repeat("k", 1100) + ": b\n---\n",
		"---\na:\n  b: [c, 'd\n  e']\n---\n", "---\na:\n  - [c, \"d\\\n  e\"]\n---\n", "---\na:\n  - [c: d, \"e\n\n  f\"]\n---\n",
		"text\n", "# title\n---\na: b\n---\n", "---\na: b: c\n---\n",
	} {
		if got, err := skillmd.TypedJSON([]byte(text)); err == nil {
			t.Errorf("%q: got %s, want an error", text, got)
		}
	}
}
