package provider

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/model"
)

// Each provider has its own name in errors and in content that only it can read again: opaque parts
// must not reach another provider.
func TestEveryProviderGoesByItsOwnName(t *testing.T) {
	t.Parallel()
	for _, p := range All() {
		m := p.open("m", "http://127.0.0.1:1", "test-key-0123456789")
		_, _, _, err := model.Collect(m.Stream(t.Context(), model.Request{Messages: []model.Message{model.UserText("x")}}))
		var e *model.Error
		if !errors.As(err, &e) || e.Code != model.CodeUnreachable || e.Provider != p.Name {
			t.Errorf("%s: %v", p.Name, err)
		}
	}
}

// Any program on the machine may listen at Ollama's address, so the user learns that it was chosen.
func TestChoose_ReportsALocalServer(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"models":[{"name":"tiny"}]}`) }))
	defer s.Close()
	host := strings.TrimPrefix(s.URL, "http://")
	for base, shown := range map[string]string{s.URL: s.URL, "ann:pass-0123456789@" + host: "http://ann:xxxxx@" + host} {
		env := map[string]string{"OLLAMA_HOST": base}
		m, err := Choose(t.Context(), "", Options{Env: func(name string) string { return env[name] }})
		if err != nil {
			t.Fatal(err)
		}
		want := "no provider has a key, so the model is ollama:tiny of the Ollama server at " + shown
		if diff := cmp.Diff(want, m.Note); diff != "" {
			t.Error(diff)
		}
	}
}

// Users find the variables of each provider in CLI.md.
func TestCLIPage_ListsTheVariables(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/CLI.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range All() {
		for _, name := range append(p.Keys, p.baseEnv) {
			if !strings.Contains(string(page), "`"+name+"`") {
				t.Errorf("docs/CLI.md does not have %s", name)
			}
		}
	}
}

// A base URL that cannot work fails before a run starts. The error names what set it.
func TestOpen_ChecksTheBaseURL(t *testing.T) {
	t.Parallel()
	env := map[string]string{"OPENAI_API_KEY": "test-key-0123456789", "OPENAI_BASE_URL": "nope"}
	o := Options{Env: func(name string) string { return env[name] }, BaseURLs: map[string]string{"vllm": "ann:pass-0123456789@host"}}
	for id, want := range map[string]string{"openai:m": "set OPENAI_BASE_URL to http://HOST", "vllm:m": "set base_urls of vllm in the configuration to http://HOST"} {
		_, err := Open(id, o)
		e, ok := errors.AsType[*metier.Error](err)
		if !ok || e.Code != "base_url_invalid" || !strings.HasPrefix(e.Hint, want) || strings.Contains(err.Error()+e.Hint, "pass-") {
			t.Errorf("%s: %v", id, err)
		}
	}
}
