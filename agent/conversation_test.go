package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"metier"
	"metier/agent"
	"metier/event"
	"metier/model"
	"metier/policy"
)

// asked is a model that keeps the messages of each request.
type asked struct {
	requests [][]model.Message
	reply    func(n int) (model.Chunk, error)
}

func (a *asked) Stream(_ context.Context, r model.Request) iter.Seq2[model.Chunk, error] {
	a.requests = append(a.requests, r.Messages)
	return func(yield func(model.Chunk, error) bool) { yield(a.reply(len(a.requests))) }
}

func saying(text string) model.Chunk {
	return model.Chunk{Kind: model.ChunkDone, Stop: model.StopEnd, Message: &model.Message{Role: model.RoleAssistant, Parts: []model.Part{model.Text(text)}}}
}

// Each turn appends to the messages of the previous one. They are built once, and the list is
// copied only when it must grow.
func TestConversation_GrowsByWhatIsNew(t *testing.T) {
	t.Parallel()
	const turns = 400
	w := newFixture(t, "default", nil)
	m := &asked{reply: func(n int) (model.Chunk, error) {
		if n == turns {
			return saying("done"), nil
		}
		c := saying("")
		c.Stop, c.Message.Parts = model.StopTools, []model.Part{{Kind: model.PartCall, Tool: "none", WireID: fmt.Sprint("w", n), Args: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))}}
		return c, nil
	}}
	cfg := w.prepare("go")
	cfg.Model, cfg.Spec.MaxTurns = m, turns
	if out, err := agent.Run(t.Context(), cfg); err != nil || out.Status != "done" || out.Turns != turns {
		t.Fatalf("outcome %+v, %v", out, err)
	}
	lists, messages := map[*model.Message]bool{}, map[*model.Part]bool{}
	for i, r := range m.requests {
		if len(r) != 2*i+1 {
			t.Fatalf("request %d has %d messages", i, len(r))
		}
		lists[&r[0]] = true
		for _, msg := range r {
			messages[&msg.Parts[0]] = true
		}
	}
	if last := m.requests[turns-1]; len(messages) != len(last) {
		t.Errorf("%d messages were made for a conversation of %d", len(messages), len(last))
	}
	if len(lists) > 20 {
		t.Errorf("the list of messages was made %d times in %d turns", len(lists), turns)
	}
}

// Merging a message with the previous one does not change a request already sent.
func TestConversation_LeavesSentRequestsAlone(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "default", nil)
	m := &asked{}
	cfg := w.prepare("first")
	m.reply = func(n int) (model.Chunk, error) {
		if n > 1 {
			return saying("done"), nil
		}
		ctx := t.Context()
		if _, err := w.sess.Send(ctx, metier.Input{ID: "more", Parts: []model.Part{model.Text("second")}, Role: policy.DirectCommand}); err != nil {
			return model.Chunk{}, err
		}
		head, err := w.log.Head(ctx)
		if err != nil {
			return model.Chunk{}, err
		}
		stop, err := event.New(event.RunStopped{Scope: "turn"}, "stop", "test", time.Unix(0, 0))
		if err == nil {
			_, err = w.log.Append(ctx, head, stop)
		}
		return model.Chunk{}, errors.Join(err, &model.Error{Code: model.CodeCut})
	}
	cfg.Model = m
	if out, err := agent.Run(t.Context(), cfg); err != nil || out.Status != "done" {
		t.Fatalf("outcome %+v, %v", out, err)
	}
	if len(m.requests) != 2 {
		t.Fatalf("%d requests", len(m.requests))
	}
	for i, want := range []int{1, 2} {
		if r := m.requests[i]; len(r) != 1 || len(r[0].Parts) != want {
			t.Errorf("request %d is %+v, want one message of %d parts", i, r, want)
		}
	}
}
