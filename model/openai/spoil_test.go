package openai_test

import (
	"net/http"
	"testing"

	"metier/model"
	"metier/model/modeltest"
	"metier/model/openai"
)

func TestSpoiledRepliesEndWithDoneOrError(t *testing.T) {
	t.Parallel()
	modeltest.Spoil(t, "openai", 1000, func(c *http.Client) model.Model {
		return openai.New("m", &openai.Options{Key: modeltest.Key, HTTPClient: c})
	})
}
