package record_test

import (
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"metier/record"
)

// An append announces its head while it holds the log, and a note reads the log.
func TestNote_WhileAppending(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	heads, err := record.OpenHeads(filepath.Join(dir, "heads.jsonl"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer heads.Close()
	l := openLog(t, filepath.Join(dir, "events.jsonl"), &record.Options{Announce: func(h record.Head) error { return heads.Announce("run", h) }})
	const entries = 2_000
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for seen := uint64(0); seen < entries; {
				noted, err := heads.Note(t.Context(), "run", l)
				if err != nil {
					t.Errorf("Note: %v", err)
					return
				}
				seen = noted.Seq
			}
		})
	}
	var head record.Head
	for i := range entries {
		if head, err = l.Append(t.Context(), head, record.Entry{ID: strconv.Itoa(i), Type: "test"}); err != nil {
			t.Fatalf("Append: %v", err)
		}
	}
	wg.Wait()
}
