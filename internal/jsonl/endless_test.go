package jsonl_test

import (
	"testing"

	"metier/internal/jsonl"
)

// endless is a file that seems to have no end, like one that consists of holes.
type endless struct{}

func (endless) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

func TestALineWithoutEndEndsTheScan(t *testing.T) {
	t.Parallel()
	n := 0
	for l, err := range jsonl.Scan(endless{}, 0, 10) {
		if n++; err != nil || !l.Long || l.Torn || l.Bytes != nil {
			t.Errorf("%+v, %v", l, err)
		}
	}
	if n != 1 {
		t.Errorf("%d lines", n)
	}
}
