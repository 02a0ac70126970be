package anthropic_test

import (
	"net/http"
	"testing"

	"metier/model"
	"metier/model/anthropic"
	"metier/model/modeltest"
)

func TestSpoiledRepliesEndWithDoneOrError(t *testing.T) {
	t.Parallel()
	modeltest.Spoil(t, "anthropic", 1000, func(c *http.Client) model.Model {
		return anthropic.New("m", &anthropic.Options{Key: modeltest.Key, HTTPClient: c})
	})
}
