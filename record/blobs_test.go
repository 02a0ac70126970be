package record_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/internal/digest"
	"metier/internal/testenv"
	"metier/record"
	"metier/record/recordtest"
)

func TestSideFileCutAtEveryByte(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	side := filepath.Join(dir, "small.jsonl")
	b := openBlobs(t, dir, nil)
	var refs []record.Ref
	for _, text := range []string{"one", "two", "three \xff"} {
		r, err := b.Put(t.Context(), "", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		refs = append(refs, r)
	}
	data := read(t, side)
	for size := range data {
		write(t, side, data[:size])
		b := openBlobs(t, dir, nil)
		whole := bytes.Count(data[:size], []byte("\n"))
		if want := size - (bytes.LastIndexByte(data[:size], '\n') + 1); b.Cut() != want || b.Damaged() != 0 {
			t.Errorf("cut at %d: %d bytes cut, want %d; %d damaged", size, b.Cut(), want, b.Damaged())
		}
		for i, r := range refs {
			if _, err := b.Open(t.Context(), r); (err == nil) != (i < whole) || err != nil && !errors.Is(err, record.ErrErased) {
				t.Errorf("cut at %d, blob %d: %v", size, i, err)
			}
		}
		if _, err := b.Put(t.Context(), "", []byte("three \xff")); err != nil {
			t.Fatal(err)
		}
		if _, err := openBlobs(t, dir, nil).Open(t.Context(), refs[2]); err != nil {
			t.Errorf("cut at %d, put again: %v", size, err)
		}
		_ = b.Close()
	}
}

func TestSideFileFlippedByteIsFoundOrMeansNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	side := filepath.Join(dir, "small.jsonl")
	b := openBlobs(t, dir, nil)
	texts := []string{"one\n", "two \xff"}
	var refs []record.Ref
	for _, text := range texts {
		r, err := b.Put(t.Context(), "", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		refs = append(refs, r)
	}
	data := read(t, side)
	for i := range data {
		bad := bytes.Clone(data)
		bad[i] ^= 0x20
		write(t, side, bad)
		b, err := record.OpenBlobs(dir, &record.Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		for j, r := range refs {
			// Wrong bytes must never come back. A changed digest makes the line
			// that of another blob.
			if got, err := b.Open(t.Context(), r); err == nil && string(got) != texts[j] || err != nil && !errors.Is(err, record.ErrAltered) && !errors.Is(err, record.ErrErased) {
				t.Errorf("byte %d, blob %d: %q, %v", i, j, got, err)
			}
		}
		_ = b.Close()
	}
}

func TestDamagedBlobIsPutAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, data := range [][]byte{[]byte("small"), bytes.Repeat([]byte("large"), 5000)} {
		b := openBlobs(t, dir, nil)
		r, err := b.Put(t.Context(), "", data)
		if err != nil {
			t.Fatal(err)
		}
		err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				write(t, path, bytes.ReplaceAll(read(t, path), data[:5], []byte("XXXXX")))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		again := openBlobs(t, dir, nil)
		if _, err := again.Open(t.Context(), r); !errors.Is(err, record.ErrAltered) {
			t.Errorf("%v", err)
		}
		if _, err := again.Put(t.Context(), "", data); err != nil {
			t.Fatal(err)
		}
		for _, b := range []*record.FileBlobs{b, openBlobs(t, dir, nil)} {
			if got, err := b.Open(t.Context(), r); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%v", err)
			}
		}
	}
}

func TestErasedTextIsGoneFromTheFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := openBlobs(t, dir, nil)
	for _, text := range []string{"personal matter", strings.Repeat("personal matter ", 1000)} {
		r, err := b.Put(t.Context(), "", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Erase(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && bytes.Contains(read(t, path), []byte("personal")) {
			t.Errorf("still in %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestLinkInPlaceOfABlobIsNotFollowed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := openBlobs(t, filepath.Join(dir, "blobs"), nil)
	data := bytes.Repeat([]byte("large"), 5000)
	r, err := b.Put(t.Context(), "", data)
	if err != nil {
		t.Fatal(err)
	}
	hex := strings.TrimPrefix(r.Digest, "sha256:")
	path := filepath.Join(dir, "blobs", hex[:2], hex)
	if err := os.Rename(path, filepath.Join(dir, "elsewhere")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "elsewhere"), path); err != nil {
		testenv.Skip(t, fmt.Sprintf("this system lets us make no links: %v", err))
	}
	if _, err := b.Open(t.Context(), r); err == nil {
		t.Error("a link was followed")
	}
}

// The folder of the blobs itself may be a link by now: in Root it leads nowhere.
func TestOpenBlobs_StaysInRoot(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	kept := filepath.Join(outside, "tmp", "kept")
	if err := errors.Join(os.Mkdir(filepath.Dir(kept), 0o700), os.WriteFile(kept, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "blobs")); err != nil {
		testenv.Skip(t, fmt.Sprintf("this system lets us make no links: %v", err))
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if b, err := record.OpenBlobs(filepath.Join(dir, "blobs"), &record.Options{Root: root}); err == nil {
		t.Errorf("opened outside: %v", b.Close())
	}
	if _, err := os.Stat(kept); err != nil {
		t.Error(err)
	}
}

// A link that is made while the blobs are open does not lead out of their folder either.
func TestFileBlobs_NoLinkLeadsOut(t *testing.T) {
	t.Parallel()
	dir, outside := filepath.Join(t.TempDir(), "blobs"), t.TempDir()
	b := openBlobs(t, dir, nil)
	for i := range 256 {
		if err := os.Symlink(outside, filepath.Join(dir, fmt.Sprintf("%02x", i))); err != nil {
			testenv.Skip(t, fmt.Sprintf("this system lets us make no links: %v", err))
		}
	}
	data := bytes.Repeat([]byte("large"), 5000)
	if _, err := b.Put(t.Context(), "", data); record.CodeOf(err) != record.CodeIO {
		t.Errorf("put: %v", err)
	}
	if made, err := os.ReadDir(outside); err != nil || len(made) > 0 {
		t.Errorf("outside: %v %v", made, err)
	}
	r := record.Ref{Digest: digest.Bytes(data), Size: int64(len(data))}
	hex := strings.TrimPrefix(r.Digest, "sha256:")
	if err := os.WriteFile(filepath.Join(outside, hex), data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Open(t.Context(), r); record.CodeOf(err) != record.CodeIO {
		t.Errorf("open: %v", err)
	}
}

// Tools show files in parts, so each line of a secret is one.
func TestRedact_FindsEachLineOfAValue(t *testing.T) {
	t.Parallel()
	r := record.Redact(record.NewMemory(), record.Secret{Name: "KEY", Value: "-----BEGIN KEY-----\nline-one-1\r\n  line-two-2\nshort\nline-end-3\n-----END KEY-----\n"})
	for in, want := range map[string]string{
		"1: line-one-1":                            "1: [redacted:KEY]",
		"line-two-2, line-end-3":                   "[redacted:KEY], [redacted:KEY]",
		"-----BEGIN KEY-----\r\nline-one-1\r\nend": "-----BEGIN KEY-----\r\n[redacted:KEY]\r\nend",
		"short, and -----BEGIN KEY-----":           "short, and -----BEGIN KEY-----",
		`{"k": "line-one-1\n  line-two-2\nshort"}`: `{"k": "[redacted:KEY]\n  [redacted:KEY]\nshort"}`,
	} {
		if got, _ := r.Clean([]byte(in)); string(got) != want {
			t.Errorf("%q gives %q, want %q", in, got, want)
		}
	}
}

func TestRedactFindsEveryWriting(t *testing.T) {
	t.Parallel()
	const value = `s3cr"et/va<lue>=é+1\x`
	secrets := []record.Secret{{Name: "API KEY", Value: value}, {Name: "LONG", Value: "abcdefgh12"}, {Name: "TAIL", Value: "gh12345678"}, {Name: "PIN", Value: "1234567"}}
	quoted, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ in, want string }{
		"as it is":        {"key=" + value + ";", "key=[redacted:API_KEY];"},
		"twice":           {value + value, "[redacted:API_KEY][redacted:API_KEY]"},
		"in JSON":         {`{"k":` + string(quoted) + `}`, `{"k":"[redacted:API_KEY]"}`},
		"in JSON, slash":  {strings.ReplaceAll(`{"k":"s3cr\"et/va<lue>=é+1\\x"}`, "/", `\/`), `{"k":"[redacted:API_KEY]"}`},
		"in hex":          {fmt.Sprintf("%x %X", value, value), "[redacted:API_KEY] [redacted:API_KEY]"},
		"two overlapping": {"<abcdefgh12345678>", "<[redacted:LONG]>"},
		"too short":       {"1234567", "1234567"},
		"not there":       {"s3cr et", "s3cr et"},
	} {
		m := record.NewMemory()
		r := record.Redact(m, secrets...)
		ref, err := r.Put(t.Context(), "", []byte(c.in))
		if err != nil {
			t.Fatal(err)
		}
		got, err := m.Open(t.Context(), ref)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %q, want %q, %v", name, got, c.want, err)
		}
	}
	r := record.Redact(record.NewMemory(), secrets...)
	if diff := cmp.Diff([]string{"PIN"}, r.Skipped()); diff != "" {
		t.Errorf("skipped: %s", diff)
	}
	for pad := range 6 {
		plain := strings.Repeat("u", pad) + value + strings.Repeat(" tail", pad)
		for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding} {
			if got, found := r.Clean([]byte("Basic " + enc.EncodeToString([]byte(plain)))); found["API_KEY"] != 1 || !strings.Contains(string(got), "[redacted:API_KEY]") {
				t.Errorf("base64 behind %d bytes: %s", pad, got)
			}
		}
	}
	_, found := r.Clean([]byte(value + " abcdefgh12 " + value))
	if diff := cmp.Diff(map[string]int{"API_KEY": 2, "LONG": 1}, found); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

func FuzzParseLine(f *testing.F) {
	m := record.NewMemory()
	if _, err := m.Append(f.Context(), record.Head{}, recordtest.Entry("a"), recordtest.Entry("b")); err != nil {
		f.Fatal(err)
	}
	for b := range m.Lines(f.Context()) {
		f.Add(b)
	}
	for _, s := range []string{"", "{}", "null", `{"v":1e400}`, `{"seq":-1}`, `{"more":-1}`, `[]`, `{"v":1}{}`, `{"data":null}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := record.ParseLine(b)
		path := filepath.Join(t.TempDir(), "l")
		write(t, path, append(bytes.Clone(b), '\n'))
		r := verifyFile(t, path, nil, nil)
		if err != nil {
			if r.OK() {
				t.Errorf("a line that does not parse verifies: %q", b)
			}
			return
		}
		if e.Seq == 0 || e.ID == "" || e.Type == "" || len(e.Data) > 0 && !json.Valid(e.Data) {
			t.Errorf("%q gives %+v", b, e)
		}
	})
}

// A read that fails says nothing about the content: it is not altered.
func TestBlobs_FailedReadIsNotAlteration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r, err := openBlobs(t, dir, nil).Put(t.Context(), "", []byte("one"))
	if err != nil {
		t.Fatal(err)
	}
	b := openBlobs(t, dir, nil)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = b.Open(t.Context(), r)
	var e *record.Error
	if !errors.As(err, &e) {
		t.Fatalf("error %v", err)
	}
	if diff := cmp.Diff(record.CodeIO, e.Code); diff != "" {
		t.Errorf("code (-want +got):\n%s", diff)
	}
}
