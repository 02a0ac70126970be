package openai

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"metier/model"
	"metier/model/internal/wire"
)

func TestFields_GrowByPieces(t *testing.T) {
	t.Parallel()
	for want, pieces := range map[string][]string{
		`{"reasoning":"abc"}`: {`{"reasoning":"a"}`, `{"reasoning":""}`, `{"reasoning":"bc"}`},
		`{"x":"b"}`:           {`{"x":"a"}`, `{"x":"b"}`, `{"x":null}`},
		`{"text":"a"}`:        {`{"text":1}`, `{"text":"a"}`},
		`{"text":1}`:          {`{"text":"a"}`, `{"text":1}`},
		`{"x":[1,2,3]}`:       {`{"x":[1]}`, `{"x":[]}`, `{"x":[2,3]}`},
		`{"x":[1]}`:           {`{"x":{}}`, `{"x":[1]}`},
		`{"x":{"y":2}}`:       {`{"x":[1]}`, `{"x":{"y":2}}`},
		`{"d":[{"index":0,"text":"ab","type":"t"},{"index":1,"type":"t","text":"c"}]}`: {`{"d":[{"index":0,"type":"t","text":"a"}]}`, `{"d":[{"index":0,"type":"t","text":"b"},{"index":1,"type":"t","text":"c"}]}`},
		`{"d":[{"index":0,"text":"a","type":"t"},{"index":0,"type":"u","text":"b"}]}`:  {`{"d":[{"index":0,"type":"t","text":"a"}]}`, `{"d":[{"index":0,"type":"u","text":"b"}]}`},
		`{"d":[{"index":0,"signature":"s","text":"a"}]}`:                               {`{"d":[{"index":0,"text":"a"}]}`, `{"d":[{"index":0,"signature":"s"}]}`},
		`{"d":[{"index":0,"data":"x"},{"index":0,"data":"y"}]}`:                        {`{"d":[{"index":0,"data":"x"}]}`, `{"d":[{"index":0,"data":"y"}]}`},
		`{"d":[7,{"index":0,"text":"a"}]}`:                                             {`{"d":[7]}`, `{"d":[{"index":0,"text":"a"}]}`},
		`{"d":[{"index":0,"l":[{"index":0,"text":"ab"}],"text":"xy"}]}`:                {`{"d":[{"index":0,"text":"x","l":[{"index":0,"text":"a"}]}]}`, `{"d":[{"index":0,"text":"y","l":[{"index":0,"text":"b"}]}]}`},
	} {
		f := fields{}
		for _, p := range pieces {
			o, ok := wire.Parse([]byte(p))
			if !ok {
				t.Fatal(p)
			}
			for k, v := range o {
				f.grow(k, v)
			}
		}
		if got := string(wire.Raw(f.object())); got != want {
			t.Errorf("%v: %s, want %s", pieces, got, want)
		}
	}
}

// The cost of a long reply is linear. Before, each piece was appended to a copy
// of all others: 25,000 of them took ten seconds.
func TestReply_CostsWhatItHolds(t *testing.T) {
	for name, delta := range map[string]string{
		"a text":         `{"reasoning_content":"abcd"}`,
		"a list":         `{"x":[1]}`,
		"texts in lists": `{"reasoning_details":[{"index":0,"type":"t","text":"abcd"}]}`,
		"of a call":      `{"tool_calls":[{"index":0,"id":"a","x":[1],"function":{"name":"f","y":[1]}}]}`,
	} {
		r := &reply{names: model.WireNames(nil, 64, wire.Word), yield: func(model.Chunk, error) bool { return true }, extra: fields{}}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 20_000 {
			if err := r.chunk(json.RawMessage(fmt.Sprintf(`{"choices":[{"index":0,"delta":%s}]}`, delta))); err != nil {
				t.Fatal(err)
			}
		}
		runtime.ReadMemStats(&after)
		if n := (after.TotalAlloc - before.TotalAlloc) >> 20; n > 200 {
			t.Errorf("%s: %d MiB", name, n)
		}
		if text := r.thought.String(); name == "a text" && text != strings.Repeat("abcd", 20_000) {
			t.Errorf("%d bytes", len(text))
		}
	}
}
