package record

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// appendLine appends an entry in its stored form. The bytes are the same as those of encoding/json
// without HTML escaping (a test compares them). It is written by hand, because every tool call
// appends four entries and took a quarter of its time in the reflection of encoding/json. Data must
// be compact JSON.
func appendLine(b []byte, l line) ([]byte, error) {
	var err error
	text := func(key, v string) {
		b = append(b, key...)
		b = appendString(b, v)
	}
	b = append(b, `{"v":`...)
	b = strconv.AppendInt(b, int64(l.V), 10)
	b = append(b, `,"seq":`...)
	b = strconv.AppendUint(b, l.Seq, 10)
	text(`,"prev":`, l.Prev)
	text(`,"id":`, l.ID)
	b = append(b, `,"at":"`...)
	if b, err = l.At.AppendText(b); err != nil {
		return b, err
	}
	b = append(b, '"')
	if l.By != "" {
		text(`,"by":`, l.By)
	}
	text(`,"type":`, l.Type)
	if l.Must {
		b = append(b, `,"must":true`...)
	}
	if len(l.Data) > 0 {
		b = append(append(b, `,"data":`...), l.Data...)
	}
	for i, r := range l.Refs {
		if b = append(b, ','); i == 0 {
			b = append(b, `"refs":[`...)
		}
		text(`{"digest":`, r.Digest)
		b = append(b, `,"size":`...)
		b = strconv.AppendInt(b, r.Size, 10)
		if r.Media != "" {
			text(`,"media":`, r.Media)
		}
		b = append(b, '}')
	}
	if len(l.Refs) > 0 {
		b = append(b, ']')
	}
	if l.More != 0 {
		b = append(b, `,"more":`...)
		b = strconv.AppendInt(b, int64(l.More), 10)
	}
	return append(b, '}'), nil
}

// appendString appends v as a JSON string. Nearly all strings are plain ASCII. encoding/json
// handles the rest.
func appendString(b []byte, v string) []byte {
	for i := range len(v) {
		if c := v[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			var other bytes.Buffer
			e := json.NewEncoder(&other)
			e.SetEscapeHTML(false)
			_ = e.Encode(v) // a string can be encoded
			return append(b, bytes.TrimRight(other.Bytes(), "\n")...)
		}
	}
	b = append(b, '"')
	b = append(b, v...)
	return append(b, '"')
}
