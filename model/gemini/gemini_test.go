package gemini_test

import (
	"testing"
	"time"

	"metier/model"
	"metier/model/gemini"
	"metier/model/modeltest"
)

// clock is the time the suite's dates count from.
func clock() time.Time { return time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC) }

func TestConform(t *testing.T) {
	t.Parallel()
	modeltest.Conform(t, modeltest.Adapter{
		Server: modeltest.Gemini,
		New: func(url, key string) model.Model {
			return gemini.New("gemini-3-test", &gemini.Options{BaseURL: url, Key: key, Now: clock})
		},
		NoCost: true, NoBad: true,
	})
}
