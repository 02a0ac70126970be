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

// asked is what a client returns with its user's answer: the call that was asked about, and what
// the answer is for. It is signed, and Binds depends on the bytes that were shown, so an answer
// cannot be moved to another call.
type asked struct {
	Call   string    `json:"call"`
	What   string    `json:"what"` // digest of its tool and arguments
	Binds  string    `json:"binds"`
	By     string    `json:"by"`
	Expiry time.Time `json:"expiry"`
}

// errForged is the error for a state that this server did not create.
var errForged = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the requestState is not one that this server gave to you; make the call again without it"}

// question means that the client has to be asked first.
type question struct{ result *mcp.CallToolResult }

func (*question) Error() string { return "a person has to answer first" }

// consented makes a call, and asks the client's user if policy requires it. A client that cannot
// ask gets an error that says what would have to be allowed. An answer counts once: if the call has
// changed since the question, the user is asked again.
func (s *Server) consented(ctx context.Context, c *client, req *mcp.CallToolRequest, call metier.Call, answered *asked) (metier.Observation, error) {
	for {
		o, err := c.session.Call(ctx, call)
		need, is := errors.AsType[*metier.NeedsApproval](err)
		switch {
		case !is:
			return o, err
		case answered != nil && answered.Binds == need.Question.Binds:
			first, err := s.answers.take(answered, s.opts.Now())
			if err != nil {
				return o, err
			}
			answered = nil
			if !first { // it is another call
				call.ID = s.opts.NewID()
				continue
			}
			allow, scope := answerOf(req.Params.InputResponses["approval"], need.Question)
			if err := c.session.Answer(ctx, call.ID, policy.Answer{Question: need.Question.ID, Allow: allow, Scope: scope, By: principal(req), Surface: "mcp"}); err != nil {
				return o, err
			}
			continue
		case !canAsk(req):
			return o, &question{refusal(need.Question)}
		}
		state := asked{Call: call.ID, What: what(call), Binds: need.Question.Binds, By: principal(req), Expiry: s.opts.Now().Add(s.opts.Answer)}
		return o, &question{&mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"approval": form(need.Question, call.Args)}, RequestState: s.sign(state)}}
	}
}

// mostAsked is how often the user is asked about one call of a client before 2026-07-28.
const mostAsked = 5

// asksAgain asks the user of a client before 2026-07-28 again if a call changed while the user was
// asked. The library asks once, and would send the second question as a result that these clients
// take for an empty one.
func asksAgain(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		r, err := next(ctx, method, req)
		for range mostAsked / 2 { // the library has asked once, and asks once more each time
			call, isCall := req.(*mcp.CallToolRequest)
			open, isOpen := r.(*mcp.CallToolResult)
			if err != nil || !isCall || !isOpen || multiRound(call.Session) {
				return r, err
			}
			form, isForm := open.InputRequests["approval"].(*mcp.ElicitParams)
			if !isForm {
				return r, nil
			}
			answer, err := call.Session.Elicit(ctx, form)
			if err != nil {
				return nil, err
			}
			params, again := *call.Params, *call
			params.RequestState, params.InputResponses = open.RequestState, mcp.InputResponseMap{"approval": answer}
			again.Params = &params
			if r, err = next(ctx, method, &again); err != nil {
				return r, err
			}
		}
		if open, is := r.(*mcp.CallToolResult); is && len(open.InputRequests) > 0 {
			return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{
				Text: fmt.Sprintf("approval_required: what the call would do changed each of the %d times that the user was asked", mostAsked)}}}, nil
		}
		return r, err
	}
}

// multiRound reports whether the client takes questions in results.
func multiRound(ss *mcp.ServerSession) bool {
	p := ss.InitializeParams()
	return p == nil || p.ProtocolVersion >= stateless
}

type askerKey struct{}

// overHTTP keeps the principal of a call over HTTP, for the questions about it.
func overHTTP(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if extra := req.GetExtra(); extra != nil && extra.Header != nil {
			ctx = context.WithValue(ctx, askerKey{}, principal(req))
		}
		return next(ctx, method, req)
	}
}

// asking limits the forms that clients before 2026-07-28 show. Until a form is answered, its call
// stays in memory, even if the client has closed its connection.
func (s *Server) asking(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		by, over := ctx.Value(askerKey{}).(string)
		if method != "elicitation/create" || !over {
			return next(ctx, method, req)
		}
		if !s.questions.take(by, 1) {
			return nil, busy("too many questions wait for an answer")
		}
		defer s.questions.give(by, 1)
		ctx, done := context.WithTimeout(ctx, s.opts.Answer)
		defer done()
		r, err := next(ctx, method, req)
		if errors.Is(err, context.DeadlineExceeded) {
			err = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: fmt.Sprintf("the question was not answered within %s; make the call again to ask again", s.opts.Answer)}
		}
		return r, err
	}
}

// what returns the digest of a call's tool and arguments, independent of their order. It prevents a
// call that uses the ID of another from getting that call's answer.
func what(call metier.Call) string {
	var args any
	if json.Unmarshal(call.Args, &args) != nil {
		args = string(call.Args)
	}
	b, _ := json.Marshal([]any{call.Tool, args}) // as it was read
	sum := sha256.Sum256(b)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// canAsk reports whether the client can show a form to its user.
func canAsk(req *mcp.CallToolRequest) bool {
	caps := req.ClientCapabilities()
	return caps != nil && caps.Elicitation != nil
}

// refusal returns the result for a client that cannot ask its user.
func refusal(q policy.Question) *mcp.CallToolResult {
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: unasked(q, "This client cannot ask its user.")}}}
}

// unasked describes a question that is not asked, for a reason.
func unasked(q policy.Question, why string) string {
	text, _ := policy.SplitQuestion(q.Text)
	return fmt.Sprintf("approval_required: %s %s The operator of the server can allow it with a policy file.", text, why)
}

// scopes returns the scopes that the client's user can choose. Only the operator can approve
// permanently.
func scopes(q policy.Question) []string {
	return slices.DeleteFunc(slices.Clone(q.Scopes), func(s string) bool { return s == policy.ScopeAlways })
}

// form returns a question as the client shows it.
func form(q policy.Question, args json.RawMessage) *mcp.ElicitParams {
	choices := []string{}
	for _, scope := range scopes(q) {
		choices = append(choices, "allow "+scope)
	}
	choices = append(choices, "refuse")
	return &mcp.ElicitParams{Mode: "form", Message: q.Plain(args), RequestedSchema: map[string]any{"type": "object", "required": []string{"answer"},
		"properties": map[string]any{"answer": map[string]any{"type": "string", "title": "Answer", "enum": choices}}}}
}

// answerOf reads the user's choice. Anything that is not a choice of the form means no.
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

// sign creates the state that a client returns.
func (s *Server) sign(a asked) string {
	b, _ := json.Marshal(a) // plain data
	return base64.RawURLEncoding.EncodeToString(slices.Concat(s.seal(b), b))
}

func (s *Server) seal(b []byte) []byte {
	h := hmac.New(sha256.New, s.opts.Key)
	h.Write(b)
	return h.Sum(nil)
}

// given reads the state of a request. It rejects a state that this server did not sign, or that
// belongs to another principal (SEP-2322, integrity of the state). A state that has expired or
// belongs to another call is ignored, and the question is asked again.
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
