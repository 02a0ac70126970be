package record

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// FuzzLine compares a stored line with the output of encoding/json.
func FuzzLine(f *testing.F) {
	f.Add("id", "someone", "call.started", `{"a":[1,"<b>"]}`, "sha256:00", "text/plain", int64(7), uint64(3), int64(1_700_000_000_123_456_789), true)
	f.Add("quote\" \\ \u2028 \x00 \xff é <&>", "", "t", ``, "", "", int64(-1), uint64(0), int64(0), false)
	f.Fuzz(func(t *testing.T, id, by, kind, data, digest, media string, n int64, seq uint64, at int64, must bool) {
		l := line{Entry: Entry{V: int(n), Seq: seq, Prev: digest, ID: id, At: time.Unix(0, at).UTC(), By: by, Type: kind, Must: must}, More: int(seq % 3)}
		if json.Valid([]byte(data)) {
			var b bytes.Buffer
			if err := json.Compact(&b, []byte(data)); err != nil {
				t.Fatal(err)
			}
			l.Data = b.Bytes()
		}
		for range seq % 4 {
			l.Refs = append(l.Refs, Ref{Digest: digest, Size: n, Media: media})
		}
		var want bytes.Buffer
		e := json.NewEncoder(&want)
		e.SetEscapeHTML(false)
		werr := e.Encode(l)
		got, err := appendLine(nil, l)
		if (err != nil) != (werr != nil) {
			t.Fatalf("error %v, want %v", err, werr)
		}
		if err == nil && string(got)+"\n" != want.String() {
			t.Fatalf("line\n%s\nwant\n%s", got, want.String())
		}
		sameEntry(t, got)
	})
}

// FuzzOwnLine compares what is read of a line with what encoding/json reads.
func FuzzOwnLine(f *testing.F) {
	f.Add([]byte(`{"v":1,"seq":2,"prev":"sha256:00","id":"a","at":"2026-01-02T03:04:05.6Z","by":"b","type":"t","must":true,"data":{"a":["}",{"b":"\\""}]},"refs":[{"digest":"d","size":7,"media":"m"},{"digest":"e","size":0}],"more":3}`))
	f.Add([]byte(`{"v":1,"seq":1,"prev":"","id":"a","at":"2026-01-02T03:04:05Z","type":"t"}`))
	f.Fuzz(sameEntry)
}

func TestParseOwn_ReadsWhatIsWritten(t *testing.T) {
	t.Parallel()
	m := NewMemory()
	e := Entry{ID: "a", By: "b", Type: "t", Must: true, Data: json.RawMessage(`{"a":["}",{"b":"\""}]}`), Refs: []Ref{{Digest: "d", Size: 7, Media: "m"}, {Digest: "e"}}}
	if _, err := m.Append(t.Context(), Head{}, e, Entry{ID: "c", Type: "t"}); err != nil {
		t.Fatal(err)
	}
	for b := range m.Lines(t.Context()) {
		if _, ok := parseOwn(b); !ok {
			t.Errorf("not read: %s", b)
		}
		sameEntry(t, b)
	}
}

// sameEntry fails if a line that parseOwn accepts is another one to encoding/json.
func sameEntry(t *testing.T, b []byte) {
	got, ok := parseOwn(b)
	if !ok {
		return
	}
	want, err := parseAny(b)
	if err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", b, diff)
	}
}
