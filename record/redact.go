package record

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// MinSecret is the length in bytes below which a secret is not looked for: it
// would be found everywhere.
const MinSecret = 8

// Secret is a value that must not be stored.
type Secret struct {
	Name  string // shown in its place: [redacted:NAME]
	Value string
}

// Redactor is [Blobs] that stores content without the literal values of
// secrets. It finds a value as it is, inside a JSON string, in base64 (standard
// and URL alphabet, at any offset of the encoded text, not across line breaks),
// in hex and percent-encoded. It does not find a value that was split,
// compressed or encrypted.
type Redactor struct {
	next Blobs

	mu      sync.Mutex
	forms   []form // replaced, never changed in place
	skipped []string
	counts  map[string]int
}

// form is one way in which a secret may be written.
type form struct {
	name string
	text []byte
}

// Redact puts a [Redactor] before b. Values shorter than [MinSecret] are not
// looked for; [Redactor.Skipped] names them.
func Redact(b Blobs, secrets ...Secret) *Redactor {
	r := &Redactor{next: b, counts: map[string]int{}}
	r.Also(secrets...)
	return r
}

// Also takes more secrets, for what is stored from now on.
func (r *Redactor) Also(secrets ...Secret) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := map[string]bool{}
	r.forms = slices.Clone(r.forms)
	for _, f := range r.forms {
		seen[string(f.text)] = true
	}
	for _, s := range secrets {
		name := placeName(s.Name)
		if len(s.Value) < MinSecret {
			r.skipped = append(r.skipped, name)
			continue
		}
		for _, text := range writings(s.Value) {
			if len(text) >= MinSecret && !seen[text] {
				seen[text] = true
				r.forms = append(r.forms, form{name, []byte(text)})
			}
		}
	}
}

// placeName keeps a name from breaking the text it is put into.
func placeName(s string) string {
	return strings.Map(func(c rune) rune {
		if c == '_' || c == '-' || c == '.' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			return c
		}
		return '_'
	}, s)
}

func writings(v string) []string {
	out := []string{v, hex.EncodeToString([]byte(v)), strings.ToUpper(hex.EncodeToString([]byte(v))),
		url.QueryEscape(v), url.PathEscape(v)}
	for _, html := range []bool{false, true} {
		var buf bytes.Buffer
		enc := json.NewEncoder(&buf)
		enc.SetEscapeHTML(html)
		if enc.Encode(v) == nil {
			q := strings.TrimSpace(buf.String())
			q = q[1 : len(q)-1]
			out = append(out, q, strings.ReplaceAll(q, "/", `\/`))
		}
	}
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		// Depending on what stands before it, a value is encoded in one of three
		// ways; the characters at both ends mix with the neighbours.
		for pad := range 3 {
			b := []byte(strings.Repeat("\x00", pad) + v)
			text := enc.EncodeToString(b)
			first, last := (pad*8+5)/6, len(b)*8/6
			out = append(out, text[first:last])
		}
	}
	return out
}

// Put implements [Blobs]: the Ref is that of the redacted bytes.
func (r *Redactor) Put(ctx context.Context, media string, b []byte) (Ref, error) {
	clean, found := r.Clean(b)
	if len(found) > 0 {
		r.mu.Lock()
		for name, n := range found {
			r.counts[name] += n
		}
		r.mu.Unlock()
	}
	return r.next.Put(ctx, media, clean)
}

// Clean returns b with each secret replaced and how often each was found. It
// returns b itself when there is none.
func (r *Redactor) Clean(b []byte) ([]byte, map[string]int) {
	hits := r.find(b)
	if len(hits) == 0 {
		return b, nil
	}
	found := map[string]int{}
	var out bytes.Buffer
	at := 0
	for _, h := range hits {
		out.Write(b[at:h.from])
		out.WriteString("[redacted:" + h.name + "]")
		found[h.name]++
		at = h.to
	}
	out.Write(b[at:])
	return out.Bytes(), found
}

// hit is where a secret stands.
type hit struct {
	from, to int
	name     string
}

// find returns where secrets stand, in order. Where two overlap the longer one
// gives the name and they are one.
func (r *Redactor) find(b []byte) []hit {
	var hits []hit
	r.mu.Lock()
	forms := r.forms
	r.mu.Unlock()
	for _, f := range forms {
		for at := 0; ; {
			i := bytes.Index(b[at:], f.text)
			if i < 0 {
				break
			}
			hits = append(hits, hit{at + i, at + i + len(f.text), f.name})
			at += i + 1
		}
	}
	slices.SortStableFunc(hits, func(x, y hit) int {
		if x.from != y.from {
			return x.from - y.from
		}
		return y.to - x.to
	})
	whole := hits[:0]
	for _, h := range hits {
		if n := len(whole); n > 0 && h.from < whole[n-1].to {
			whole[n-1].to = max(whole[n-1].to, h.to)
			continue
		}
		whole = append(whole, h)
	}
	return whole
}

// Counts returns how often each secret was replaced so far, by name.
func (r *Redactor) Counts() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.counts)
}

// Skipped names the secrets that are too short to be looked for.
func (r *Redactor) Skipped() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.skipped)
}

// Open implements [Blobs].
func (r *Redactor) Open(ctx context.Context, ref Ref) ([]byte, error) { return r.next.Open(ctx, ref) }

// Erase implements [Eraser] where the blobs behind it do.
func (r *Redactor) Erase(ctx context.Context, ref Ref) error {
	if e, ok := r.next.(Eraser); ok {
		return e.Erase(ctx, ref)
	}
	return &Error{Code: CodeReadOnly, Detail: "these blobs cannot be erased"}
}

// Sync implements [Syncer] where the blobs behind it do.
func (r *Redactor) Sync(ctx context.Context) error {
	if s, ok := r.next.(Syncer); ok {
		return s.Sync(ctx)
	}
	return ctx.Err()
}
