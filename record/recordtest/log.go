// Package recordtest has the tests that every implementation of the interfaces of package record
// must pass, including decorators.
package recordtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"metier/record"
)

// Entry returns an entry that uses every field, for tests.
func Entry(id string) record.Entry {
	return record.Entry{
		V: 1, ID: id, Type: "test.happened", Must: true, By: "user:7",
		At:   time.Date(2026, 3, 4, 5, 6, 7, 89, time.FixedZone("", 3600)),
		Data: json.RawMessage(`{ "op": "t1.c1", "n": [1, 2.50, "<&>\u00e9"] }`),
		Refs: []record.Ref{{Digest: "sha256:" + strings.Repeat("ab", 32), Size: 3, Media: "text/plain"}},
	}
}

// Log runs the suite against logs made by open, each new and empty.
func Log(t *testing.T, open func(t *testing.T) record.Log) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, record.Log)
	}{
		{"an empty log has the zero head and yields nothing", logEmpty},
		{"an entry reads back as it was appended", logRoundTrip},
		{"entries come in order from any place", logOrder},
		{"each entry names the hash of the one before", logChain},
		{"only the head may be appended after", logMoved},
		{"a batch is added whole or not at all", logBatch},
		{"an ID that is there is left out", logIdempotent},
		{"a missing time is filled in", logTime},
		{"a bad entry is refused and the log stays usable", logBad},
		{"of sixteen racing writers each wins once a round", logRace},
		{"a reader sees the log as it was when it started", logSnapshot},
		{"reading can stop early", logStop},
		{"a cancelled context stops every call", logCancel},
		{"appending does not touch what it was given", logUntouched},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, open(t))
		})
	}
}

// Reopen tests that a log outlives its process. open returns a new log and a function that opens it
// again.
func Reopen(t *testing.T, open func(t *testing.T) (l record.Log, again func(t *testing.T) record.Log)) {
	t.Run("a log opened again goes on where it was", func(t *testing.T) {
		t.Parallel()
		l, again := open(t)
		fill(t, l, 3)
		if s, ok := l.(record.Syncer); ok {
			check(t, s.Sync(t.Context()))
		}
		before := All(t, l, 1)
		head := Head(t, l)
		l = again(t)
		if diff := cmp.Diff(before, All(t, l, 1)); diff != "" {
			t.Errorf("entries changed (-before +after):\n%s", diff)
		}
		if got := Head(t, l); got != head {
			t.Fatalf("head is %v, was %v", got, head)
		}
		if got, err := l.Append(t.Context(), head, Entry("e2")); err != nil || got != head {
			t.Errorf("an ID from before was appended again: %v, %v", got, err)
		}
		if got, err := l.Append(t.Context(), head, Entry("e4")); err != nil || got.Seq != 4 {
			t.Errorf("append after opening again: %v, %v", got, err)
		}
	})
}

// All returns the entries from seq on.
func All(t *testing.T, l record.Log, from uint64) []record.Entry {
	t.Helper()
	var out []record.Entry
	for e, err := range l.Read(t.Context(), from) {
		check(t, err)
		out = append(out, e)
	}
	return out
}

// Head returns the head of l.
func Head(t *testing.T, l record.Log) record.Head {
	t.Helper()
	h, err := l.Head(t.Context())
	check(t, err)
	return h
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fill appends n entries e1, e2, … one by one.
func fill(t *testing.T, l record.Log, n int) record.Head {
	t.Helper()
	h := Head(t, l)
	for i := range n {
		var err error
		h, err = l.Append(t.Context(), h, Entry(fmt.Sprintf("e%d", i+1)))
		check(t, err)
	}
	return h
}

func logEmpty(t *testing.T, l record.Log) {
	if h := Head(t, l); h != (record.Head{}) {
		t.Errorf("head is %v", h)
	}
	for _, from := range []uint64{0, 1, 2} {
		if got := All(t, l, from); len(got) != 0 {
			t.Errorf("from %d: %v", from, got)
		}
	}
	if h, err := l.Append(t.Context(), record.Head{}); err != nil || h != (record.Head{}) {
		t.Errorf("an append of nothing: %v, %v", h, err)
	}
}

func logRoundTrip(t *testing.T, l record.Log) {
	e := Entry("a")
	e.Seq, e.Prev = 77, "made up"
	_, err := l.Append(t.Context(), record.Head{}, e, record.Entry{ID: "b", Type: "test.bare", At: e.At})
	check(t, err)
	got := All(t, l, 1)
	want := Entry("a")
	want.Seq = 1
	want.At = want.At.UTC()
	want.Data = json.RawMessage(`{"op":"t1.c1","n":[1,2.50,"<&>\u00e9"]}`)
	bare := record.Entry{Seq: 2, Prev: got[1].Prev, ID: "b", Type: "test.bare", At: want.At}
	if diff := cmp.Diff([]record.Entry{want, bare}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func logOrder(t *testing.T, l record.Log) {
	fill(t, l, 5)
	for from := range uint64(8) {
		var want, got []string
		for i := max(from, 1); i <= 5; i++ {
			want = append(want, fmt.Sprintf("%d e%d", i, i))
		}
		for _, e := range All(t, l, from) {
			got = append(got, fmt.Sprintf("%d %s", e.Seq, e.ID))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("from %d (-want +got):\n%s", from, diff)
		}
	}
}

func logChain(t *testing.T, l record.Log) {
	var heads []record.Head
	h := record.Head{}
	for i := range 4 {
		heads = append(heads, h)
		var err error
		h, err = l.Append(t.Context(), h, Entry(fmt.Sprint(i)))
		check(t, err)
		if got := Head(t, l); got != h {
			t.Errorf("Append returned %v, Head %v", h, got)
		}
	}
	for i, e := range All(t, l, 1) {
		if e.Prev != heads[i].Hash {
			t.Errorf("entry %d names %q, the head before was %q", e.Seq, e.Prev, heads[i].Hash)
		}
	}
	lines, ok := l.(record.Lines)
	if !ok {
		return
	}
	r, err := record.Verify(t.Context(), lines, nil, nil)
	check(t, err)
	if !r.OK() || r.Head != h {
		t.Errorf("verify: %+v, want head %v", r, h)
	}
}

func logMoved(t *testing.T, l record.Log) {
	h := fill(t, l, 2)
	for name, after := range map[string]record.Head{
		"the empty log": {}, "an older entry": {Seq: 1, Hash: All(t, l, 2)[0].Prev},
		"another hash": {Seq: 2, Hash: "sha256:" + strings.Repeat("0", 64)}, "the future": {Seq: 3, Hash: h.Hash},
	} {
		if _, err := l.Append(t.Context(), after, Entry("x")); !errors.Is(err, record.ErrMoved) {
			t.Errorf("after %s: %v, want ErrMoved", name, err)
		}
		// A claim by another session must not look like one's own.
		if _, err := l.Append(t.Context(), after, Entry("e1")); !errors.Is(err, record.ErrMoved) {
			t.Errorf("after %s, known ID: %v, want ErrMoved", name, err)
		}
	}
	if got := Head(t, l); got != h {
		t.Errorf("head moved to %v", got)
	}
}

func logBatch(t *testing.T, l record.Log) {
	h, err := l.Append(t.Context(), record.Head{}, Entry("a"), Entry("b"), Entry("c"))
	check(t, err)
	if h.Seq != 3 {
		t.Fatalf("head %v", h)
	}
	bad := Entry("f")
	bad.Data = json.RawMessage(`{"cut":`)
	if _, err := l.Append(t.Context(), h, Entry("d"), Entry("e"), bad); record.CodeOf(err) != record.CodeBadEntry {
		t.Errorf("got %v", err)
	}
	if _, err := l.Append(t.Context(), record.Head{}, Entry("d"), Entry("e")); !errors.Is(err, record.ErrMoved) {
		t.Errorf("got %v", err)
	}
	if got := len(All(t, l, 1)); got != 3 || Head(t, l) != h {
		t.Errorf("%d entries, head %v", got, Head(t, l))
	}
}

func logIdempotent(t *testing.T, l record.Log) {
	h := fill(t, l, 2)
	if got, err := l.Append(t.Context(), h, Entry("e1"), Entry("e2")); err != nil || got != h {
		t.Errorf("known IDs: %v, %v", got, err)
	}
	got, err := l.Append(t.Context(), h, Entry("e2"), Entry("new"), Entry("new"))
	if err != nil || got.Seq != 3 {
		t.Errorf("one new ID among known ones: %v, %v", got, err)
	}
	if e := All(t, l, 3); len(e) != 1 || e[0].ID != "new" {
		t.Errorf("tail: %v", e)
	}
}

func logTime(t *testing.T, l record.Log) {
	e := Entry("a")
	e.At = time.Time{}
	_, err := l.Append(t.Context(), record.Head{}, e)
	check(t, err)
	if at := All(t, l, 1)[0].At; at.IsZero() || at.Location() != time.UTC {
		t.Errorf("time is %v", at)
	}
}

func logBad(t *testing.T, l record.Log) {
	huge := Entry("huge")
	huge.Data = json.RawMessage(`"` + strings.Repeat("x", record.MaxLine) + `"`)
	noID, noType, noJSON := Entry(""), Entry("x"), Entry("x")
	noType.Type, noJSON.Data = "", json.RawMessage("{}{}")
	for want, list := range map[record.Code][]record.Entry{
		record.CodeTooLarge: {huge}, record.CodeBadEntry: {noID, noType, noJSON},
	} {
		for _, e := range list {
			if _, err := l.Append(t.Context(), record.Head{}, e); record.CodeOf(err) != want {
				t.Errorf("got %v, want %s", err, want)
			}
		}
	}
	if h := fill(t, l, 1); h.Seq != 1 {
		t.Errorf("head %v", h)
	}
}

func logRace(t *testing.T, l record.Log) {
	const writers, rounds = 16, 8
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for r := range rounds {
				for {
					h, err := l.Head(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					_, err = l.Append(t.Context(), h, Entry(fmt.Sprintf("w%d.r%d.1", w, r)), Entry(fmt.Sprintf("w%d.r%d.2", w, r)))
					if err == nil {
						break
					}
					if !errors.Is(err, record.ErrMoved) {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	all := All(t, l, 1)
	if len(all) != writers*rounds*2 {
		t.Fatalf("%d entries, want %d", len(all), writers*rounds*2)
	}
	next := map[string]int{}
	for i := 0; i < len(all); i += 2 {
		w, _, _ := strings.Cut(all[i].ID, ".")
		if want := fmt.Sprintf("%s.r%d", w, next[w]); all[i].ID != want+".1" || all[i+1].ID != want+".2" {
			t.Fatalf("entries %d and %d are %s and %s, want %s.1 and .2 side by side", i+1, i+2, all[i].ID, all[i+1].ID, want)
		}
		next[w]++
	}
}

func logSnapshot(t *testing.T, l record.Log) {
	h := fill(t, l, 2)
	n := 0
	for _, err := range l.Read(t.Context(), 1) {
		check(t, err)
		n++
		h, err = l.Append(t.Context(), h, Entry(fmt.Sprintf("late%d", n)))
		check(t, err)
	}
	if n != 2 || len(All(t, l, 1)) != 4 {
		t.Errorf("the reader saw %d, the log holds %d", n, len(All(t, l, 1)))
	}
}

func logStop(t *testing.T, l record.Log) {
	fill(t, l, 3)
	for e, err := range l.Read(t.Context(), 2) {
		check(t, err)
		if e.Seq != 2 {
			t.Errorf("got %d", e.Seq)
		}
		break
	}
}

func logCancel(t *testing.T, l record.Log) {
	h := fill(t, l, 3)
	ctx, cancel := context.WithCancel(t.Context())
	for e, err := range l.Read(ctx, 1) {
		if e.Seq == 1 {
			cancel()
		} else if !errors.Is(err, context.Canceled) {
			t.Errorf("read went on: %v, %v", e.Seq, err)
		}
	}
	cancel()
	if _, err := l.Append(ctx, h, Entry("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("append: %v", err)
	}
	if _, err := l.Head(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("head: %v", err)
	}
	for _, from := range []uint64{1, 4} {
		got := error(nil)
		for _, err := range l.Read(ctx, from) {
			got = err
		}
		if !errors.Is(got, context.Canceled) {
			t.Errorf("read from %d: %v", from, got)
		}
	}
	if got := Head(t, l); got != h {
		t.Errorf("head moved to %v", got)
	}
}

func logUntouched(t *testing.T, l record.Log) {
	given := []record.Entry{Entry("a"), Entry("b")}
	_, err := l.Append(t.Context(), record.Head{}, given...)
	check(t, err)
	if diff := cmp.Diff([]record.Entry{Entry("a"), Entry("b")}, given); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
	given[0].Data[2] = 'X'
	if e := All(t, l, 1)[0]; strings.Contains(string(e.Data), "X") {
		t.Error("the log keeps the caller's bytes")
	}
}
