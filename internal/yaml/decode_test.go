package yaml

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type config struct {
	Name  string            `yaml:"name"`
	Turns int               `yaml:"max-turns"`
	On    bool              `yaml:"on"`
	Env   map[string]string `yaml:"env,omitempty"`
	Roots []root            `yaml:"roots,omitempty"`
	Tags  []string          `yaml:"tags,omitempty"`
}

type root struct {
	Path string `yaml:"path"`
	Tier string `yaml:"tier"`
}

func TestDecodeFillsAndKeepsText(t *testing.T) {
	t.Parallel()
	got := config{Turns: 7}
	src := "name: 1.10\non: true\nenv: {A: no, B: 2024-01-01, C: 010}\nroots:\n  - path: /a\n    tier: org\n"
	if err := Decode([]byte("\ufeff"+src), &got); err != nil {
		t.Fatal(err)
	}
	want := config{Name: "1.10", Turns: 7, On: true, Env: map[string]string{"A": "no", "B": "2024-01-01", "C": "010"},
		Roots: []root{{Path: "/a", Tier: "org"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, empty := range []string{"", "# nothing\n", "~"} {
		if err := Decode([]byte(empty), &got); err != nil {
			t.Errorf("%q: %v", empty, err)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("an empty file changed the value: %s", diff)
	}
}

func TestDecodeNamesEveryFaultWithItsPosition(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		src, want string
		code      Code
	}{
		"unknown key":     {"name: a\nmax_turns: 3", `2:1: unknown key "max_turns"; did you mean max-turns?`, UnknownKey},
		"case matters":    {"Name: a", `1:1: unknown key "Name"; did you mean name?`, UnknownKey},
		"nested unknown":  {"roots:\n  - path: a\n    teir: org", `3:5: unknown key "teir"; did you mean tier?`, UnknownKey},
		"several":         {"x: 1\nname: a\ny: 2", "1:1: unknown key \"x\"\n3:1: unknown key \"y\"", UnknownKey},
		"duplicate":       {"name: a\nname: b", `2:1: key "name" is already set on line 1`, DuplicateKey},
		"map duplicate":   {"env: {A: b, A: c}", `1:13: key "A" is already set on line 1`, DuplicateKey},
		"wrong type":      {"name: a\nmax-turns: many", `2:12: expected a number, got "many"`, WrongType},
		"no list":         {"tags: one", "1:7: expected a list, such as [one]", WrongType},
		"no list of maps": {"roots: one", `1:8: expected a list, got "one"`, WrongType},
		"no text":         {"name: {a: b}", "1:7: expected text, got a map", WrongType},
		"no switch":       {"on: 3", `1:5: expected true or false, got "3"`, WrongType},
		"no map":          {"env: one two three four", `1:6: expected keys and values, got "one two..."`, WrongType},
		"alias":           {"name: &a b", "1:7: anchor &a is not allowed; put the text in quotes", Anchor},
		"too large":       {"name: " + strings.Repeat("x", DecodeMaxBytes), "1:1: 1048582 bytes of YAML; at most 1048576 are read", TooLarge},
		"second document": {"name: a\n---\nname: b", "2:1: a second YAML document; exactly one is allowed", SecondDocument},
		"a list":          {"- a", "1:1: expected keys and values, got a list", WrongType},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var v config
			err := Decode([]byte(tt.src), &v)
			if err == nil {
				t.Fatal("accepted")
			}
			if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
				t.Error(diff)
			}
			var e *Error
			if !errors.As(err, &e) || e.Code != tt.code {
				t.Errorf("got %+v, want code %s", e, tt.code)
			}
		})
	}
}
