package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"metier"
	"metier/agent/step"
	"metier/event"
	"metier/internal/digest"
	"metier/model"
	"metier/record"
)

// startModel asks the model for a reply: offer, render, claim, stream.
func (d *driver) startModel(ctx context.Context, a step.CallModel) (verdict, error) {
	if len(d.flight) > 0 {
		return blocked, nil
	}
	if a.Try == 0 {
		if err := d.Session.Refresh(ctx); err != nil {
			return started, err
		}
	}
	specs, fresh, err := d.offered(ctx)
	if err != nil {
		return started, err
	}
	if fresh {
		return changed, nil
	}
	req, sum, err := d.render(ctx)
	if err != nil {
		return started, err
	}
	if err := d.claimModel(ctx, a.ID, a.Try, sum); err != nil {
		return started, err
	}
	if o := d.st.Pending; o == nil || o.ID != a.ID || o.Status != step.Started {
		return changed, nil // somebody else has it
	}
	d.report(Progress{Kind: TurnStart, Turn: d.st.Turn})
	wait, at := d.wait[a.Key()].Sub(d.Now()), d.attempt(a.ID, a.Try)
	d.launch(ctx, a, func(ctx context.Context) ([]event.Event, error) {
		if err := d.pause(ctx, wait); err != nil {
			return lost(at), nil
		}
		done, err := d.stream(ctx, req, func(p Progress) { p.Turn = at.turn; d.report(p) })
		if err != nil {
			return d.modelFailed(ctx, at, err)
		}
		return d.replied(ctx, a.ID, specs, done)
	})
	return started, nil
}

// offered returns the tools the model is shown, and puts what it is shown into
// the log where that changed since the last turn (fresh): skills may have come,
// gone or changed.
func (d *driver) offered(ctx context.Context) (shown []metier.Spec, fresh bool, err error) {
	system, cat, err := d.Prompt.build(ctx, d.Session, d.Spec.Mode)
	if err != nil {
		return nil, false, err
	}
	e := event.ToolsOffered{Omitted: cat.Omitted}
	var specs []model.ToolSpec
	shown = d.Session.Offer(ctx)
	for _, sp := range shown {
		e.Names = append(e.Names, sp.Name)
		specs = append(specs, sp.ToolSpec)
	}
	if d.offer.is(d.st.Offered.Digest, system, specs) {
		return shown, false, nil
	}
	b, err := json.Marshal(specs)
	if err != nil {
		return nil, false, &metier.Error{Op: "run", Kind: metier.Internal, Code: "encode", Err: err}
	}
	e.Digest = digest.Bytes([]byte(digest.Bytes(b) + digest.Bytes([]byte(system))))
	if e.Digest == d.st.Offered.Digest || d.st.NewOffer != nil && d.st.NewOffer.Digest == e.Digest {
		return shown, false, nil
	}
	if e.Tools, err = d.Blobs.Put(ctx, "application/json", b); err != nil {
		return nil, false, fault(err)
	}
	if e.System, err = d.Blobs.Put(ctx, "text/plain; charset=utf-8", []byte(system)); err != nil {
		return nil, false, fault(err)
	}
	listed := 0 // the session knows the entries, but without a text nobody is told of them
	if cat.Text != "" {
		listed = len(cat.Entries)
		if e.Catalog, err = d.Blobs.Put(ctx, "text/plain; charset=utf-8", []byte(cat.Text)); err != nil {
			return nil, false, fault(err)
		}
	}
	d.effect = nil
	if e.Tools.Digest == digest.Bytes(b) && e.System.Digest == digest.Bytes([]byte(system)) { // the record has them as they are, without secrets
		d.offer = offer{of: e.Digest, system: system, tools: specs}
	}
	return shown, true, d.append(ctx, e, event.CatalogSent{Text: e.Catalog, Format: string(cat.Format), Place: string(cat.Place), Rung: cat.Rung, Tokens: cat.Tokens,
		Budget: cat.Budget, Listed: listed, Omitted: cat.Omitted, Cut: cat.Cut, Dropped: cat.Dropped, Search: cat.Search})
}

// claimModel says in the log that the request with these parts is about to be
// sent. Each part goes by its digest, so that a long conversation is not
// encoded anew each turn.
func (d *driver) claimModel(ctx context.Context, id string, try int, sum string) error {
	return d.append(ctx, event.ModelStarted{ID: id, Try: try, Request: sum})
}

func (d *driver) pause(ctx context.Context, wait time.Duration) error {
	if wait <= 0 {
		return nil
	}
	select {
	case <-d.After(wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// attempt is what a goroutine needs to know of the op it works on; the state
// itself belongs to the driver's own goroutine.
type attempt struct {
	id       string
	try      int
	turn     int
	failures int // in a row, before this one
}

func (d *driver) attempt(id string, try int) attempt {
	return attempt{id, try, d.st.Turn, d.st.Failures}
}

// stream runs one model call, passes its chunks to show, and returns the done
// chunk.
func (d *driver) stream(ctx context.Context, req model.Request, show func(Progress)) (model.Chunk, error) {
	var done model.Chunk
	for c, err := range d.Model.Stream(ctx, req) {
		if err != nil {
			return done, err
		}
		switch c.Kind {
		case model.ChunkText:
			show(Progress{Kind: TextDelta, Text: c.Text})
		case model.ChunkReasoning:
			show(Progress{Kind: ReasoningDelta, Text: c.Text})
		case model.ChunkCall:
			show(Progress{Kind: ToolCallStart, Tool: c.Tool})
		case model.ChunkDone:
			done = c
		}
	}
	if done.Message == nil {
		return done, &model.Error{Code: model.CodeCut, Message: "the stream ended before the reply did"}
	}
	return done, nil
}

// replied puts a reply into the blobs: opaque parts verbatim, our ids beside
// the provider's.
func (d *driver) replied(ctx context.Context, id string, shown []metier.Spec, done model.Chunk) ([]event.Event, error) {
	ctx = context.WithoutCancel(ctx)
	msg := *done.Message
	e := event.ModelReplied{ID: id, Usage: d.usage(done.Usage), Stop: string(done.Stop), Model: modelName(done.Model)}
	n := 0
	for i := range msg.Parts {
		p := &msg.Parts[i]
		if p.Kind != model.PartCall {
			continue
		}
		p.Call = fmt.Sprintf("%s.c%d", id[:len(id)-len(".m")], n)
		n++
		args := []byte(p.Args)
		if p.Args == nil {
			args = []byte(p.Text)
		}
		ref, err := d.Blobs.Put(ctx, "application/json", args)
		if err != nil {
			return nil, fault(err)
		}
		name := toolName(shown, p.Tool)
		e.Calls = append(e.Calls, event.CallRef{ID: p.Call, Tool: name, Args: ref, Bad: p.Args == nil, Child: p.Args != nil && d.Spawns != nil && d.Spawns(name, p.Args)})
	}
	ref, err := d.putJSON(ctx, msg)
	e.Message = ref
	return []event.Event{e}, err
}

const (
	maxModelName = 256     // bytes of a model's name in an entry
	maxCount     = 1 << 40 // tokens, and millionths of a dollar, of one reply
)

// modelName is the name a provider gives its model, cut where it is longer
// than any name: it stands in an entry, and entries are small.
func modelName(s string) string {
	if len(s) <= maxModelName {
		return s
	}
	return strings.ToValidUTF8(s[:maxModelName], "") + "…"
}

// usage takes over a reply's counts, with its cost where a price is known.
// They are a provider's word: a count below zero would widen the limits of the
// run, one near the largest number would wrap their sum around.
func (d *driver) usage(u model.Usage) event.Usage {
	count := func(n int64) int64 { return min(max(n, 0), maxCount) }
	e := event.Usage{Input: count(u.Input), Output: count(u.Output), CacheRead: count(u.CacheRead), CacheWrite: count(u.CacheWrite)}
	cost := u.CostUSD
	if cost != nil && !(*cost >= 0 && *cost*1e6 <= maxCount) {
		cost = nil // no price
	}
	if cost == nil && d.Spec.Price != nil {
		c := model.Cost(u, *d.Spec.Price)
		cost = &c
	}
	if cost != nil {
		micro := int64(*cost*1e6 + 0.5)
		e.CostMicroUSD = &micro
	}
	return e
}

// lost records that a claimed model call was abandoned.
func lost(at attempt) []event.Event { return []event.Event{event.ToolCallLost{ID: at.id, Try: at.try}} }

// modelFailed records a failed model call and whether it is tried again.
func (d *driver) modelFailed(ctx context.Context, at attempt, err error) ([]event.Event, error) {
	if ctx.Err() != nil {
		return lost(at), nil
	}
	e := event.ModelFailed{ID: at.id, Try: at.try, Code: string(model.CodeUnreachable)}
	if m, ok := errors.AsType[*model.Error](err); ok {
		e.Code, e.Status = string(m.Code), m.Status
		if at.failures < m.Retries(d.Spec.MaxRetries) {
			wait := model.Backoff(at.failures, m.RetryAfter, d.Random)
			e.Retry, e.WaitMS = true, wait.Milliseconds()
			d.report(Progress{Kind: ModelRetry, Turn: at.turn, Code: e.Code, Wait: wait, Text: m.Error()})
		}
	}
	ref, perr := d.Blobs.Put(ctx, "text/plain; charset=utf-8", []byte(err.Error()))
	if perr != nil {
		return nil, fault(perr)
	}
	e.Detail = ref
	return []event.Event{e}, nil
}

// startCompact asks the model for a summary of older messages.
func (d *driver) startCompact(ctx context.Context, a step.Compact) error {
	var old conversation
	if err := old.add(ctx, d, d.st.Messages[:a.Upto]); err != nil {
		return err
	}
	req := model.Request{System: compactText, Messages: append(old.sent, model.UserText("Write the summary now."))}
	lines := append(old.lines, "compact")
	if err := d.claimModel(ctx, a.ID, a.Try, digest.Bytes([]byte(strings.Join(lines, "\n")))); err != nil {
		return err
	}
	d.report(Progress{Kind: Compacting, Turn: d.st.Turn})
	wait, at := d.wait[a.Key()].Sub(d.Now()), d.attempt(a.ID, a.Try)
	d.launch(ctx, a, func(ctx context.Context) ([]event.Event, error) {
		if err := d.pause(ctx, wait); err != nil {
			return lost(at), nil
		}
		done, err := d.stream(ctx, req, func(Progress) {})
		if err != nil {
			return d.modelFailed(ctx, at, err)
		}
		ctx = context.WithoutCancel(ctx)
		text := "Summary of the conversation so far:\n\n" + done.Message.Text()
		ref, err := d.putJSON(ctx, model.UserText(text))
		return []event.Event{event.ContextCompacted{ID: a.ID, Upto: a.Upto, Summary: ref, Usage: d.usage(done.Usage)}}, err
	})
	return nil
}

// answer is the text of the final reply.
func (d *driver) answer(ctx context.Context, r record.Ref) string {
	var m model.Message
	if r.Digest == "" || d.loadJSON(ctx, r, &m) != nil {
		return ""
	}
	return m.Text()
}
