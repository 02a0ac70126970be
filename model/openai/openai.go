// Package openai speaks OpenAI's chat completions as a model.Model, on the official SDK. The base URL makes it serve everything that
// speaks the same protocol: Ollama, vLLM, OpenRouter, llama.cpp and others.
//
// Fields of a reply that the protocol does not know (reasoning_content, reasoning_details, extra_content on calls) are kept and go
// back verbatim, to the provider of the same name only. The protocol has no error flag on tool results: a failed result's text begins
// with "Error:". Caching is automatic at most providers; CacheControl adds the marks OpenRouter passes on.
package openai

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"strings"
	"time"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"metier/model"
	"metier/model/internal/wire"
)

const maxToolName = 64

// Options configure the adapter. The environment is not read.
type Options struct {
	Provider     string            // name in errors and on opaque parts; default "openai"
	BaseURL      string            // with its /v1; default https://api.openai.com/v1
	Key          string            // "" sends no Authorization, as local servers like it
	HTTPClient   *http.Client      // default: one over http.DefaultTransport, without a timeout
	MaxTokens    int               // of a reply, unless the request says; default: the provider's
	Headers      map[string]string // more headers
	Params       map[string]any    // more fields of the request body: temperature, reasoning_effort, prompt_cache_key, …
	CacheControl bool              // mark system prompt and last user turn with cache_control (OpenRouter)
	Now          func() time.Time  // for Retry-After; default time.Now
}

type adapter struct {
	name     string
	provider string
	o        Options
	maxField string
	client   *wire.Client
	chat     sdk.ChatCompletionService
}

// New returns the model called name. It reads no environment and does no I/O; a wrong key shows at the first call.
func New(name string, o *Options) model.Model {
	if o == nil {
		o = &Options{}
	}
	a := &adapter{name: name, provider: o.Provider, o: *o, maxField: "max_tokens"}
	if a.provider == "" {
		a.provider = "openai"
	}
	if o.BaseURL == "" || strings.Contains(o.BaseURL, "api.openai.com") {
		a.maxField = "max_completion_tokens" // its reasoning models refuse the old name, which most others need
	}
	secrets := []string{o.Key}
	for _, v := range o.Headers {
		secrets = append(secrets, v)
	}
	a.client = wire.New(wire.Config{Provider: a.provider, HTTPClient: o.HTTPClient, Secrets: secrets, Now: o.Now})
	opts := []option.RequestOption{option.WithEnvironmentProduction(), option.WithHTTPClient(a.client.HTTP), option.WithMaxRetries(0)}
	if o.BaseURL != "" {
		opts = append(opts, option.WithBaseURL(o.BaseURL))
	}
	if o.Key != "" {
		opts = append(opts, option.WithAPIKey(o.Key))
	}
	for k, v := range o.Headers {
		opts = append(opts, option.WithHeader(k, v))
	}
	a.chat = sdk.NewChatCompletionService(opts...)
	return a
}

// Stream implements model.Model.
func (a *adapter) Stream(ctx context.Context, r model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		names := model.WireNames(r.Tools, maxToolName, wire.Word)
		ctx, call := a.client.Begin(ctx, false)
		defer call.End()
		stream := a.chat.NewStreaming(ctx, param.Override[sdk.ChatCompletionNewParams](json.RawMessage(a.body(r, names))))
		defer stream.Close()
		reply := &reply{provider: a.provider, names: names, yield: yield, extra: wire.Object{}}
		for call.Try(stream.Next) {
			chunk := stream.Current()
			if err := reply.chunk(json.RawMessage(chunk.RawJSON())); err != nil {
				yield(model.Chunk{}, call.Bad("%v", err))
				return
			}
			if reply.stopped {
				return
			}
		}
		err := stream.Err()
		if se := (*ssestream.StreamError)(nil); errors.As(err, &se) && !call.Broken() {
			yield(model.Chunk{}, call.Event(se.Event.Data))
			return
		}
		if err != nil || reply.finish == "" || call.Broken() {
			yield(model.Chunk{}, call.Fail(err))
			return
		}
		yield(reply.done(), nil)
	}
}
