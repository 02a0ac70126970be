// Package gemini speaks the Gemini API as a model.Model, on the official SDK.
//
// The SDK's types drop fields they do not know and turn numbers into floats, so this adapter takes bodies and events as raw JSON from
// it: parts with a thoughtSignature or unknown fields go back verbatim. Call ids are optional in this API and may be empty. Caching
// is implicit; what was read from the cache is counted. Models before Gemini 3 refuse tools together with a response schema: the
// schema then goes to the system instruction, and the caller's validation has the last word.
package gemini

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"time"

	"google.golang.org/genai"

	"metier/model"
	"metier/model/internal/wire"
)

const (
	provider       = "gemini"
	defaultBaseURL = "https://generativelanguage.googleapis.com/"
	maxToolName    = 64
)

// Options configure the adapter. The environment is not read.
type Options struct {
	BaseURL    string            // without the version; default https://generativelanguage.googleapis.com/
	Key        string            // API key
	HTTPClient *http.Client      // default: one over http.DefaultTransport, without a timeout
	MaxTokens  int               // of a reply, unless the request says; default: the model's
	Headers    map[string]string // more headers
	Params     map[string]any    // more fields of the request body, such as {"generationConfig": {"temperature": 0}}
	Now        func() time.Time  // for Retry-After; default time.Now
}

type adapter struct {
	name   string
	max    int
	params map[string]any
	client *wire.Client
	sdk    *genai.Client
	broken error
}

// New returns the model called name. It does no I/O; a wrong key or base URL shows at the first call.
func New(name string, o *Options) model.Model {
	if o == nil {
		o = &Options{}
	}
	a := &adapter{name: name, max: o.MaxTokens, params: o.Params}
	key, drop := o.Key, []string(nil)
	if key == "" { // else the SDK takes one from the environment and sends it to whatever the base URL is
		key, drop = "none", []string{"X-Goog-Api-Key"}
	}
	secrets := []string{o.Key}
	headers := http.Header{}
	for k, v := range o.Headers {
		headers.Set(k, v)
		secrets = append(secrets, v)
	}
	a.client = wire.New(wire.Config{Provider: provider, HTTPClient: o.HTTPClient, Secrets: secrets, Drop: drop, Now: o.Now})
	base := o.BaseURL
	if base == "" {
		base = defaultBaseURL
	}
	a.sdk, a.broken = genai.NewClient(context.Background(), &genai.ClientConfig{
		APIKey: key, Backend: genai.BackendGeminiAPI, HTTPClient: a.client.HTTP,
		HTTPOptions: genai.HTTPOptions{BaseURL: base, Headers: headers},
	})
	return a
}

// Stream implements model.Model.
func (a *adapter) Stream(ctx context.Context, r model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		names := model.WireNames(r.Tools, maxToolName, allowed)
		ctx, call := a.client.Begin(ctx, true)
		defer call.End()
		if a.broken != nil {
			yield(model.Chunk{}, &model.Error{Code: model.CodeBadRequest, Provider: provider, Message: "the client could not be made: check the base URL"})
			return
		}
		reply := &reply{names: names, yield: yield}
		var failed error
		next, stop := iter.Pull2(a.sdk.Models.GenerateContentStream(ctx, a.name, nil, a.config(r, names)))
		defer call.Try(func() bool { stop(); return false })
		var err error
		step := func() (ok bool) { _, err, ok = next(); return ok }
		for call.Try(step) {
			if failed = a.take(reply, call, false); failed != nil || reply.stopped {
				break
			}
			if err != nil {
				failed = call.Fail(err)
				break
			}
		}
		if failed == nil && !reply.stopped {
			failed = a.take(reply, call, true)
		}
		switch {
		case reply.stopped:
		case failed != nil:
			yield(model.Chunk{}, failed)
		case reply.blocked != "":
			yield(model.Chunk{}, &model.Error{Code: model.CodeRefused, Provider: provider, Message: "the prompt was blocked: " + reply.blocked})
		case reply.finish == "" || call.Broken():
			yield(model.Chunk{}, call.Fail(nil))
		case reply.finish == "MALFORMED_FUNCTION_CALL":
			yield(model.Chunk{}, call.Bad("the model wrote a call that the provider could not read"))
		default:
			yield(reply.done(), nil)
		}
	}
}

// take reads the events that arrived.
func (a *adapter) take(reply *reply, call *wire.Call, last bool) error {
	for _, event := range call.Events(last && !call.Broken()) {
		o, ok := wire.Parse(event)
		switch {
		case !ok:
			return call.Fail(errNotJSON)
		case len(o["error"]) > 0 && string(o["error"]) != "null":
			return call.Event(event)
		}
		if err := reply.event(event); err != nil {
			return call.Bad("%v", err)
		}
		if reply.stopped {
			return nil
		}
	}
	return nil
}

// config replaces the SDK's body by ours and switches its own resending off.
func (a *adapter) config(r model.Request, names *model.NameMap) *genai.GenerateContentConfig {
	body := a.body(r, names)
	once := false
	return &genai.GenerateContentConfig{
		AutomaticContinuation: &once,
		HTTPOptions: &genai.HTTPOptions{
			Headers:               http.Header{},
			ExtrasRequestProvider: func(map[string]any) map[string]any { return body },
		},
	}
}

// allowed is what the API takes in a function name, less the colon.
func allowed(at int, c byte) bool {
	if at == 0 {
		return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
	}
	return c == '.' || wire.Word(at, c)
}

var errNotJSON = &json.SyntaxError{}
