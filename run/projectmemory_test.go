package run

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"metier/event"
	"metier/policy"
	"metier/record"
)

// watched counts how much of the content that it returned is still in use.
type watched struct {
	record.Blobs
	given []weak.Pointer[byte]
	most  int
}

// Open implements record.Blobs.
func (w *watched) Open(ctx context.Context, r record.Ref) ([]byte, error) {
	b, err := w.Blobs.Open(ctx, r)
	if err != nil || len(b) == 0 {
		return b, err
	}
	b = bytes.Clone(b)
	w.given = append(w.given, weak.Make(&b[0]))
	runtime.GC()
	live := 0
	for _, p := range w.given {
		if p.Value() != nil {
			live++
		}
	}
	w.most = max(w.most, live)
	return b, nil
}

// The artifacts of many calls repeat the same content. They are printed one at a time.
func TestProjector_PrintsOneArtifactAtATime(t *testing.T) {
	t.Parallel()
	const calls = 40
	store := record.NewMemory()
	put := func(media, text string) record.Ref {
		r, err := store.Put(t.Context(), media, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	args, content := put("application/json", `{"stdin":"`+strings.Repeat("x", 64<<10)+`"}`), put("application/json", `"`+strings.Repeat("y", 64<<10)+`"`)
	var facts []event.Event
	for i := range calls {
		id := fmt.Sprint("c", i)
		facts = append(facts, event.PolicyDecided{Call: id, Tool: "run_skill_script", Outcome: policy.Deny, Args: args}, event.ToolResult{ID: id, Tool: "run_skill_script", Code: "denied", Content: content})
	}
	log := record.NewMemory()
	for i, e := range facts {
		en, err := event.New(e, fmt.Sprint("e", i), "x", time.Unix(1_800_000_000, 0))
		if err != nil {
			t.Fatal(err)
		}
		head, err := log.Head(t.Context())
		if err == nil {
			_, err = log.Append(t.Context(), head, en)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	h, err := recall(t.Context(), "r", log)
	if err != nil {
		t.Fatal(err)
	}
	w := &watched{Blobs: store}
	p, err := newProjector(t.Context(), h, w)
	if err != nil {
		t.Fatal(err)
	}
	list, err := p.all()
	if err != nil {
		t.Fatal(err)
	}
	outputs := 0
	for _, a := range list {
		b, err := a.data()
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(a.name, outputsDir) && bytes.Contains(b, []byte("xxx")) && bytes.Contains(b, []byte("yyy")) {
			outputs++
		}
	}
	if outputs != calls || w.most > 8 {
		t.Errorf("%d tool outputs; the content of %d was in memory at a time", outputs, w.most)
	}
}
