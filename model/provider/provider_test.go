package provider

import (
	"errors"
	"testing"

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
