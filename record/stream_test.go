package record_test

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"metier/record"
)

// However a text is split into pieces, the stream returns what Clean returns
// for the whole, and holds nothing back where no secret can have begun.
func TestStreamCleansAcrossPieces(t *testing.T) {
	t.Parallel()
	r := record.Redact(nil, record.Secret{Name: "A", Value: "hunter2hunter2h"}, record.Secret{Name: "B", Value: "hhhhhhhh"}, record.Secret{Name: "C", Value: "ter2-and-more"})
	piece := rapid.SampledFrom([]string{"hunter2hunter2h", "hhhhhhhh", "ter2-and-more", "hunter2", "h", "hunt", "er2-and-mor", "e", "x", "\n", "aHVudGVyMmh1bnRlcjJo"})
	rapid.Check(t, func(rt *rapid.T) {
		var whole []byte
		var got bytes.Buffer
		s := r.Stream(func(b []byte) { got.Write(b) })
		for _, p := range rapid.SliceOfN(piece, 0, 12).Draw(rt, "pieces") {
			whole = append(whole, p...)
			for len(p) > 0 {
				n := rapid.IntRange(1, len(p)).Draw(rt, "cut")
				if _, err := s.Write([]byte(p[:n])); err != nil {
					rt.Fatal(err)
				}
				p = p[n:]
			}
		}
		s.Close(false)
		want, _ := r.Clean(whole)
		if !bytes.Equal(want, got.Bytes()) {
			rt.Fatalf("%q: %q, want %q", whole, got.Bytes(), want)
		}
	})
	var got bytes.Buffer
	s := r.Stream(func(b []byte) { got.Write(b) })
	if _, err := s.Write([]byte("prompt> ")); err != nil || got.String() != "prompt> " {
		t.Errorf("%q, %v", got.String(), err)
	}
	if _, err := s.Write(bytes.Repeat([]byte("h"), 1<<16)); err != nil || got.Len() < 10 {
		t.Errorf("%d bytes, %v: all of it is kept back", got.Len(), err)
	}
	got.Reset()
	s = r.Stream(func(b []byte) { got.Write(b) })
	if _, err := s.Write([]byte("x hunter2")); err != nil {
		t.Fatal(err)
	}
	if s.Close(true); got.String() != "x " {
		t.Errorf("%q of a text that was cut in a secret", got.String())
	}
}
