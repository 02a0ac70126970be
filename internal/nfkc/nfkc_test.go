package nfkc

import "testing"

func TestStringGivesOneSpelling(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"cafe\u0301":         "caf\u00e9",
		"caf\u00e9":          "caf\u00e9",
		"\uff50\uff44\uff46": "pdf",
		"\ufb01le":           "file",
		"plain-name":         "plain-name",
		"":                   "",
	} {
		if got := String(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
