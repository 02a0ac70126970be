package provider

import (
	"errors"
	"testing"

	"metier/model"
)

// A provider goes by its own name, in errors and on what only it can read again: another one's opaque parts must not reach it.
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
