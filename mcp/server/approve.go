package server

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"metier"
	"metier/policy"
)

// answerTime is how long the answer to a question counts.
const answerTime = 10 * time.Minute

// asked is what a client gives back with its person's answer: which call was
// asked about, and what the answer is for. It is signed, and Binds changes with
// the bytes that were shown, so an answer cannot be moved to another call.
type asked struct {
	Call   string    `json:"call"`
	What   string    `json:"what"` // digest of its tool and arguments
	Binds  string    `json:"binds"`
	By     string    `json:"by"`
	Expiry time.Time `json:"expiry"`
}

// errForged is the answer to a state that we did not give.
var errForged = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the requestState is not one that this server gave to you; make the call again without it"}

// question says that the client has to be asked first.
type question struct{ result *mcp.CallToolResult }

func (*question) Error() string { return "a person has to answer first" }

// consented makes a call, and asks the client's person where policy wants that.
// A client that cannot ask is told what would have to be allowed.
func (s *Server) consented(ctx context.Context, c *client, req *mcp.CallToolRequest, call metier.Call, answered *asked) (metier.Observation, error) {
	o, err := c.session.Call(ctx, call)
	need, is := errors.AsType[*metier.NeedsApproval](err)
	switch {
	case !is:
		return o, err
	case answered != nil && answered.Binds == need.Question.Binds:
		allow, scope := answerOf(req.Params.InputResponses["approval"], need.Question)
		if err := c.session.Answer(ctx, call.ID, policy.Answer{Question: need.Question.ID, Allow: allow, Scope: scope, By: principal(req)}); err != nil {
			return o, err
		}
		return c.session.Call(ctx, call)
	case !canAsk(req):
		return o, &question{refusal(need.Question)}
	}
	state := asked{Call: call.ID, What: what(call), Binds: need.Question.Binds, By: principal(req), Expiry: s.opts.Now().Add(answerTime)}
	return o, &question{&mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"approval": form(need.Question, call.Args)}, RequestState: s.sign(state)}}
}

// what is the digest of a call's tool and arguments, in whatever order these
// stand. A call under the ID of another one would get that one's answer.
func what(call metier.Call) string {
	var args any
	if json.Unmarshal(call.Args, &args) != nil {
		args = string(call.Args)
	}
	b, _ := json.Marshal([]any{call.Tool, args}) // as it was read
	sum := sha256.Sum256(b)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// canAsk reports whether the client can put a form before a person.
func canAsk(req *mcp.CallToolRequest) bool {
	caps := req.ClientCapabilities()
	return caps != nil && caps.Elicitation != nil
}

// refusal is what a client is told that has nobody to ask.
func refusal(q policy.Question) *mcp.CallToolResult {
	text, _ := policy.SplitQuestion(q.Text)
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{
		Text: fmt.Sprintf("approval_required: %s This client cannot ask its user. The operator of the server can allow it with a policy file.", text)}}}
}

// scopes are those that the person at a client can choose. What holds always is
// the operator's to approve.
func scopes(q policy.Question) []string {
	return slices.DeleteFunc(slices.Clone(q.Scopes), func(s string) bool { return s == policy.ScopeAlways })
}

// form is a question as the client shows it.
func form(q policy.Question, args json.RawMessage) *mcp.ElicitParams {
	choices := []string{}
	for _, scope := range scopes(q) {
		choices = append(choices, "allow "+scope)
	}
	choices = append(choices, "refuse")
	return &mcp.ElicitParams{Mode: "form", Message: q.Plain(args), RequestedSchema: map[string]any{"type": "object", "required": []string{"answer"},
		"properties": map[string]any{"answer": map[string]any{"type": "string", "title": "Answer", "enum": choices}}}}
}

// answerOf reads what the person chose. Whatever is no choice of the form is a
// no.
func answerOf(r mcp.InputResponse, q policy.Question) (allow bool, scope string) {
	e, is := r.(*mcp.ElicitResult)
	if !is || e == nil || e.Action != "accept" {
		return false, ""
	}
	chosen, _ := e.Content["answer"].(string)
	for _, scope := range scopes(q) {
		if chosen == "allow "+scope {
			return true, scope
		}
	}
	return false, ""
}

// sign makes the state that a client gives back.
func (s *Server) sign(a asked) string {
	b, _ := json.Marshal(a) // plain data
	return base64.RawURLEncoding.EncodeToString(slices.Concat(s.seal(b), b))
}

func (s *Server) seal(b []byte) []byte {
	h := hmac.New(sha256.New, s.opts.Key)
	h.Write(b)
	return h.Sum(nil)
}

// given reads the state of a request. One that we did not sign, or that is
// another principal's, is refused (SEP-2322, integrity of the state); one that
// is too old, or of another call, counts as none, and the question is put again.
func (s *Server) given(req *mcp.CallToolRequest, call metier.Call) (*asked, error) {
	if req.Params.RequestState == "" {
		return nil, nil
	}
	var a asked
	b, err := base64.RawURLEncoding.DecodeString(req.Params.RequestState)
	if err != nil || len(b) <= sha256.Size || !hmac.Equal(b[:sha256.Size], s.seal(b[sha256.Size:])) || json.Unmarshal(b[sha256.Size:], &a) != nil || a.By != principal(req) {
		return nil, errForged
	}
	if a.What != what(call) || !s.opts.Now().Before(a.Expiry) {
		return nil, nil
	}
	return &a, nil
}
