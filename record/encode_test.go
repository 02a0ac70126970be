package record

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"
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
	})
}
