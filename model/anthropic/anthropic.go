// Package anthropic implements model.Model with the Anthropic Messages API.
//
// Thinking and redacted thinking blocks are kept as opaque parts and sent back verbatim. The prompt
// is cached at the tools, at the system prompt, and at the last two user turns, so that a growing
// conversation is read from the cache up to its last turn. Structured output uses
// output_config.format. A call whose arguments are not a JSON object is wrapped when sent back,
// because the API accepts only objects.
package anthropic

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"time"

	"metier/model"
	"metier/model/internal/wire"
)

const (
	provider         = "anthropic"
	defaultBaseURL   = "https://api.anthropic.com"
	version          = "2023-06-01" // of the protocol, the only one there is
	defaultMaxTokens = 16384        // the API demands a number; every current model takes this one
	maxToolName      = 64
)

// Options configure the adapter. Environment variables are not read.
type Options struct {
	BaseURL    string           // default https://api.anthropic.com
	Key        string           // API key
	HTTPClient *http.Client     // default: one over http.DefaultTransport, without a timeout
	Now        func() time.Time // for Retry-After; default time.Now
}

type adapter struct {
	name   string
	client *wire.Client
}

// New returns the model with the given name. It reads no environment variables and does no I/O. An
// invalid key fails the first call.
func New(name string, o *Options) model.Model {
	if o == nil {
		o = &Options{}
	}
	header := map[string]string{"Anthropic-Version": version}
	if o.Key != "" {
		header["X-Api-Key"] = o.Key
	}
	return &adapter{name: name, client: wire.New(wire.Config{Provider: provider, Base: cmp.Or(o.BaseURL, defaultBaseURL), Path: "v1/messages", HTTPClient: o.HTTPClient,
		Header: header, Secrets: []string{o.Key}, Now: o.Now})}
}

// Stream implements model.Model.
func (a *adapter) Stream(ctx context.Context, r model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		names := model.WireNames(r.Tools, maxToolName, wire.Word)
		call := a.client.Post(ctx, a.body(r, names))
		defer call.End()
		reply := &reply{names: names, yield: yield}
		for event := range call.Events() {
			done, err := reply.event(event)
			switch {
			case err != nil:
				yield(model.Chunk{}, call.Bad("%v", err))
				return
			case reply.stopped:
				return
			case done:
				yield(reply.done(), nil)
				return
			}
		}
		yield(model.Chunk{}, call.Cut())
	}
}
