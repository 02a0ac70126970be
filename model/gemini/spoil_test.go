package gemini_test

import (
	"net/http"
	"testing"

	"metier/model"
	"metier/model/gemini"
	"metier/model/modeltest"
)

func TestSpoiledRepliesEndWithDoneOrError(t *testing.T) {
	t.Parallel()
	modeltest.Spoil(t, "gemini", 1000, func(c *http.Client) model.Model {
		return gemini.New("m", &gemini.Options{Key: modeltest.Key, HTTPClient: c})
	})
}
