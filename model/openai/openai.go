// Package openai implements model.Model with OpenAI's chat completions API. With another base URL
// it works with every server that uses the same protocol: Ollama, vLLM, OpenRouter, llama.cpp and
// others.
//
// Reply fields that are unknown to the protocol (reasoning_content, reasoning_details,
// extra_content on calls) are kept and sent back verbatim, but only to the provider of the same
// name. The protocol has no error flag for tool results, so the text of a failed result begins with
// "Error:". Caching is automatic at most providers.
package openai

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"strings"
	"time"

	"metier/model"
	"metier/model/internal/wire"
)

const (
	defaultBaseURL = "https://api.openai.com/v1"
	maxToolName    = 64
)

// Options configure the adapter. Environment variables are not read.
type Options struct {
	Provider   string           // name in errors and on opaque parts; default "openai"
	BaseURL    string           // with its /v1; default https://api.openai.com/v1
	Key        string           // "" sends no Authorization, as local servers like it
	HTTPClient *http.Client     // default: one over http.DefaultTransport, without a timeout
	Now        func() time.Time // for Retry-After; default time.Now
}

type adapter struct {
	name     string
	provider string
	maxField string
	client   *wire.Client
}

// New returns the model with the given name. It reads no environment variables and does no I/O. An
// invalid key fails the first call.
func New(name string, o *Options) model.Model {
	if o == nil {
		o = &Options{}
	}
	a := &adapter{name: name, provider: cmp.Or(o.Provider, "openai"), maxField: "max_tokens"}
	if o.BaseURL == "" || strings.Contains(o.BaseURL, "api.openai.com") {
		a.maxField = "max_completion_tokens" // its reasoning models refuse the old name, which most others need
	}
	header := map[string]string{}
	if o.Key != "" {
		header["Authorization"] = "Bearer " + o.Key
	}
	a.client = wire.New(wire.Config{Provider: a.provider, Base: cmp.Or(o.BaseURL, defaultBaseURL), Path: "chat/completions", HTTPClient: o.HTTPClient,
		Header: header, Secrets: []string{o.Key}, Now: o.Now})
	return a
}

// Stream implements model.Model.
func (a *adapter) Stream(ctx context.Context, r model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		names := model.WireNames(r.Tools, maxToolName, wire.Word)
		call := a.client.Post(ctx, a.body(r, names))
		defer call.End()
		reply := &reply{provider: a.provider, names: names, yield: yield, extra: fields{}}
		for event := range call.Events() {
			if err := reply.chunk(event); err != nil {
				yield(model.Chunk{}, call.Bad("%v", err))
				return
			}
			if reply.stopped {
				return
			}
		}
		if err := call.Err(); err != nil {
			yield(model.Chunk{}, err)
			return
		}
		if reply.finish == "" {
			yield(model.Chunk{}, call.Cut())
			return
		}
		yield(reply.done(), nil)
	}
}
