package recordtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"metier/internal/digest"
	"metier/record"
)

// contents are blobs of every kind: empty, text, binary, around the size limit for inline blobs,
// large, and with many characters that JSON escapes.
func contents() [][]byte {
	out := [][]byte{{}, []byte("x"), []byte("two\nlines\r\n"), {0, 255, 254, '\n', 0}, []byte("<&>\u2028é\ufffd\x7f\x00"),
		bytes.Repeat([]byte{1}, record.MaxInline), bytes.Repeat([]byte{0xff}, record.MaxInline), bytes.Repeat([]byte("abcdefg\n"), 1<<17)}
	for _, n := range []int{-1, 0, 1} {
		out = append(out, []byte(strings.Repeat("é", record.MaxInline/2+n)))
	}
	return out
}

// Blobs runs the suite against blob stores made by open, each new and empty.
func Blobs(t *testing.T, open func(t *testing.T) record.Blobs) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, record.Blobs)
	}{
		{"bytes come back as they were put", blobsRoundTrip},
		{"the same bytes have one name", blobsIdempotent},
		{"what was never put is erased", blobsMissing},
		{"a ref that lies is altered", blobsLie},
		{"erasing takes one and leaves the others", blobsErase},
		{"what comes back is the reader's own", blobsOwn},
		{"sixteen writers do not disturb each other", blobsRace},
		{"a cancelled context stops every call", blobsCancel},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, open(t))
		})
	}
}

func blobsRoundTrip(t *testing.T, b record.Blobs) {
	for _, want := range contents() {
		r, err := b.Put(t.Context(), "text/x", want)
		check(t, err)
		if r != (record.Ref{Digest: digest.Bytes(want), Size: int64(len(want)), Media: "text/x"}) {
			t.Errorf("ref %+v of %.20q", r, want)
		}
		got, err := b.Open(t.Context(), r)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes %.20q: got %d bytes %.20q, %v", len(want), want, len(got), got, err)
		}
	}
	if s, ok := b.(record.Syncer); ok {
		check(t, s.Sync(t.Context()))
	}
}

func blobsIdempotent(t *testing.T, b record.Blobs) {
	for _, data := range contents() {
		first, err := b.Put(t.Context(), "a/a", data)
		check(t, err)
		again, err := b.Put(t.Context(), "b/b", data)
		check(t, err)
		if first.Digest != again.Digest || first.Size != again.Size || again.Media != "b/b" {
			t.Errorf("%+v, then %+v", first, again)
		}
		for _, r := range []record.Ref{first, again} {
			if _, err := b.Open(t.Context(), r); err != nil {
				t.Error(err)
			}
		}
	}
}

func blobsMissing(t *testing.T, b record.Blobs) {
	r := record.Ref{Digest: digest.Bytes([]byte("never")), Size: 5}
	if _, err := b.Open(t.Context(), r); !errors.Is(err, record.ErrErased) || record.CodeOf(err) != record.CodeErased {
		t.Errorf("got %v", err)
	}
}

func blobsLie(t *testing.T, b record.Blobs) {
	for _, data := range contents() {
		r, err := b.Put(t.Context(), "", data)
		check(t, err)
		r.Size++
		if _, err := b.Open(t.Context(), r); !errors.Is(err, record.ErrAltered) || record.CodeOf(err) != record.CodeBlobAltered {
			t.Errorf("got %v", err)
		}
	}
	for _, d := range []string{"", "sha256:", "../../../etc/passwd", "sha256:../../../../../etc/passwd", "sha256:" + strings.Repeat("G", 64)} {
		if got, err := b.Open(t.Context(), record.Ref{Digest: d}); err == nil || got != nil {
			t.Errorf("%q: %q, %v", d, got, err)
		}
	}
}

func blobsErase(t *testing.T, b record.Blobs) {
	e, ok := b.(record.Eraser)
	if !ok {
		return // erasing is optional
	}
	var refs []record.Ref
	for _, data := range contents() {
		r, err := b.Put(t.Context(), "", data)
		check(t, err)
		refs = append(refs, r)
	}
	for i, r := range refs {
		check(t, e.Erase(t.Context(), r))
		check(t, e.Erase(t.Context(), r))
		for j, other := range refs {
			_, err := b.Open(t.Context(), other)
			if gone := errors.Is(err, record.ErrErased); gone != (j <= i) || err != nil && !gone {
				t.Fatalf("after erasing %d blob %d: %v", i, j, err)
			}
		}
	}
	r, err := b.Put(t.Context(), "", contents()[2])
	check(t, err)
	_, err = b.Open(t.Context(), r)
	check(t, err)
}

func blobsOwn(t *testing.T, b record.Blobs) {
	for _, data := range [][]byte{[]byte("small"), bytes.Repeat([]byte("large"), 2000)} {
		given := bytes.Clone(data)
		r, err := b.Put(t.Context(), "", given)
		check(t, err)
		given[0] = 'X'
		got, err := b.Open(t.Context(), r)
		check(t, err)
		got[1] = 'X'
		if got, err = b.Open(t.Context(), r); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%.10q, %v", got, err)
		}
	}
}

func blobsRace(t *testing.T, b record.Blobs) {
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			for i := range 16 {
				// Half of the content is the same for all writers.
				data := []byte(strings.Repeat(fmt.Sprintf("%d %d,", i, w*(i%2)), 1+1000*(i%3)))
				r, err := b.Put(t.Context(), "", data)
				if err != nil {
					t.Error(err)
					return
				}
				if got, err := b.Open(t.Context(), r); err != nil || !bytes.Equal(got, data) {
					t.Errorf("%.10q, %v", got, err)
				}
			}
		})
	}
	wg.Wait()
}

func blobsCancel(t *testing.T, b record.Blobs) {
	r, err := b.Put(t.Context(), "", []byte("x"))
	check(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Put(ctx, "", []byte("y")); !errors.Is(err, context.Canceled) {
		t.Errorf("put: %v", err)
	}
	if _, err := b.Open(ctx, r); !errors.Is(err, context.Canceled) {
		t.Errorf("open: %v", err)
	}
}
