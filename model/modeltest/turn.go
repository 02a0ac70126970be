package modeltest

import (
	"encoding/json"
	"net/http"

	"metier/model"
)

// Key is the only API key the stand-ins accept. A wrong one is echoed in the refusal, as some providers do.
const Key = "test-key-0123456789abcdef"

// Turn is one reply of a stand-in.
type Turn struct {
	Thinking   string         // reasoning, signed; it must come back verbatim with the calls of this turn
	Redacted   string         // anthropic: an encrypted block beside it, under the same rule
	Text       string         // streamed in words
	Calls      []Call         // all in this one reply
	Interleave bool           // argument pieces of the calls alternate (anthropic, openai)
	Extra      map[string]any // fields no client knows: on each call block (anthropic), call (openai: extra_content) or part (gemini)
	Stop       string         // the provider's own word; "" is the one that fits
	Usage      model.Usage    // in our convention; zero is counted from the texts
	Fault      *Fault
}

// Call is a tool call. Tool is the name on the wire; Args is sent as it is, valid JSON or not (gemini: must be an object).
type Call struct{ Tool, Args string }

// Fault spoils a reply. Status answers an error instead of a stream; the others spoil the stream. Set one.
type Fault struct {
	Status     int               // with Kind and Message
	Kind       string            // the provider's word for the error; "" is the usual one of the status
	Message    string            //
	Header     map[string]string // Retry-After, Location, …
	Event      string            // half way, an error event of this kind, such as "overloaded_error"
	Cut        int               // the connection breaks after so many bytes of the stream; -1: half way
	Short      bool              // the stream ends cleanly without its last third
	Garbage    bool              // half way, an event that is not JSON
	HTML       bool              // 200 and a web page
	Hang       bool              // half way, nothing more until the client leaves; see Server.Left
	BrokenJSON bool              // the status' body is not JSON either
}

// Request is what a stand-in received and accepted, or refused.
type Request struct {
	Header    http.Header
	Path      string
	Body      json.RawMessage
	Model     string
	System    string
	Tools     []Tool
	Messages  []Message
	MaxTokens int
	Output    json.RawMessage // the schema asked for
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

// SentCall is a call as it came back.
type SentCall struct{ ID, Tool, Args string }

// SentResult is a tool result. Error is never set by protocols that cannot say so.
type SentResult struct {
	ID, Tool, Text string
	Error          bool
}

// LastResults are the texts of the results in the last message that holds some, for replies that depend on them.
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

// count is the turn's usage, or a plausible one.
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
