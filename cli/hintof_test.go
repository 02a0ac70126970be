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
