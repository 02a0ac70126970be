// Package gemini implements model.Model with the Gemini API.
//
// Parts with a thoughtSignature or unknown fields are sent back verbatim. Call ids are optional in
// this API and may be empty. Caching is implicit, and tokens read from the cache are counted.
// Models before Gemini 3 reject tools combined with a response schema. For these, the schema is put
// into the system instruction, and the caller has to validate the output.
package gemini

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"

	"metier/model"
	"metier/model/internal/wire"
)

const (
	provider       = "gemini"
	defaultBaseURL = "https://generativelanguage.googleapis.com/"
	maxToolName    = 64
)

// Options configure the adapter. Environment variables are not read.
type Options struct {
	BaseURL    string           // without the version; default https://generativelanguage.googleapis.com/
	Key        string           // API key
	HTTPClient *http.Client     // default: one over http.DefaultTransport, without a timeout
	Now        func() time.Time // for Retry-After; default time.Now
}

type adapter struct {
	name   string
	client *wire.Client
}

// New returns the model with the given name. It does no I/O. An invalid key or base URL fails the
// first call.
func New(name string, o *Options) model.Model {
	if o == nil {
		o = &Options{}
	}
	header := map[string]string{}
	if o.Key != "" {
		header["X-Goog-Api-Key"] = o.Key
	}
	return &adapter{name: name, client: wire.New(wire.Config{Provider: provider, Base: cmp.Or(o.BaseURL, defaultBaseURL), Path: path(name), Query: "alt=sse", HTTPClient: o.HTTPClient,
		Header: header, Secrets: []string{o.Key}, Now: o.Now})}
}

// path returns the URL path of a model. The name of a tuned model includes its collection.
func path(name string) string {
	if !strings.HasPrefix(name, "models/") && !strings.HasPrefix(name, "tunedModels/") {
		name = "models/" + name
	}
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = strings.ReplaceAll(url.PathEscape(p), "..", "%2E%2E")
	}
	return "v1beta/" + strings.Join(parts, "/") + ":streamGenerateContent"
}

// Stream implements model.Model.
func (a *adapter) Stream(ctx context.Context, r model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		names := model.WireNames(r.Tools, maxToolName, allowed)
		call := a.client.Post(ctx, wire.Raw(a.body(r, names)))
		defer call.End()
		reply := &reply{names: names, yield: yield}
		for event := range call.Events() {
			if err := reply.event(event); err != nil {
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
		switch {
		case reply.blocked != "":
			yield(model.Chunk{}, call.Fail(model.CodeRefused, "the prompt was blocked: "+reply.blocked))
		case reply.finish == "":
			yield(model.Chunk{}, call.Cut())
		case reply.finish == "MALFORMED_FUNCTION_CALL":
			yield(model.Chunk{}, call.Bad("the model wrote a call that the provider could not read"))
		default:
			yield(reply.done(), nil)
		}
	}
}

// allowed reports whether the API accepts a byte in a function name. It excludes the colon.
func allowed(at int, c byte) bool {
	if at == 0 {
		return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
	}
	return c == '.' || wire.Word(at, c)
}
