package anthropic_test

import (
	"testing"
	"time"

	"metier/model"
	"metier/model/anthropic"
	"metier/model/modeltest"
)

// clock is the time the suite's dates count from.
func clock() time.Time { return time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC) }

func TestConform(t *testing.T) {
	t.Parallel()
	modeltest.Conform(t, modeltest.Adapter{
		Server: modeltest.Anthropic,
		New: func(url, key string) model.Model {
			return anthropic.New("claude-test", &anthropic.Options{BaseURL: url, Key: key, Now: clock})
		},
		NoCost: true,
	})
}
