package serve

import (
	"errors"
	"testing"

	"metier"
	"metier/config"
	"metier/engine"
)

// Without tokens, a server on Linux does not start if it could not refuse other users.
func TestSameUser(t *testing.T) {
	t.Parallel()
	unknown := errors.New("the kernel does not say")
	for name, c := range map[string]struct {
		system string
		why    error
		same   bool
		code   string
		notes  int
	}{
		"known":        {"linux", nil, true, "", 0},
		"Linux":        {"linux", unknown, false, "token_needed", 0},
		"other system": {"darwin", unknown, false, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			notes := 0
			e := engine.New(config.Env{}, engine.Options{Notify: func(engine.Notice) { notes++ }})
			same, err := sameUser(e, c.system, c.why)
			if same != c.same || err == nil != (c.code == "") || err != nil && metier.CodeOf(err) != c.code || notes != c.notes {
				t.Errorf("%t, %v, %d notes", same, err, notes)
			}
		})
	}
	if same, err := SameUser(t.Context(), nil, true); same || err != nil {
		t.Errorf("with tokens: %t, %v", same, err)
	}
}
