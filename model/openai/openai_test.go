package openai_test

import (
	"testing"
	"time"

	"metier/model"
	"metier/model/modeltest"
	"metier/model/openai"
)

// clock is the time the suite's dates count from.
func clock() time.Time { return time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC) }

func TestConform(t *testing.T) {
	t.Parallel()
	modeltest.Conform(t, modeltest.Adapter{
		Server: modeltest.OpenAI,
		New: func(url, key string) model.Model {
			return openai.New("gpt-test", &openai.Options{BaseURL: url, Key: key, Now: clock})
		},
		NoFlag: true,
	})
}
