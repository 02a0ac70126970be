package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"metier/event"
	"metier/internal/digest"
	"metier/record"
)

// normalizer replaces the values that differ between two equal runs.
type normalizer struct {
	blobs    record.Blobs
	ids      *strings.Replacer
	replaced map[string]string // digest of a blob → of its replaced content
}

// newNormalizer collects the random ids: of the session, of runs, of inputs, and of calls that the
// loop did not number.
func newNormalizer(h *history, blobs record.Blobs) *normalizer {
	names := map[string]string{}
	count := map[string]int{}
	name := func(kind, id string) {
		if id == "" || names[id] != "" || kind == "call" && loopCall.MatchString(id) {
			return
		}
		count[kind]++
		names[id] = fmt.Sprintf("<%s-%d>", kind, count[kind])
	}
	for _, f := range h.facts {
		switch e := f.event.(type) {
		case event.SessionOpened:
			name("session", e.Session)
		case event.RunStarted:
			name("run", e.Run)
		case event.Input:
			name("input", e.ID)
		case event.ChildEnded:
			name("run", e.Run)
		case event.PolicyDecided:
			name("call", e.Call)
		case event.ToolCallStarted:
			name("call", e.ID)
		case event.ToolResult:
			name("call", e.ID)
		}
		if id, ok := strings.CutPrefix(f.ID, "recovered:"); ok {
			name("entry", id)
		}
	}
	ids := make([]string, 0, len(names))
	for id := range names {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b string) int { // the longer first: one may begin another
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	var pairs []string
	for _, id := range ids {
		pairs = append(pairs, id, names[id])
	}
	return &normalizer{blobs, strings.NewReplacer(pairs...), map[string]string{}}
}

func (n *normalizer) entry(ctx context.Context, out *bytes.Buffer, f fact) error {
	data := f.Data
	for _, r := range f.Refs {
		to, err := n.digest(ctx, r)
		if err != nil {
			return err
		}
		from := fmt.Sprintf(`"digest":%q,"size":%d`, r.Digest, r.Size)
		data = bytes.ReplaceAll(data, []byte(from), []byte(fmt.Sprintf(`"digest":%q,"size":0`, to)))
		data = bytes.ReplaceAll(data, []byte(r.Digest), []byte(to)) // prompt slots name the digest alone
	}
	var v any
	if len(data) > 0 {
		if err := json.Unmarshal(data, &v); err != nil {
			return err
		}
	}
	line, err := compact(struct {
		Seq  uint64 `json:"seq"`
		ID   string `json:"id"`
		By   string `json:"by"`
		Type string `json:"type"`
		V    int    `json:"v"`
		Data any    `json:"data"`
	}{f.Seq, n.ids.Replace(f.ID), f.By, f.Type, f.V, n.value(f, v)})
	if err != nil {
		return err
	}
	out.Write(line)
	out.WriteByte('\n')
	return nil
}

// value replaces ids in every string except digests. It removes the heads of children, because
// their chains include times.
func (n *normalizer) value(f fact, v any) any {
	switch v := v.(type) {
	case string:
		if to, ok := n.replaced[v]; ok {
			return to
		}
		if digest.Valid(v) {
			return v
		}
		return n.ids.Replace(v)
	case []any:
		for i := range v {
			v[i] = n.value(f, v[i])
		}
	case map[string]any:
		for k, x := range v {
			v[k] = n.value(f, x)
		}
		if f.Type == (event.ChildEnded{}).Type() {
			delete(v, "head")
		}
	}
	return v
}

// digest returns the digest of a blob's content after ids are replaced.
func (n *normalizer) digest(ctx context.Context, r record.Ref) (string, error) {
	if to, ok := n.replaced[r.Digest]; ok {
		return to, nil
	}
	to := r.Digest
	if n.blobs != nil {
		b, err := n.blobs.Open(ctx, r)
		switch {
		case err == nil:
			to = digest.Bytes([]byte(n.ids.Replace(string(b))))
		case !errors.Is(err, record.ErrErased):
			return "", err
		}
	}
	n.replaced[r.Digest] = to
	return to, nil
}
