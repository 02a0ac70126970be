package cli

import (
	"strings"
	"testing"
)

func TestHintOf_UnreachableModel(t *testing.T) {
	t.Parallel()
	a := newApp(nil, IO{Dir: t.TempDir()})
	for reason, want := range map[string]string{
		"ollama: model_unreachable: no answer from 127.0.0.1:11434: connection refused": "ollama serve",
		"openai: model_unreachable: no answer from api.openai.com: no such host":        "check the network",
	} {
		if got := a.hintOf(result{Run: "r", Code: "model_unreachable", Reason: reason}); !strings.Contains(got, want) {
			t.Errorf("hint for %q = %q, want %q in it", reason, got, want)
		}
	}
}

// Commands in hints can contain names that a model or a skill chose.
func TestShellWord_QuotesWhatShellsInterpret(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"count:scripts/run.sh":   "count:scripts/run.sh",
		"":                       "''",
		"scripts/a b.sh":         "'scripts/a b.sh'",
		"scripts/`id`.sh":        "'scripts/`id`.sh'",
		"scripts/$(id).sh":       "'scripts/$(id).sh'",
		"scripts/it's.sh":        `'scripts/it'\''s.sh'`,
		"scripts/a\nb.sh":        "'scripts/a\nb.sh'",
		"~/runs":                 "'~/runs'",
		"scripts/{a,b}.sh":       "'scripts/{a,b}.sh'",
		"#20260101-000000-aa":    "'#20260101-000000-aa'",
		"!20260101-000000-aa":    "'!20260101-000000-aa'",
		"/home/ada/runs/2026-01": "/home/ada/runs/2026-01",
	} {
		if got := shellWord(in); got != want {
			t.Errorf("shellWord(%q) = %s, want %s", in, got, want)
		}
	}
}
