package record

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// MinSecret is the minimum length in bytes of a secret to redact. Shorter values
// would match everywhere.
const MinSecret = 8

// Secret is a value that must not be stored.
type Secret struct {
	Name  string // shown as [redacted:NAME]
	Value string
}

// Redactor is a [Blobs] that removes secrets from content before storing it. It finds a value as
// is, in hex, and in base64 (standard and URL alphabet, at any offset of the encoded text), both also
// broken into lines. In each of these, any characters may be escaped: percent-encoded, with
// backslashes as in JSON, JavaScript, C, or a shell, as HTML entities, or in quoted-printable. For a
// value of several lines, it also finds each line separately. It does not find a value that is split
// in another way, or that is compressed or encrypted.
type Redactor struct {
	next Blobs

	mu      sync.Mutex
	known   *known // replaced, never changed in place
	skipped []string
}

// Redact returns a [Redactor] in front of b. It ignores values shorter than
// [MinSecret]; [Redactor.Skipped] lists them.
func Redact(b Blobs, secrets ...Secret) *Redactor {
	r := &Redactor{next: b, known: &known{}}
	r.Also(secrets...)
	return r
}

// Also adds secrets, for content that is stored from now on.
func (r *Redactor) Also(secrets ...Secret) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := &known{forms: slices.Clone(r.known.forms)}
	seen := map[string]bool{}
	for _, f := range k.forms {
		seen[f.text] = true
	}
	for _, s := range secrets {
		name := placeName(s.Name)
		if len(s.Value) < MinSecret {
			r.skipped = append(r.skipped, name)
			continue
		}
		for _, f := range append(forms(name, s.Value), lines(name, s.Value)...) {
			if len(f.text) >= MinSecret && !seen[f.text] {
				seen[f.text] = true
				k.forms = append(k.forms, f)
			}
		}
	}
	for i, f := range k.forms {
		k.first[f.text[0]] = append(k.first[f.text[0]], i)
		if upper := f.text[0] &^ 0x20; f.fold && upper >= 'A' && upper != f.text[0] {
			k.first[upper] = append(k.first[upper], i)
		}
		start := func(o []int) bool { return k.forms[o[0]].start() == f.start() && k.forms[o[0]].fold == f.fold }
		if n := slices.IndexFunc(k.starts, start); n >= 0 {
			k.starts[n] = append(k.starts[n], i)
		} else {
			k.starts = append(k.starts, []int{i})
		}
	}
	r.known = k
}

// known holds the forms of all secrets. first indexes them by first byte, and starts groups those
// with the same first character.
type known struct {
	forms  []form
	first  [256][]int
	starts [][]int
}

// start returns the first character of a form.
func (f form) start() string {
	_, size := utf8.DecodeRuneInString(f.text)
	return f.text[:size]
}

// at returns the forms that may occur at the start of b. It may use m for the result.
func (k *known) at(m *matcher, b []byte) []int {
	if !escapes[b[0]] {
		return k.first[b[0]]
	}
	m.forms = m.forms[:0]
	for _, group := range k.starts {
		f := k.forms[group[0]]
		if m.units = read(m.units[:0], b, f.text, f.fold); len(m.units) > 0 || len(b) < 32 && partial(b, f.text[0]) {
			m.forms = append(m.forms, group...)
		}
	}
	return m.forms
}

// unlike is a fast check that a form does not occur here.
func unlike(b []byte, f form) bool {
	return !escapes[b[0]] && len(b) > 1 && !escapes[b[1]] && b[1] != f.text[1] && !(f.fold && b[1]|0x20 == f.text[1]) && !(f.wrap && (b[1] == '\n' || b[1] == '\r'))
}

// placeName prevents a name from breaking the text it is inserted into.
func placeName(s string) string {
	return strings.Map(func(c rune) rune {
		if c == '_' || c == '-' || c == '.' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			return c
		}
		return '_'
	}, s)
}

// forms returns the texts by which a value is recognized.
func forms(name, v string) []form {
	out := []form{{name: name, text: v}, {name: name, text: hex.EncodeToString([]byte(v)), fold: true, wrap: true}}
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		// Depending on the preceding bytes, a value is encoded in one of three ways. The characters
		// at both ends also encode adjacent bytes.
		for pad := range 3 {
			b := []byte(strings.Repeat("\x00", pad) + v)
			text := enc.EncodeToString(b)
			first, last := (pad*8+5)/6, len(b)*8/6
			out = append(out, form{name: name, text: text[first:last], wrap: true})
		}
	}
	return out
}

// lines returns the lines of a value that has several, because tools that read a file in parts show
// single lines. The lines around a PEM key are not secret.
func lines(name, v string) (out []form) {
	split := strings.FieldsFunc(v, func(r rune) bool { return r == '\n' || r == '\r' })
	if len(split) < 2 {
		return nil
	}
	for _, line := range split {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "-----") {
			out = append(out, form{name: name, text: line})
		}
	}
	return out
}

// Put implements [Blobs]: the Ref is that of the redacted bytes.
func (r *Redactor) Put(ctx context.Context, media string, b []byte) (Ref, error) {
	clean, _ := r.Clean(b)
	return r.next.Put(ctx, media, clean)
}

// Clean returns b with each secret replaced, and the number of matches of each.
// It returns b itself if there are none.
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

// hit is the position of a secret.
type hit struct {
	from, to int
	name     string
}

// find returns the positions of secrets, in order. Overlapping ones are merged under the name of
// the longer.
func (r *Redactor) find(b []byte) []hit {
	var hits []hit
	r.mu.Lock()
	k := r.known
	r.mu.Unlock()
	if len(k.forms) == 0 {
		return nil
	}
	var m matcher
	for at := range b {
		for _, i := range k.at(&m, b[at:]) {
			if f := k.forms[i]; !unlike(b[at:], f) {
				if n, _ := m.match(b[at:], f); n > 0 {
					hits = append(hits, hit{at, at + n, f.name})
				}
			}
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

// Skipped returns the names of secrets that are too short to redact.
func (r *Redactor) Skipped() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.skipped)
}

// Open implements [Blobs].
func (r *Redactor) Open(ctx context.Context, ref Ref) ([]byte, error) { return r.next.Open(ctx, ref) }

// Erase implements [Eraser] if the underlying blobs do.
func (r *Redactor) Erase(ctx context.Context, ref Ref) error {
	if e, ok := r.next.(Eraser); ok {
		return e.Erase(ctx, ref)
	}
	return &Error{Code: CodeReadOnly, Detail: "these blobs cannot be erased"}
}

// Sync implements [Syncer] if the underlying blobs do.
func (r *Redactor) Sync(ctx context.Context) error {
	if s, ok := r.next.(Syncer); ok {
		return s.Sync(ctx)
	}
	return ctx.Err()
}
