package engine_test

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/config"
	"metier/engine"
	"metier/record"
)

// Servers run for days, and open records while an operator edits the configuration.
func TestSecrets_RemainIfTheConfigurationIsBroken(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	file := filepath.Join(home, ".config", "metier", "config.yaml")
	var notices []string
	e := engine.New(config.NewEnv([]string{"HOME=" + home, "OLD=token-0123456789", "NEW=token-9876543210"}, home),
		engine.Options{Notify: func(n engine.Notice) { notices = append(notices, n.Code) }})
	before, after := record.Secret{Name: "BEFORE", Value: "token-0123456789"}, record.Secret{Name: "AFTER", Value: "token-9876543210"}
	for _, step := range []struct {
		name, config string
		want         []record.Secret
		notices      []string
	}{
		{"first", "secrets: [{skill: a, name: BEFORE, env: OLD}]\n", []record.Secret{before}, nil},
		{"broken", "secrets: [\n", []record.Secret{before}, []string{"secrets_unread"}},
		{"still broken", "secrets: {\n", []record.Secret{before}, []string{"secrets_unread"}},
		{"repaired", "secrets: [{skill: a, name: AFTER, env: NEW}]\n", []record.Secret{before, after}, []string{"secrets_unread"}},
		{"broken again", "secrets: [\n", []record.Secret{before, after}, []string{"secrets_unread", "secrets_unread"}},
	} {
		write(t, file, step.config)
		if diff := cmp.Diff(step.want, e.Secrets()); diff != "" {
			t.Errorf("%s: secrets (-want +got):\n%s", step.name, diff)
		}
		if diff := cmp.Diff(step.notices, notices); diff != "" {
			t.Errorf("%s: notices (-want +got):\n%s", step.name, diff)
		}
	}
}

func TestSecrets_IncludeThoseOfAddresses(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	write(t, filepath.Join(home, ".config", "metier", "config.yaml"), "base_urls: {vllm: 'http://ann:pass-of-vllm@127.0.0.1/v1'}\n")
	e := engine.New(config.NewEnv([]string{"HOME=" + home, "OLLAMA_HOST=ann:pass-of-ollama@127.0.0.1:11434", "OTEL_EXPORTER_OTLP_HEADERS=x-key=token-0123456789"}, home), engine.Options{})
	want := []record.Secret{{Name: "OTEL_EXPORTER_OTLP_HEADERS", Value: "token-0123456789"}, {Name: "OLLAMA_BASE_URL", Value: "pass-of-ollama"}, {Name: "VLLM_BASE_URL", Value: "pass-of-vllm"}}
	if diff := cmp.Diff(want, e.Secrets()); diff != "" {
		t.Errorf("secrets (-want +got):\n%s", diff)
	}
}
