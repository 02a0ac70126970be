package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/event"
	"metier/internal/digest"
	"metier/mcp/server"
	"metier/policy"
)

// strict is an embedder's tool that checks its arguments before a call.
type strict struct{ echo }

func (strict) Facts(_ context.Context, _ *metier.Session, raw json.RawMessage) (metier.Facts, error) {
	var a struct {
		Text string `json:"text"`
		Many int    `json:"many"`
	}
	return metier.Facts{Request: policy.Request{Effect: policy.Read}}, metier.DecodeArgs(raw, &a)
}

// Arguments that only name something are short. Longer ones, and those of an invalid call, are
// refused, and the record has their size and digest instead.
func TestLongArgumentsAreRefusedAndNotRecorded(t *testing.T) {
	t.Parallel()
	const size = 200_000
	long := strings.Repeat("x", size)
	digits := json.Number(strings.Repeat("1", size))
	for _, version := range []string{older, newest} {
		w := start(t, library, func(w *fixture) {
			w.tools = append(w.tools, strict{})
			w.options = func(o *server.Options) { o.Tools = map[string]string{"echo": "Echo"} }
		})
		c := w.over(w.http(server.Access{Tokens: tokens}), tokens["ann"], version, nil)
		key := server.Client{Principal: "ann"}
		if version == older {
			key = server.Client{Session: c.ID()}
		}
		type refused struct {
			tool string
			args map[string]any
			says string
		}
		calls := []refused{
			{"list_skills", map[string]any{"after": long}, `field "after" is too long`},
			{"search_skills", map[string]any{"query": long}, `field "query" is too long`},
			{"load_skill", map[string]any{"name": long}, `field "name" is too long`},
			{"load_skill", map[string]any{"name": "guide", long: 1}, `field "xxx`},
			{"read_skill_resource", map[string]any{"skill": "guide", "path": long}, `field "path" is too long`},
			{"echo", map[string]any{"other": long}, `unknown field "other"`},
		}
		if version == older { // the library's client does not send such numbers in the newer revision
			calls = append(calls, refused{"load_skill", map[string]any{"name": "guide", "offset": digits}, `field "offset" is too long`},
				refused{"echo", map[string]any{"many": digits}, "cannot unmarshal number 111"})
		}
		for i, call := range calls {
			if said := said(c.call(call.tool, call.args)); !strings.HasPrefix(said, "invalid_arguments: ") || !strings.Contains(said, call.says) || len(said) > 1000 {
				t.Errorf("%s %s: %.1000s", version, call.tool, said)
			}
			raw, _ := json.Marshal(call.args)
			want := fmt.Sprintf(`{"omitted":{"bytes":%d,"digest":"%s"}}`, len(raw), digest.Bytes(raw))
			decided := events[event.PolicyDecided](w, key)
			b, err := w.logs[key][0].Open(t.Context(), decided[i].Args)
			if diff := cmp.Diff(want, string(b)); err != nil || diff != "" {
				t.Errorf("%s %s is recorded as (-want +got):\n%.500s%v", version, call.tool, diff, err)
			}
		}
		if said := said(c.call("echo", map[string]any{"text": long})); said != long {
			t.Errorf("%s: text that a tool takes is answered with %.200s", version, said)
		}
	}
}
