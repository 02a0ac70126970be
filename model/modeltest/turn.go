package modeltest

import (
	"encoding/json"
	"net/http"

	"metier/model"
)

// Key is the only API key that the servers accept. The error for a wrong key repeats it, as with
// some providers.
const Key = "test-key-0123456789abcdef"

// Turn is one reply of a server.
type Turn struct {
	Thinking   string         // signed reasoning; it must be sent back verbatim with the calls of this turn
	Redacted   string         // anthropic: an additional encrypted block, under the same rule
	Text       string         // streamed word by word
	Calls      []Call         // all in this one reply
	Interleave bool           // alternate the argument pieces of the calls (anthropic, openai)
	Extra      map[string]any // fields unknown to clients: on each call block (anthropic), call (openai: extra_content), or part (gemini)
	Stop       string         // the provider's own word; "" is the one that fits
	Usage      model.Usage    // in our convention; zero: computed from the texts
	Fault      *Fault
}

// Call is a tool call. Tool is the name on the wire. Args is sent as is, valid JSON or not (gemini:
// must be an object).
type Call struct{ Tool, Args string }

// Fault corrupts a reply. Status sends an error response instead of a stream; the others corrupt
// the stream. Set only one.
type Fault struct {
	Status     int               // with Kind and Message
	Kind       string            // the provider's word for the error; "" is the usual one of the status
	Message    string            //
	Header     map[string]string // Retry-After, Location, …
	Event      string            // half way, an error event of this kind, such as "overloaded_error"
	Cut        int               // the connection breaks after this many bytes of the stream; -1: halfway
	Short      bool              // the stream ends cleanly without its last third
	Garbage    bool              // halfway, an event that is not JSON
	HTML       bool              // 200 and a web page
	Hang       bool              // halfway, nothing more until the client disconnects; see Server.Left
	BrokenJSON bool              // the body sent with Status is not JSON either
}

// Request is a request that a server received, whether accepted or rejected.
type Request struct {
	Header    http.Header
	Path      string
	Body      json.RawMessage
	Model     string
	System    string
	Tools     []Tool
	Messages  []Message
	MaxTokens int
	Output    json.RawMessage // the requested schema
	Refused   string          // why, or ""
}

// Tool is a declared tool, by its name on the wire.
type Tool struct {
	Name, Description string
	Schema            json.RawMessage
}

// Message is one message in the provider's order. Role is user, assistant or tool, whatever the provider calls them.
type Message struct {
	Role    string
	Text    string
	Calls   []SentCall
	Results []SentResult
	Raw     json.RawMessage
	guards  []string // canonical JSON of the protected blocks
}

// SentCall is a call as sent back by the client.
type SentCall struct{ ID, Tool, Args string }

// SentResult is a tool result. Error is never set in protocols without an error flag.
type SentResult struct {
	ID, Tool, Text string
	Error          bool
}

// LastResults returns the texts of the results in the last message that has any, for replies that
// depend on them.
func (r *Request) LastResults() []string {
	var out []string
	for i := len(r.Messages) - 1; i >= 0; i-- {
		m := r.Messages[i]
		if len(m.Results) == 0 {
			if len(out) > 0 {
				break
			}
			continue
		}
		var texts []string
		for _, res := range m.Results {
			texts = append(texts, res.Text)
		}
		out = append(texts, out...)
	}
	return out
}

// count returns the turn's usage, or a plausible one.
func (t Turn) count(body []byte) model.Usage {
	if t.Usage != (model.Usage{}) {
		return t.Usage
	}
	n := len(t.Text) + len(t.Thinking) + len(t.Redacted)
	for _, c := range t.Calls {
		n += len(c.Tool) + len(c.Args)
	}
	return model.Usage{Input: int64(len(body)/4 + 1), Output: int64(n/4 + 1)}
}
