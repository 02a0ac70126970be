package server_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"metier"
	"metier/mcp/server"
	"metier/policy"
)

// shifting is a tool of which each version needs its own approval.
type shifting struct {
	echo
	version *atomic.Int64
}

func (t shifting) Facts(context.Context, *metier.Session, json.RawMessage) (metier.Facts, error) {
	return metier.Facts{Request: policy.Request{Effect: policy.Read, Level: string(rune('a' + t.version.Load()))}}, nil
}

// changes serves a tool that changes while its user is asked, the given number of times. The user
// always agrees.
func changes(t *testing.T, times int64) (w *fixture, o *mcp.ClientOptions, asked *atomic.Int64) {
	t.Helper()
	version := &atomic.Int64{}
	asked = &atomic.Int64{}
	w = start(t, library, func(w *fixture) {
		w.tools = append(w.tools, shifting{version: version})
		w.grants = func(g *policy.Grants) {
			g.Rules = append(g.Rules, policy.Rule{Effect: policy.RuleAsk, Pattern: "echo"})
		}
		w.options = func(o *server.Options) { o.Tools = map[string]string{"echo": "Echo"} }
	})
	return w, &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		if asked.Add(1) <= times {
			version.Add(1)
		}
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": "allow once"}}, nil
	}}, asked
}

func TestACallThatChangesIsAskedAboutAgain(t *testing.T) {
	t.Parallel()
	for _, version := range []string{older, newest} {
		for _, times := range []int64{1, 2, 4} {
			w, o, asked := changes(t, times)
			o.MultiRoundTrip = &mcp.MultiRoundTripOptions{Disabled: version == older} // clients of then know no other questions
			r := w.stdioOf(version, o).call("echo", map[string]any{"text": "hello"})
			if diff := cmp.Diff("hello", said(r)); diff != "" {
				t.Errorf("%s, %d changes (-want +got):\n%s", version, times, diff)
			}
			if diff := cmp.Diff(times+1, asked.Load()); diff != "" {
				t.Errorf("%s: questions, with %d changes: %s", version, times, diff)
			}
		}
	}
}

func TestACallThatKeepsChangingIsRefused(t *testing.T) {
	t.Parallel()
	w, o, asked := changes(t, 100)
	o.MultiRoundTrip = &mcp.MultiRoundTripOptions{Disabled: true}
	r := w.over(w.http(server.Access{}), "", older, o).call("echo", map[string]any{"text": "hello"})
	if !r.IsError || !strings.HasPrefix(said(r), "approval_required: ") {
		t.Errorf("error %v, %q", r.IsError, said(r))
	}
	if diff := cmp.Diff(int64(5), asked.Load()); diff != "" {
		t.Errorf("questions: %s", diff)
	}
}
