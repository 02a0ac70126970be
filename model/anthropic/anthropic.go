// Package anthropic speaks the Anthropic Messages API as a model.Model, on the official SDK.
//
// Thinking and redacted thinking blocks travel as opaque parts and go back verbatim. The prompt is cached at the tools, at the
// system prompt and at the last two user turns, so a growing conversation is read from the cache up to its last turn. Structured
// output uses output_config.format. A call whose arguments are not a JSON object is sent back wrapped, since the API takes nothing
// else.
package anthropic

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"time"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"metier/model"
	"metier/model/internal/wire"
)

const (
	provider         = "anthropic"
	defaultMaxTokens = 16384 // the API demands a number; every current model takes this one
	maxToolName      = 64
)

// Options configure the adapter. The environment is not read.
type Options struct {
	BaseURL    string            // default https://api.anthropic.com
	Key        string            // API key
	Token      string            // instead of Key: a bearer token
	HTTPClient *http.Client      // default: one over http.DefaultTransport, without a timeout
	MaxTokens  int               // of a reply, unless the request says; default 16384
	Headers    map[string]string // more headers
	Params     map[string]any    // more fields of the request body: thinking, temperature, …
	Now        func() time.Time  // for Retry-After; default time.Now
}

type adapter struct {
	name     string
	max      int
	params   map[string]any
	client   *wire.Client
	messages sdk.MessageService
}

// New returns the model called name. It reads no environment and does no I/O; a wrong key shows at the first call.
func New(name string, o *Options) model.Model {
	if o == nil {
		o = &Options{}
	}
	a := &adapter{name: name, max: o.MaxTokens, params: o.Params}
	if a.max <= 0 {
		a.max = defaultMaxTokens
	}
	secrets := []string{o.Key, o.Token}
	for _, v := range o.Headers {
		secrets = append(secrets, v)
	}
	a.client = wire.New(wire.Config{Provider: provider, HTTPClient: o.HTTPClient, Secrets: secrets, Now: o.Now})
	opts := []option.RequestOption{option.WithEnvironmentProduction(), option.WithHTTPClient(a.client.HTTP), option.WithMaxRetries(0)}
	if o.BaseURL != "" {
		opts = append(opts, option.WithBaseURL(o.BaseURL))
	}
	if o.Key != "" {
		opts = append(opts, option.WithAPIKey(o.Key))
	}
	if o.Token != "" {
		opts = append(opts, option.WithAuthToken(o.Token))
	}
	for k, v := range o.Headers {
		opts = append(opts, option.WithHeader(k, v))
	}
	a.messages = sdk.NewMessageService(opts...)
	return a
}

// Stream implements model.Model.
func (a *adapter) Stream(ctx context.Context, r model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		names := model.WireNames(r.Tools, maxToolName, wire.Word)
		ctx, call := a.client.Begin(ctx, false)
		defer call.End()
		stream := a.messages.NewStreaming(ctx, param.Override[sdk.MessageNewParams](json.RawMessage(a.body(r, names))))
		defer stream.Close()
		reply := &reply{names: names, yield: yield}
		for call.Try(stream.Next) {
			event := stream.Current()
			done, err := reply.event(json.RawMessage(event.RawJSON()))
			switch {
			case err != nil:
				yield(model.Chunk{}, call.Bad("%v", err))
				return
			case reply.stopped:
				return
			case done:
				c := reply.done()
				yield(c, nil)
				return
			}
		}
		yield(model.Chunk{}, a.fail(call, stream.Err()))
	}
}

// fail reads the error event of a stream, which the SDK returns as its own type.
func (a *adapter) fail(call *wire.Call, err error) error {
	if e, ok := err.(*sdk.Error); ok && !call.Broken() {
		return call.Event([]byte(e.RawJSON()))
	}
	return call.Fail(err)
}
