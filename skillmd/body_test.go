package skillmd

import (
	"strings"
	"testing"
)

func TestFirstParagraph(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ body, want string }{
		"empty":                  {"", ""},
		"one line":               {"Does a thing.\n", "Does a thing."},
		"joined":                 {"\n\nDoes *one*\n  **thing**.\r\n\r\nMore.", "Does *one* **thing**."},
		"after a heading":        {"# Title\n\nText.\n", "Text."},
		"right under a heading":  {"## Title\nText.\n", "Text."},
		"no blank before head":   {"Text.\n# Title\n", "Text."},
		"hash without blank":     {"#tag is text\n", "#tag is text"},
		"underlined heading":     {"Title\n=====\n\nText.\n", "Text."},
		"underlined, dashes":     {"Title\n---\nText.\n", "Text."},
		"rule":                   {"---\n\n* * *\n\nText.\n", "Text."},
		"fence":                  {"```sh\nnot this\n\nnor this\n```\nText.\n", "Text."},
		"long fence":             {"````\n```\nnot this\n````\nText.\n", "Text."},
		"tilde fence":            {"~~~\nnot this\n~~~\n\nText.\n", "Text."},
		"open fence":             {"```\nnot this\n", ""},
		"fence ends a paragraph": {"Text.\n```\ncode\n```\n", "Text."},
		"comment":                {"<!-- not this -->\nText.\n", "Text."},
		"long comment":           {"<!-- not\n\nthis\n--> Text.\n", "Text."},
		"open comment":           {"<!-- not this\n\nText.\n", ""},
		"comment inside":         {"One <!-- x --> two.\n", "One two."},
		"bullets":                {"- a\n- b\n  more\nlazy\n\nText.\n", "Text."},
		"numbers":                {"1. a\n2) b\n\nText.\n", "Text."},
		"number in text":         {"3.5 is a number\n", "3.5 is a number"},
		"emphasis is no bullet":  {"**Bold** text\n", "**Bold** text"},
		"quote and table":        {"> quote\n\n| a | b |\n|---|---|\n\nText.\n", "Text."},
		"indented code":          {"    code\n\nText.\n", "Text."},
		"only headings":          {"# A\n## B\n", ""},
		"bad bytes":              {"caf\xe9 x\n", "caf\ufffd x"},
		"long":                   {strings.Repeat("é", 2000), strings.Repeat("é", MaxFirstParagraph)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := FirstParagraph([]byte(tt.body)); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
