package filetool

import (
	"context"
	"encoding/json"
	"errors"

	"metier"
)

// Envelope is supplied by a host for tools that change its documents: it checks
// the host's own preconditions, calls act at most once, and keeps its own
// books. A result made without act stands for the call.
type Envelope func(ctx context.Context, c metier.Call, act func(context.Context) (metier.Result, error)) (metier.Result, error)

// Enveloped returns a tool that runs only inside the host's envelope. Without
// one every call is refused with code envelope_required before any effect; an
// act outside the envelope's own call, or a second one, is refused with code
// envelope_closed.
func Enveloped(t metier.Tool, e Envelope) metier.Tool { return enveloped{t, e} }

type enveloped struct {
	metier.Tool
	envelope Envelope
}

func (t enveloped) Facts(ctx context.Context, s *metier.Session, args json.RawMessage) (metier.Facts, error) {
	if t.envelope == nil {
		spec, _ := t.Spec(ctx, s)
		return metier.Facts{}, &metier.Error{Op: spec.Name, Kind: metier.Denied, Code: "envelope_required",
			Hint: "the host has to supply the envelope", Err: errors.New("the tool runs only inside the host's envelope")}
	}
	return t.Tool.Facts(ctx, s, args)
}

func (t enveloped) Invoke(ctx context.Context, x *metier.ToolContext) (metier.Result, error) {
	turn := make(chan struct{}, 1)
	turn <- struct{}{}
	defer func() {
		select {
		case <-turn:
		default:
		}
	}()
	return t.envelope(ctx, x.Call(), func(ctx context.Context) (metier.Result, error) {
		select {
		case <-turn:
			return t.Tool.Invoke(ctx, x)
		default:
			return metier.Failure(&metier.Error{Op: "envelope", Kind: metier.Denied, Code: "envelope_closed",
				Err: errors.New("the envelope is closed; it may act once")}), nil
		}
	})
}
