package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/google/go-cmp/cmp"

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
	p, err := newProjector(t.Context(), h, w, false)
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

// watchedLog counts how much of the data of the entries that it returned is still in use.
type watchedLog struct {
	record.Log
	most *int
}

// Read implements record.Log.
func (w watchedLog) Read(ctx context.Context, from uint64) iter.Seq2[record.Entry, error] {
	return func(yield func(record.Entry, error) bool) {
		var given []weak.Pointer[byte]
		for en, err := range w.Log.Read(ctx, from) {
			en.Data = bytes.Clone(en.Data)
			given = append(given, weak.Make(&en.Data[0]))
			if !yield(en, err) {
				return
			}
			runtime.GC()
			live := 0
			for _, p := range given {
				if p.Value() != nil {
					live++
				}
			}
			*w.most = max(*w.most, live)
		}
	}
}

// A server closes a session that wrote tens of megabytes while it serves others.
func TestCheckpoint_KeepsFewEntriesInMemory(t *testing.T) {
	t.Parallel()
	f, err := Create(t.TempDir(), "r", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	put := func(text string) record.Ref {
		r, err := f.Blobs().Put(t.Context(), "application/json", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	facts := []event.Event{event.SessionOpened{Session: "r", Build: "b"}, event.SkillsDiscovered{Registry: put(`{"skillsRoot":"/skills","skills":[]}`)}}
	for i := range 40 {
		id := fmt.Sprint("c", i)
		facts = append(facts, event.PolicyDecided{Call: id, Tool: "delegate", Outcome: policy.Allow, Profile: "reviewer", Stage: "call"},
			event.ToolCallStarted{ID: id, Tool: "delegate", Effect: policy.Read}, event.ChildEnded{ID: id, Run: "r/" + id}, event.ToolResult{ID: id, Tool: "delegate"})
	}
	for i, e := range facts {
		en, err := event.New(e, fmt.Sprint("e", i), "x", time.Unix(1_800_000_000+int64(i), 0))
		if err != nil {
			t.Fatal(err)
		}
		head, err := f.Log().Head(t.Context())
		if err == nil {
			_, err = f.Log().Append(t.Context(), head, en)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	most := 0
	folded, err := foldState(t.Context(), "r", watchedLog{f.Log(), &most}, f.Blobs())
	if err != nil {
		t.Fatal(err)
	}
	if most > 8 {
		t.Errorf("%d of %d entries were in memory at a time", most, len(facts))
	}
	if folded.Calls != 40 || len(folded.Children) != 40 || folded.Children[39].Profile != "reviewer" || folded.SkillsRoot != "/skills" {
		t.Errorf("folded %+v", folded)
	}
	if err := f.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	p, err := f.projector(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	written, err := f.root.ReadFile(FileState)
	if err != nil {
		t.Fatal(err)
	}
	var got, want any
	whole, err := printed(p.state())
	if err == nil {
		err = errors.Join(json.Unmarshal(written, &got), json.Unmarshal(whole, &want))
	}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("the checkpoint differs from the whole state: %s %v", d, err)
	}
}
