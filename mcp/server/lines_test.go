package server

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLines_PassesOnMessagesAlone(t *testing.T) {
	t.Parallel()
	const call = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	const note = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	const openID = "a batch that is not answered yet has a request with the same id"
	answer := func(code, message, id string) string {
		return `{"error":{"code":` + code + `,"message":"` + message + `"},"id":` + id + `,"jsonrpc":"2.0"}` + "\n"
	}
	notJSON := answer("-32700", "the line is not JSON; send each message on a line of its own", "null")
	for name, c := range map[string]struct{ in, passed, answered string }{
		"messages":          {call + "\n" + call + "\r\n", call + "\n" + call + "\r\n", ""},
		"no line end":       {call, call, ""},
		"batch":             {"[" + call + "]\n", call + "\n", ""},
		"batch with others": {"[" + call + "," + note + "]\n", call + "\n" + note + "\n", ""},
		"ID of a batch":     {"[" + call + "]\n[" + call + "]\n" + call + "\n", call + "\n", answer("-32600", openID, "null") + answer("-32600", openID, "1")},
		"empty lines":       {"\n \n" + call + "\n", call + "\n", ""},
		"a large ID":        {`{"jsonrpc":"1.0","id":9007199254740993,"method":"ping"}` + "\n", "", answer("-32600", `the line is not a JSON-RPC message: invalid message version tag \"1.0\"; expected \"2.0\"`, "9007199254740993")},
		"text":              {"hello\n" + call + "\n", call + "\n", notJSON},
		"two on a line":     {call + call + "\n" + call, call, notJSON},
		"broken line":       {"{\"id\":\n1}\n" + call, call, notJSON + notJSON},
		"long line":         {strings.Repeat("x", 200_000) + "\n" + call + "\n", call + "\n", answer("-32700", "a line can have at most 100000 bytes", "null")},
		"long message":      {`{"a":"` + strings.Repeat("x", 200_000) + `"}` + "\n" + call + "\n", call + "\n", answer("-32700", "a line can have at most 100000 bytes", "null")},
		"long last line":    {call + "\n" + strings.Repeat("x", 200_000), call + "\n", answer("-32700", "a line can have at most 100000 bytes", "null")},
		"another version":   {`{"jsonrpc":"1.0","id":"a","method":"ping"}` + "\n", "", answer("-32600", `the line is not a JSON-RPC message: invalid message version tag \"1.0\"; expected \"2.0\"`, `"a"`)},
		"twice the same id": {"[" + call + "," + call + "]\n", "", answer("-32600", "two requests of the batch have the same id", "null")},
		"response":          {`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}` + "\n" + call, call, ""},
		"deep":              {`{"id":5,"a":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "}\n" + call, call, answer("-32600", "JSON is nested more than 100 deep", "5")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var answered bytes.Buffer
			l := newLines(strings.NewReader(c.in), &answered)
			l.most = 100_000
			passed, err := io.ReadAll(l)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.passed+"--\n"+c.answered, string(passed)+"--\n"+answered.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
