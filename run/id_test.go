package run_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"metier/run"
)

func TestNewID(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 27, 23, 59, 58, 999, time.FixedZone("", 3600))
	id := run.NewID(now)
	ok(t, run.CheckID(id))
	if d := cmp.Diff("20261127-225958-", id[:min(len(id), 16)]); d != "" {
		t.Errorf("start of the ID (-want +got):\n%s", d)
	}
	if run.NewID(now) == id {
		t.Errorf("two runs have the ID %s", id)
	}
	for other, want := range map[string]bool{id: true, id + "-build": false, "x" + id: false, strings.ToUpper(id) + "\n": false, id[:15]: false, "": false} {
		if got := run.GeneratedID(other); got != want {
			t.Errorf("GeneratedID(%q) = %t, want %t", other, got, want)
		}
	}
	for other, want := range map[string]time.Time{id: now.Truncate(time.Second), id + "-build": now.Truncate(time.Second), "20261399-000000": {}, "mine": {}, "": {}} {
		if got := run.IDTime(other); !got.Equal(want) {
			t.Errorf("IDTime(%q) = %v, want %v", other, got, want)
		}
	}
}
