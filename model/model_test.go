package model_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"metier/model"
)

func word(_ int, c byte) bool {
	return c == '_' || c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func specs(names ...string) []model.ToolSpec {
	var out []model.ToolSpec
	for _, n := range names {
		out = append(out, model.ToolSpec{Name: n})
	}
	return out
}

func TestWireNamesAreABijectionTheProviderTakes(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a.b", 30)
	names := []string{"skills.load", "skills_load", "skills/load", long, long + "x", strings.Repeat("y", 64), strings.Repeat("y", 65), "ok-name", "ünï", ""}
	m := model.WireNames(specs(names...), 64, word)
	seen := map[string]string{}
	for _, n := range names {
		w := m.Wire(n)
		if len(w) == 0 || len(w) > 64 {
			t.Errorf("%q is %q on the wire", n, w)
		}
		for i := range len(w) {
			if !word(i, w[i]) {
				t.Errorf("%q is %q on the wire", n, w)
			}
		}
		if other, taken := seen[w]; taken {
			t.Errorf("%q and %q are both %q", n, other, w)
		}
		seen[w] = n
		if back, ok := m.Ours(w); !ok || back != n {
			t.Errorf("%q comes back as %q", n, back)
		}
	}
	for _, n := range []string{"skills_load", "ok-name", strings.Repeat("y", 64)} {
		if w := m.Wire(n); w != n {
			t.Errorf("%q, which needs no change, is %q", n, w)
		}
	}
}

func TestWireNamesDoNotDependOnOrder(t *testing.T) {
	t.Parallel()
	a := model.WireNames(specs("a.b", "a/b", "a_b", "c.d"), 64, word)
	b := model.WireNames(specs("c.d", "a_b", "a/b", "a.b"), 64, word)
	for _, n := range []string{"a.b", "a/b", "a_b", "c.d"} {
		if a.Wire(n) != b.Wire(n) {
			t.Errorf("%q is %q or %q", n, a.Wire(n), b.Wire(n))
		}
	}
	if got := a.Wire("c.d"); got != "c_d" {
		t.Errorf("c.d is %q", got)
	}
}

func TestWireNamesOfUnknownToolsNameNoKnownOne(t *testing.T) {
	t.Parallel()
	m := model.WireNames(specs("a.b"), 64, word)
	if w := m.Wire("a/b"); w == m.Wire("a.b") || w != m.Wire("a/b") {
		t.Errorf("an old tool is %q, a present one %q", w, m.Wire("a.b"))
	}
	if n, ok := m.Ours("nobody"); ok || n != "nobody" {
		t.Errorf("a name nobody has is %q, %v", n, ok)
	}
}

func FuzzWireNames(f *testing.F) {
	f.Add("a.b", "a/b", "a_b")
	f.Add("", "_", ".")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		m := model.WireNames(specs(a, b, c), 16, word)
		wire := map[string]string{}
		for _, n := range []string{a, b, c} {
			w := m.Wire(n)
			back, ok := m.Ours(w)
			if old, taken := wire[w]; len(w) > 16 || !ok || back != n || (taken && old != n) {
				t.Fatalf("%q is %q and comes back as %q", n, w, back)
			}
			wire[w] = n
		}
	})
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	one := func() float64 { return 1 }
	zero := func() float64 { return 0 }
	for _, c := range []struct {
		try   int
		after time.Duration
		rnd   func() float64
		want  time.Duration
	}{
		{1, 0, nil, 500 * time.Millisecond},
		{1, 0, zero, 250 * time.Millisecond},
		{4, 0, one, 4 * time.Second},
		{50, 0, one, time.Minute},
		{50, 0, zero, 30 * time.Second},
		{0, 0, one, 500 * time.Millisecond},
		{-9, 0, one, 500 * time.Millisecond},
		{1, 7 * time.Second, zero, 7 * time.Second},
		{8, time.Second, one, time.Minute},
		{1, time.Hour, zero, time.Minute},
		{1, -time.Hour, zero, 250 * time.Millisecond},
	} {
		if got := model.Backoff(c.try, c.after, c.rnd); got != c.want {
			t.Errorf("Backoff(%d, %v) = %v, want %v", c.try, c.after, got, c.want)
		}
	}
}

func TestRetriesByCode(t *testing.T) {
	t.Parallel()
	for code, want := range map[model.Code]int{
		model.CodeRateLimited: 4, model.CodeOverloaded: 4, model.CodeServer: 4, model.CodeCut: 4, model.CodeUnreachable: 4,
		model.CodeBadReply: 1,
		model.CodeAuth:     0, model.CodeForbidden: 0, model.CodeNotFound: 0, model.CodeBadRequest: 0, model.CodeContextOverflow: 0,
		model.CodeRefused: 0, model.CodeCanceled: 0, model.CodeScriptEnded: 0, model.CodeScriptFailed: 0,
	} {
		e := &model.Error{Code: code}
		if got := e.Retries(4); got != want || e.Retryable() != (want > 0) {
			t.Errorf("%s: %d retries, want %d", code, got, want)
		}
	}
	if (&model.Error{Code: model.CodeBadReply}).Retries(0) != 0 {
		t.Error("the caller's limit of none is not kept")
	}
}

func TestErrorNamesProviderCodeAndStatus(t *testing.T) {
	t.Parallel()
	cause := errors.New("cause")
	e := &model.Error{Code: model.CodeServer, Provider: "openai", Status: 500, Message: "oops", Err: cause}
	if got := e.Error(); got != "openai: model_server (HTTP 500): oops" || !errors.Is(fmt.Errorf("x: %w", e), cause) {
		t.Errorf("%q", got)
	}
	if got := (&model.Error{Code: model.CodeCanceled, Err: cause}).Error(); got != "model_canceled: cause" {
		t.Errorf("%q", got)
	}
}

func stream(chunks ...model.Chunk) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		for _, c := range chunks {
			if !yield(c, nil) {
				return
			}
		}
	}
}

func TestCollect(t *testing.T) {
	t.Parallel()
	msg := model.Message{Role: model.RoleAssistant, Parts: []model.Part{model.Text("hi")}}
	got, u, stop, err := model.Collect(stream(model.Chunk{Kind: model.ChunkText, Text: "hi"},
		model.Chunk{Kind: model.ChunkDone, Message: &msg, Usage: model.Usage{Output: 2}, Stop: model.StopEnd}))
	if err != nil || stop != model.StopEnd || u.Output != 2 || !cmp.Equal(got, msg) {
		t.Errorf("%+v %+v %s %v", got, u, stop, err)
	}
	for code, seq := range map[model.Code]iter.Seq2[model.Chunk, error]{
		model.CodeCut:      stream(model.Chunk{Kind: model.ChunkText, Text: "hi"}),
		model.CodeBadReply: stream(model.Chunk{Kind: model.ChunkDone}),
		model.CodeServer:   func(yield func(model.Chunk, error) bool) { yield(model.Chunk{}, &model.Error{Code: model.CodeServer}) },
	} {
		var e *model.Error
		if _, _, _, err := model.Collect(seq); !errors.As(err, &e) || e.Code != code {
			t.Errorf("%v, want %s", err, code)
		}
	}
}

func TestCallKeepsArgumentsOrTheirText(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]model.Part{
		"":         {Kind: model.PartCall, Args: json.RawMessage("{}")},
		" \n":      {Kind: model.PartCall, Args: json.RawMessage("{}")},
		`{"a": 1}`: {Kind: model.PartCall, Args: json.RawMessage(`{"a": 1}`)},
		`{"a": `:   {Kind: model.PartCall, Text: `{"a": `},
	} {
		if got := model.Call("", "", raw); !cmp.Equal(got, want) {
			t.Errorf("%q: %+v", raw, got)
		}
	}
}

func TestUsageTotalsAndCosts(t *testing.T) {
	t.Parallel()
	half := 0.5
	a := model.Usage{Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4}
	b := model.Usage{Input: 10, CostUSD: &half}
	if n := a.Total(); n != 10 {
		t.Errorf("total %d", n)
	}
	p := model.Price{Input: 3, Output: 15, CacheRead: 0.3, CacheWrite: 3.75}
	got := model.Cost(model.Usage{Input: 1e6, Output: 2e6, CacheRead: 1e7, CacheWrite: 1e5}, p)
	if math.Abs(got-(3+30+3+0.375)) > 1e-9 || model.Cost(b, p) != 0.5 {
		t.Errorf("cost %v", got)
	}
}

func TestCall_TakesArgumentsOfLimitedDepth(t *testing.T) {
	t.Parallel()
	nested := func(n int) string { return strings.Repeat(`{"a":[`, n/2) + `"[{\"["` + strings.Repeat("]}", n/2) }
	for raw, taken := range map[string]bool{nested(100): true, nested(102): false, `[` + strings.Repeat("[],", 200) + `{}]`: true, "{": false} {
		if p := model.Call("id", "t", raw); (p.Args != nil) != taken || !taken && p.Text != raw {
			t.Errorf("%.40s…: %s %q", raw, p.Args, p.Text)
		}
	}
}
