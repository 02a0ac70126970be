package host

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"metier/internal/confine"
	"metier/internal/digest"
	"metier/internal/skillsext"
	"metier/internal/termtext"
	"metier/skillmd"
)

const (
	mainFile = "SKILL.md"
	dynamic  = "dynamic"
)

// Entry is one skill as listed by a server. Nothing in it is trusted before check.
type Entry struct {
	URI         string          `json:"uri"`
	Frontmatter json.RawMessage `json:"frontmatter"`
	Resources   json.RawMessage `json:"resources"`

	bad error // it cannot be read in one way
}

// UnmarshalJSON matches keys exactly and rejects duplicates, so that two readers cannot find two
// skills in one entry. Errors are kept for check, because the other entries of the page are still
// valid.
func (e *Entry) UnmarshalJSON(raw []byte) error {
	*e = Entry{}
	m, err := members(raw)
	if err == nil && m["uri"] != nil {
		err = json.Unmarshal(m["uri"], &e.URI)
	}
	if err == nil && len(m["frontmatter"]) <= skillmd.MaxHead {
		err = unique(m["frontmatter"])
	}
	e.Frontmatter, e.Resources, e.bad = bytes.Clone(m["frontmatter"]), bytes.Clone(m["resources"]), err
	return nil
}

// unique checks that no object has a key twice, however deep it is.
func unique(v json.RawMessage) error {
	var below []json.RawMessage
	switch v = bytes.TrimSpace(v); {
	case len(v) > 0 && v[0] == '{':
		m, err := members(v)
		if err != nil {
			return err
		}
		below = slices.Collect(maps.Values(m))
	case len(v) > 0 && v[0] == '[':
		if err := json.Unmarshal(v, &below); err != nil {
			return errors.New("it is not JSON")
		}
	}
	for _, b := range below {
		if err := unique(b); err != nil {
			return err
		}
	}
	return nil
}

// held is a checked entry: the manifest used to read the skill's files.
type held struct {
	uri, folder string // of SKILL.md, and without its name
	path        string // in our source
	fields      map[string]any
	front       skillmd.Front
	diagnostics []skillmd.Diagnostic
	dynamic     bool
	files       []listedFile // by path
}

type listedFile struct {
	path, uri, digest string
	size              int64
}

// broken is why an entry cannot be used.
type broken struct{ code, text string }

func (b broken) Error() string { return b.text }

func unusable(format string, args ...any) error {
	return broken{"mcp-entry-invalid", fmt.Sprintf(format, args...)}
}

// check validates an entry against SEP-2640. clean removes secrets from what is shown of it.
func (e Entry) check(clean func(string) string) (*held, error) {
	if e.bad != nil {
		return nil, unusable("it cannot be read: %v", e.bad)
	}
	folder, ok := strings.CutSuffix(e.URI, "/"+mainFile)
	if !ok || len(e.URI) > 2048 || !visibleOnly(e.URI) {
		return nil, unusable("its address is not that of a SKILL.md")
	}
	h := &held{uri: e.URI, folder: folder}
	var err error
	if h.path, err = placeOf(folder); err != nil {
		return nil, err
	}
	if err := decode(e.Frontmatter, &h.fields); err != nil || h.fields == nil {
		return nil, unusable("its frontmatter is not an object")
	}
	name, _ := h.fields["name"].(string)
	if description, is := h.fields["description"].(string); !is || strings.TrimSpace(description) == "" || name == "" {
		return nil, unusable("its frontmatter has no name or no description")
	}
	if strings.ContainsAny(name, "/:\\") { // it could be read as the ID of another skill
		return nil, unusable("its name %s is invalid", termtext.Quote(name))
	}
	if last, err := url.PathUnescape(path.Base(folder)); err != nil || last != name {
		return nil, unusable("the last part of its address is not its name %s", termtext.Quote(name))
	}
	if err := h.read(e.Frontmatter, clean); err != nil {
		return nil, err
	}
	return h, h.list(e.Resources)
}

func visibleOnly(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' || termtext.Hidden(r) })
}

// placeOf returns the path of a skill in the source: scheme and address, each part as written, so
// that two addresses are two paths. An address without an authority has % in its place, which no
// address can have.
func placeOf(folder string) (string, error) {
	scheme, rest, ok := strings.Cut(folder, "://")
	if !ok || scheme == "" || strings.ContainsAny(scheme, "/%") || strings.ContainsAny(rest, "?#") {
		return "", unusable("its address is not SCHEME://PATH/%s", mainFile)
	}
	if strings.HasPrefix(rest, "/") {
		rest = "%" + rest
	}
	if p := scheme + "/" + rest; path.Clean(p) == p && rest != "." {
		return p, nil
	}
	return "", unusable("its address has empty parts, . or ..")
}

// addressOf is the inverse of placeOf.
func addressOf(place string) (string, bool) {
	scheme, rest, ok := strings.Cut(place, "/")
	rest = strings.TrimPrefix(rest, "%/")
	if strings.HasPrefix(place, scheme+"/%/") {
		rest = "/" + rest
	}
	folder := scheme + "://" + rest
	again, err := placeOf(folder)
	return folder + "/" + mainFile, ok && err == nil && again == place
}

// read parses the JSON, which is also YAML, as frontmatter, without secrets: no text has yet been
// escaped for a model.
func (h *held) read(raw json.RawMessage, clean func(string) string) error {
	var plain bytes.Buffer
	enc := json.NewEncoder(&plain)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(h.fields); err != nil {
		return unusable("its frontmatter is not an object")
	}
	text := []byte("---\n" + clean(plain.String()) + "---\n")
	if len(text) > skillmd.MaxHead || len(raw) > skillmd.MaxHead {
		return unusable("its frontmatter has more than %d bytes", skillmd.MaxHead)
	}
	front, _, _, diags := skillmd.ParseHead(text, true)
	for _, d := range diags {
		if d.Severity == skillmd.Error {
			return unusable("its frontmatter cannot be used: %s", d.Detail)
		}
		d.Line, d.Column = 0, 0
		h.diagnostics = append(h.diagnostics, d)
	}
	h.front = front
	return nil
}

// list checks the manifest.
func (h *held) list(raw json.RawMessage) error {
	if string(bytes.TrimSpace(raw)) == `"`+dynamic+`"` {
		h.dynamic = true
		return nil
	}
	var files []json.RawMessage
	if len(raw) == 0 || raw[0] != '[' || decode(raw, &files) != nil {
		return unusable(`its resources are neither a list of files nor "dynamic"`)
	}
	if len(files) > skillsext.MaxFiles {
		return broken{"mcp-skill-too-large", fmt.Sprintf("it has %d files; at most %d are taken", len(files), skillsext.MaxFiles)}
	}
	seen, main, total := map[string]bool{}, false, int64(0)
	for _, raw := range files {
		f, err := resource(raw)
		if err != nil {
			return err
		}
		p, err := h.within(f.URI)
		switch {
		case err != nil:
			return err
		case seen[p]:
			return unusable("it lists %s twice", termtext.Quote(p))
		case !digest.Valid(f.Digest):
			return unusable("the digest of %s is not sha256: and 64 lowercase hex digits", termtext.Quote(p))
		case f.Size == nil || *f.Size < 0:
			return unusable("%s has no size", termtext.Quote(p))
		}
		seen[p], main = true, main || f.URI == h.uri
		h.files = append(h.files, listedFile{p, f.URI, f.Digest, *f.Size})
		if total += min(*f.Size, skillsext.MaxBytes+1); total > skillsext.MaxBytes {
			return broken{"mcp-skill-too-large", fmt.Sprintf("its files have more than %d bytes together", skillsext.MaxBytes)}
		}
	}
	if !main {
		return unusable("its files are listed without its SKILL.md")
	}
	slices.SortFunc(h.files, func(a, b listedFile) int { return strings.Compare(a.path, b.path) })
	return nil
}

// listing is one file as an entry lists it.
type listing struct {
	URI, Digest string
	Size        *int64
}

func resource(raw json.RawMessage) (f listing, err error) {
	m, err := members(raw)
	for key, into := range map[string]any{"uri": &f.URI, "digest": &f.Digest, "size": &f.Size} {
		if err == nil && m[key] != nil {
			err = json.Unmarshal(m[key], into)
		}
	}
	if err != nil {
		return f, unusable("one of its files cannot be read: %v", err)
	}
	return f, nil
}

// within returns the path of a file in the skill's folder.
func (h *held) within(uri string) (string, error) {
	rest, ok := strings.CutPrefix(uri, h.folder+"/")
	if !ok || strings.ContainsAny(rest, "?#\\") {
		return "", unusable("it lists %s, which is not in its folder", termtext.Quote(clipped(uri, 200)))
	}
	p, err := url.PathUnescape(rest)
	if err != nil || strings.Count(p, "/") != strings.Count(rest, "/") {
		return "", unusable("it lists %s, which is not a path", termtext.Quote(clipped(uri, 200)))
	}
	if clean, err := confine.Clean(p); err != nil || clean != p {
		return "", unusable("it lists %s, which is not a path", termtext.Quote(clipped(uri, 200)))
	}
	return p, nil
}

func (h *held) file(p string) (listedFile, bool) {
	i, ok := slices.BinarySearchFunc(h.files, p, func(f listedFile, p string) int { return strings.Compare(f.path, p) })
	if !ok {
		return listedFile{}, false
	}
	return h.files[i], true
}

// same reports whether two entries have the same content: the same addresses with the same digests.
func (h *held) same(o *held) bool {
	return h.uri == o.uri && h.dynamic == o.dynamic && slices.Equal(h.files, o.files) && equal(h.fields, o.fields)
}

func decode(raw json.RawMessage, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return d.Decode(into)
}

// differs compares the frontmatter of a fetched SKILL.md with the entry, and names the first field
// that differs. metier keeps numbers and dates as written and other YAML parsers do not, so numbers
// are compared by value.
func (h *held) differs(raw []byte) error {
	if typed, err := skillmd.TypedJSON(raw); err == nil {
		var file map[string]any
		if decode(typed, &file) == nil && same(h.fields, file) {
			return nil
		}
	}
	doc, diags := skillmd.Parse(raw)
	for _, d := range diags {
		if d.Severity == skillmd.Error {
			return errors.New("the frontmatter of the file cannot be read: " + d.Detail)
		}
	}
	var file map[string]any
	if err := decode(doc.Front.JSON(), &file); err != nil {
		return err
	}
	for _, fields := range []map[string]any{h.fields, file} {
		for k := range fields {
			theirs, listed := h.fields[k]
			ours, there := file[k]
			if !listed || !there || !equal(theirs, ours) {
				return fmt.Errorf("the field %s of the file is not the one of the entry", termtext.Quote(clipped(k, 64)))
			}
		}
	}
	return nil
}

// same compares two JSON values; numbers are equal if they are as doubles.
func same(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, is := b.(map[string]any)
		return is && maps.EqualFunc(a, b, same)
	case []any:
		b, is := b.([]any)
		return is && slices.EqualFunc(a, b, same)
	case json.Number:
		b, is := b.(json.Number)
		x, errX := a.Float64()
		y, errY := b.Float64()
		return is && errX == nil && errY == nil && x == y
	}
	return a == b
}

// equal compares a value of an entry with one parsed by metier.
func equal(theirs, ours any) bool {
	switch o := ours.(type) {
	case map[string]any:
		t, is := theirs.(map[string]any)
		return is && maps.EqualFunc(t, o, equal)
	case []any:
		t, is := theirs.([]any)
		return is && slices.EqualFunc(t, o, equal)
	case string:
		return scalar(theirs, o)
	case bool:
		if s, is := theirs.(string); is {
			return s == strconv.FormatBool(o)
		}
	case nil:
		return theirs == nil || theirs == ""
	}
	return theirs == ours
}

// words are booleans in YAML 1.1 but text in metier.
var words = map[string]bool{"yes": true, "on": true, "no": false, "off": false}

func scalar(theirs any, text string) bool {
	switch t := theirs.(type) {
	case string:
		return t == text
	case json.Number:
		if t.String() == text {
			return true
		}
		a, errA := t.Float64()
		b, errB := strconv.ParseFloat(text, 64)
		if n, err := strconv.ParseInt(text, 0, 64); err == nil {
			b, errB = float64(n), nil
		}
		return errA == nil && errB == nil && a == b
	case bool:
		v, known := words[strings.ToLower(text)]
		return known && v == t
	}
	return false
}
