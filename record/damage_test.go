package record_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"metier/internal/digest"
	"metier/record"
	"metier/record/recordtest"
)

// written is a log of n single entries and one batch of two, as bytes.
func written(t *testing.T, n int) (path string, data []byte, head record.Head) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "events.jsonl")
	l := openLog(t, path, nil)
	for i := range n {
		var err error
		if head, err = l.Append(t.Context(), head, recordtest.Entry(fmt.Sprintf("e%d", i+1))); err != nil {
			t.Fatal(err)
		}
	}
	head, err := l.Append(t.Context(), head, recordtest.Entry("b1"), recordtest.Entry("b2"))
	if err != nil {
		t.Fatal(err)
	}
	return path, read(t, path), head
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// noted returns heads, outside the log's folder, that cover every entry of l or
// only the last one.
func noted(t *testing.T, name string, l record.Log) *record.Heads {
	t.Helper()
	h, err := record.OpenHeads(filepath.Join(t.TempDir(), "heads.jsonl"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	if _, err := h.Note(t.Context(), name, l); err != nil {
		t.Fatal(err)
	}
	return h
}

func verifyFile(t *testing.T, path string, blobs record.Blobs, o *record.VerifyOptions) record.Report {
	t.Helper()
	r, err := record.Verify(t.Context(), record.File(path), blobs, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func codes(r record.Report) string {
	var out []string
	for _, p := range r.Problems {
		out = append(out, fmt.Sprintf("%s@%d", p.Code, p.Seq))
	}
	return strings.Join(out, " ")
}

func TestLogCutAtEveryByteOpensAndGoesOn(t *testing.T) {
	t.Parallel()
	_, data, _ := written(t, 3)
	lines := bytes.SplitAfter(data, []byte("\n")) // five lines and what follows the last
	starts := []int{0}
	for _, l := range lines[:5] {
		starts = append(starts, starts[len(starts)-1]+len(l))
	}
	path := filepath.Join(t.TempDir(), "events.jsonl")
	for size := starts[2]; size <= len(data); size++ {
		_ = os.Remove(path) // writing a new file is much faster than overwriting an old one
		write(t, path, data[:size])
		keep := 2
		switch {
		case size == len(data):
			keep = 5
		case size >= starts[3]: // the batch of the last two is there completely or not at all
			keep = 3
		}
		readOnly, err := record.OpenFile(path, &record.Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(recordtest.All(t, readOnly, 1)); n != keep || !bytes.Equal(read(t, path), data[:size]) {
			t.Errorf("cut at %d, read only: %d entries, want %d and the file as it was", size, n, keep)
		}
		_ = readOnly.Close()

		l, err := record.OpenFile(path, nil)
		if err != nil {
			t.Fatalf("cut at %d: %v", size, err)
		}
		if n := len(recordtest.All(t, l, 1)); n != keep {
			t.Errorf("cut at %d: %d entries, want %d", size, n, keep)
		}
		lost := data[starts[keep]:size]
		got := l.Recovered()
		if len(lost) == 0 && got != nil {
			t.Errorf("cut at %d: recovered %+v from a whole log", size, got)
		}
		if len(lost) > 0 && (got == nil || *got != record.Recovery{Bytes: len(lost), Seq: uint64(keep) + 1, Digest: digest.Bytes(lost)}) {
			t.Errorf("cut at %d: recovered %+v, lost %d bytes", size, got, len(lost))
		}
		if _, err := l.Append(t.Context(), recordtest.Head(t, l), recordtest.Entry("recovered")); err != nil {
			t.Errorf("cut at %d: %v", size, err)
		}
		_ = l.Close()
		if r := verifyFile(t, path, nil, nil); !r.OK() || r.Entries != uint64(keep)+1 {
			t.Errorf("cut at %d, after recovery: %+v", size, r)
		}
	}
}

func TestLogRefusesToOpenWhenItWasChanged(t *testing.T) {
	t.Parallel()
	_, data, _ := written(t, 4)
	line := bytes.SplitAfter(data, []byte("\n"))
	join := func(l ...[]byte) []byte { return bytes.Join(l, nil) }
	for _, c := range []struct {
		name string
		data []byte
		code record.Code
		seq  uint64
	}{
		{"a letter changed", bytes.Replace(data, []byte("user:7"), []byte("user:8"), 1), record.CodeAltered, 1},
		{"a line taken out", join(line[0], line[2], line[3]), record.CodeGap, 2},
		{"the first line taken out", join(line[1], line[2]), record.CodeGap, 1},
		{"a line twice", join(line[0], line[1], line[1]), record.CodeAltered, 3},
		{"two lines swapped", join(line[0], line[2], line[1]), record.CodeGap, 2},
		{"a line torn in the middle", join(line[0], line[1][:40], []byte("\n"), line[2]), record.CodeAltered, 2},
		{"an empty line", join(line[0], []byte("\n"), line[1]), record.CodeAltered, 2},
		{"a last line that is whole and wrong", join(line[0], bytes.Replace(line[1], []byte(`"prev":"sha256:`), []byte(`"prev":"sha512:`), 1)), record.CodeAltered, 1},
		{"a last line that is no entry", join(line[0], []byte("{}\n")), record.CodeAltered, 2},
		{"a field nobody knows", join(line[0], bytes.Replace(line[1], []byte(`{"v"`), []byte(`{"sig":"x","v"`), 1)), record.CodeNewer, 2},
		{"a line without end", join(line[0], bytes.Repeat([]byte("x"), record.MaxLine+2), []byte("\n"), line[1]), record.CodeAltered, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "events.jsonl")
			write(t, path, c.data)
			_, err := record.OpenFile(path, nil)
			var e *record.Error
			if !errors.As(err, &e) || e.Code != c.code || e.Seq != c.seq || e.Path != path {
				t.Errorf("open: %v, want %s at %d", err, c.code, c.seq)
			}
			if !bytes.Equal(read(t, path), c.data) {
				t.Error("the file was changed")
			}
			if r := verifyFile(t, path, nil, nil); !strings.Contains(codes(r), fmt.Sprintf("%s@%d", c.code, c.seq)) {
				t.Errorf("verify: %s", codes(r))
			}
		})
	}
}

func TestLogOfGarbageIsCutOffWhenItHasNoNewline(t *testing.T) {
	t.Parallel()
	path, data, head := written(t, 1)
	for name, tail := range map[string][]byte{
		"zeros": make([]byte, 4096), "a whole entry without newline": []byte(`{"v":1}`),
		"more than a line may hold": bytes.Repeat([]byte("x"), record.MaxLine*2), "half a line and a newline": []byte(`{"v":1,"se` + "\n"),
	} {
		write(t, path, append(bytes.Clone(data), tail...))
		if got := codes(verifyFile(t, path, nil, nil)); got != "record_torn@4" {
			t.Errorf("%s: verify says %s", name, got)
		}
		l := openLog(t, path, nil)
		if got := l.Recovered(); got == nil || got.Bytes != len(tail) || recordtest.Head(t, l) != head {
			t.Errorf("%s: recovered %+v", name, got)
		}
	}
}

func TestVerifyFindsEveryFlippedByte(t *testing.T) {
	t.Parallel()
	path, data, _ := written(t, 1)
	heads := noted(t, "run", openLog(t, path, nil))
	o := &record.VerifyOptions{Heads: heads, Name: "run"}
	if r := verifyFile(t, path, nil, o); !r.OK() || r.Heads != 1 {
		t.Fatalf("the log as written: %+v", r)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lastLine := bytes.LastIndexByte(data[:len(data)-1], '\n')
	for i, c := range data {
		for _, mask := range []byte{0x01, 0x20, 0x80} {
			flip(t, f, i, c^mask)
			if verifyFile(t, path, nil, o).OK() {
				t.Errorf("byte %d (%q) flipped to %q goes unseen", i, c, c^mask)
			}
			// All lines except the last can be checked without heads.
			if i < lastLine && verifyFile(t, path, nil, nil).OK() {
				t.Errorf("byte %d (%q) flipped to %q goes unseen without heads", i, c, c^mask)
			}
		}
		flip(t, f, i, c)
	}
}

func flip(t *testing.T, f *os.File, off int, c byte) {
	t.Helper()
	if _, err := f.WriteAt([]byte{c}, int64(off)); err != nil {
		t.Fatal(err)
	}
}

func TestHeadsFindACutTail(t *testing.T) {
	t.Parallel()
	path, data, _ := written(t, 3)
	heads := noted(t, "run", openLog(t, path, nil))
	first := bytes.IndexByte(data, '\n') + 1
	write(t, path, data[:first])
	if r := verifyFile(t, path, nil, nil); !r.OK() || r.Heads != 0 {
		t.Errorf("without heads a cut looks right, and Heads says that nothing vouched: %+v", r)
	}
	r := verifyFile(t, path, nil, &record.VerifyOptions{Heads: heads, Name: "run"})
	if codes(r) != "record_cut@2" || !strings.Contains(r.Problems[0].Detail, "entries 2 to 5") ||
		!strings.Contains(r.Problems[0].Detail, "test.happened (id b2)") {
		t.Errorf("verify: %+v", r.Problems)
	}
	l := openLog(t, path, nil)
	if err := heads.Check(t.Context(), "run", l); record.CodeOf(err) != record.CodeCut || !strings.Contains(err.Error(), "id b2") {
		t.Errorf("check: %v", err)
	}
	if _, err := heads.Note(t.Context(), "run", l); record.CodeOf(err) != record.CodeCut {
		t.Errorf("note: %v", err)
	}
	if err := heads.Check(t.Context(), "other", l); err != nil {
		t.Errorf("a log without heads: %v", err)
	}
}

func TestHeadsFindARewrite(t *testing.T) {
	t.Parallel()
	path, data, head := written(t, 3)
	heads := noted(t, "run", openLog(t, path, nil))
	for _, more := range []int{0, 2} { // as long as before, and longer
		write(t, path, nil)
		l := openLog(t, path, nil)
		h := record.Head{}
		for i := range int(head.Seq) + more {
			e := recordtest.Entry(fmt.Sprintf("e%d", i+1))
			e.By = "user:8"
			var err error
			if h, err = l.Append(t.Context(), h, e); err != nil {
				t.Fatal(err)
			}
		}
		if r := verifyFile(t, path, nil, nil); !r.OK() {
			t.Fatalf("a rewritten log is sound in itself: %+v", r)
		}
		if got := codes(verifyFile(t, path, nil, &record.VerifyOptions{Heads: heads, Name: "run"})); got != "record_altered@5" {
			t.Errorf("verify: %s", got)
		}
		if err := heads.Check(t.Context(), "run", l); record.CodeOf(err) != record.CodeAltered {
			t.Errorf("check: %v", err)
		}
	}
	write(t, path, data)
	if err := heads.Check(t.Context(), "run", openLog(t, path, nil)); err != nil {
		t.Errorf("the true log: %v", err)
	}
}

func TestHeadsSurviveATornLine(t *testing.T) {
	t.Parallel()
	path, _, head := written(t, 1)
	l := openLog(t, path, nil)
	file := filepath.Join(t.TempDir(), "heads.jsonl")
	open := func() *record.Heads {
		h, err := record.OpenHeads(file, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = h.Close() })
		return h
	}
	a, b := open(), open() // two processes share the file
	for name, h := range map[string]*record.Heads{"a": a, "b": b} {
		if _, err := h.Note(t.Context(), name, l); err != nil {
			t.Fatal(err)
		}
	}
	whole := read(t, file)
	for cut := range 40 {
		write(t, file, append(bytes.Clone(whole), whole[1:cut+2]...))
		h := open()
		next, err := h.Note(t.Context(), fmt.Sprint("new", cut), l)
		if err != nil || next != head {
			t.Fatal(err)
		}
		again := open()
		for _, name := range []string{"a", "b", fmt.Sprint("new", cut)} {
			if n, ok := again.Newest(name); !ok || n.Seq != head.Seq || n.Hash != head.Hash || n.ID != "b2" {
				t.Errorf("cut at %d: %s is %+v", cut, name, n)
			}
		}
		if again.Bad() != 1 {
			t.Errorf("cut at %d: %d bad lines", cut, again.Bad())
		}
	}
}

func TestVerifyChecksBlobs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	blobs := openBlobs(t, filepath.Join(dir, "blobs"), nil)
	path := filepath.Join(dir, "events.jsonl")
	l := openLog(t, path, nil)
	e := recordtest.Entry("a")
	e.Refs = nil
	for _, text := range []string{"kept", "gone", "changed", strings.Repeat("kept ", 2000), strings.Repeat("gone ", 2000), strings.Repeat("changed ", 2000)} {
		r, err := blobs.Put(t.Context(), "", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		e.Refs = append(e.Refs, r, r)
		if strings.HasPrefix(text, "gone") {
			if err := blobs.Erase(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := l.Append(t.Context(), record.Head{}, e); err != nil {
		t.Fatal(err)
	}
	side := filepath.Join(dir, "blobs", "small.jsonl")
	write(t, side, bytes.Replace(read(t, side), []byte("changed"), []byte("Changed"), 1))
	hex := strings.TrimPrefix(e.Refs[10].Digest, "sha256:")
	large := filepath.Join(dir, "blobs", hex[:2], hex)
	write(t, large, bytes.ToUpper(read(t, large)))

	r := verifyFile(t, path, blobs, nil)
	if r.Blobs != (record.BlobReport{Checked: 6, Erased: 2, Altered: 2}) || codes(r) != "blob_altered@1 blob_altered@1" {
		t.Errorf("%+v %s", r.Blobs, codes(r))
	}
	b, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(b), `"blobs":{"checked":6,"erased":2,"altered":2}`) {
		t.Errorf("%s, %v", b, err)
	}
}

func TestVerifyWalksDownIntoChildren(t *testing.T) {
	t.Parallel()
	childPath, childData, childHead := written(t, 1)
	parent := record.NewMemory()
	e := recordtest.Entry("child.ended")
	e.Type = "child.ended"
	if _, err := parent.Append(t.Context(), record.Head{}, e); err != nil {
		t.Fatal(err)
	}
	o := &record.VerifyOptions{Children: func(_ context.Context, e record.Entry) (*record.Child, error) {
		if e.Type != "child.ended" {
			return nil, nil
		}
		return &record.Child{Name: "child", Head: childHead, Log: record.File(childPath)}, nil
	}}
	check := func(want string, wantParent string) {
		t.Helper()
		r, err := record.Verify(t.Context(), parent, nil, o)
		if err != nil || len(r.Children) != 1 {
			t.Fatalf("%+v, %v", r, err)
		}
		if got := codes(r.Children[0]); got != want || codes(r) != wantParent || r.OK() != (want+wantParent == "") {
			t.Errorf("child %q, want %q; parent %q, want %q", got, want, codes(r), wantParent)
		}
	}
	check("", "")
	write(t, childPath, childData[:bytes.IndexByte(childData, '\n')+1])
	check("record_cut@2", "")
	write(t, childPath, bytes.Replace(childData, []byte(`"id":"b2"`), []byte(`"id":"b3"`), 1))
	check("record_altered@3", "")
	if err := os.Remove(childPath); err != nil {
		t.Fatal(err)
	}
	check("", "record_gap@1")

	// A log that refers to itself does not cause an endless walk.
	o.Children = func(context.Context, record.Entry) (*record.Child, error) {
		return &record.Child{Name: "self", Log: parent}, nil
	}
	if r, err := record.Verify(t.Context(), parent, nil, o); err != nil || r.OK() {
		t.Errorf("%v", err)
	}
}

// Lines that changed while the log is open are detected although their chain is
// valid, and none of them is returned.
func TestARewrittenTailIsFoundWhileTheLogIsOpen(t *testing.T) {
	t.Parallel()
	fill := func(path, data string) *record.FileLog {
		l, err := record.OpenFile(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		head := record.Head{}
		for i := range 100 {
			said := `{"a":"x"}`
			if i >= 20 {
				said = data
			}
			if head, err = l.Append(t.Context(), head, record.Entry{V: 1, ID: fmt.Sprint("e", i), At: time.Unix(1, 0).UTC(), Type: "a.b", Data: json.RawMessage(said)}); err != nil {
				t.Fatal(err)
			}
		}
		return l
	}
	dir := t.TempDir()
	open := fill(filepath.Join(dir, "open"), `{"a":"x"}`)
	fill(filepath.Join(dir, "other"), `{"a":"y"}`)
	for from := uint64(1); from <= 60; from++ {
		if n := len(entriesFrom(t, open, from)); n != 101-int(from) {
			t.Fatalf("%d entries from %d", n, from)
		}
	}
	write(t, filepath.Join(dir, "open"), read(t, filepath.Join(dir, "other")))
	given := 0
	for e, err := range open.Read(t.Context(), 1) {
		if err != nil {
			if bad, is := errors.AsType[*record.Error](err); !is || bad.Code != record.CodeAltered || bad.Seq < 17 || bad.Seq > 32 {
				t.Errorf("%v", err)
			}
			break
		}
		if given++; e.Seq > 16 {
			t.Errorf("entry %d is given", e.Seq)
		}
	}
	if given != 16 {
		t.Errorf("%d entries are given, of which 16 are what they were", given)
	}
}

func entriesFrom(t *testing.T, l record.Log, from uint64) (out []record.Entry) {
	t.Helper()
	for e, err := range l.Read(t.Context(), from) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}
