package wire

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// events reads everything; err is nil at a clean end.
func events(r *Reader) (out []Event, err error) {
	for {
		e, err := r.Next()
		if err != nil {
			if _, again := r.Next(); again != err {
				return out, errors.New("the error did not stay")
			}
			if err == io.EOF {
				err = nil
			}
			return out, err
		}
		e.Data = append([]byte{}, e.Data...)
		out = append(out, e)
	}
}

func plain(data string) Event { return Event{Data: []byte(data)} }

func TestReaderReadsEveryFormTheStandardAllows(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, in string
		want     []Event
	}{
		{"line feeds", "data: a\n\ndata: b\n\n", []Event{plain("a"), plain("b")}},
		{"carriage returns and line feeds", "data: a\r\n\r\ndata: b\r\n\r\n", []Event{plain("a"), plain("b")}},
		{"carriage returns", "data: a\r\rdata: b\r\r", []Event{plain("a"), plain("b")}},
		{"mixed line ends", "data: a\r\n\ndata: b\n\rdata: c\r\r\n", []Event{plain("a"), plain("b"), plain("c")}},
		{"several lines", "data: a\ndata:\ndata:  b\n\n", []Event{plain("a\n\n b")}},
		{"no space", "data:a\n\n", []Event{plain("a")}},
		{"empty data", "data:\n\ndata\n\n", []Event{plain(""), plain("")}},
		{"a name", "event: error\ndata: a\n\ndata: b\n\n", []Event{{Name: "error", Data: []byte("a")}, plain("b")}},
		{"a name without data", "event: ping\n\ndata: a\n\n", []Event{plain("a")}},
		{"comments and other fields", ": OK\n\n:\nid: 1\nretry: 5\nsurprise\ndata: a\n: more\n\n", []Event{plain("a")}},
		{"a byte order mark", "\xEF\xBB\xBFdata: a\n\n", []Event{plain("a")}},
		{"a byte order mark alone on its line", "\xEF\xBB\xBF\n\xEF\xBB\xBFdata: a\n\ndata: b\n\n", []Event{plain("b")}},
		{"no empty line at the end", "data: a\n\ndata: b\n", []Event{plain("a"), {Data: []byte("b"), Open: true}}},
		{"no line end at the end", "event: x\ndata: b", []Event{{Name: "x", Data: []byte("b"), Open: true}}},
		{"a cut field", "data: a\n\ndat", []Event{plain("a")}},
		{"nothing", "", nil},
		{"empty lines", "\n\r\n\r\r", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, r := range []io.Reader{strings.NewReader(tt.in), iotest.OneByteReader(strings.NewReader(tt.in)), iotest.DataErrReader(strings.NewReader(tt.in))} {
				got, err := events(NewReader(r, 100, 1000))
				if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
					t.Errorf("%v (-want +got):\n%s", err, diff)
				}
			}
		})
	}
}

func TestReaderRefusesWhatIsTooLong(t *testing.T) {
	t.Parallel()
	endless := func(s string) io.Reader { return &repeat{s: s} }
	for _, tt := range []struct {
		name  string
		in    io.Reader
		read  int
		error error
	}{
		{"an endless line", endless("data: a"), 0, errLongEvent},
		{"an event of endless lines", endless("data: a\n"), 0, errLongEvent},
		{"an event of endless comments", io.MultiReader(strings.NewReader("data: a\n"), endless(": a\n")), 0, errLongEvent},
		{"endless comments", endless(": a\n\n"), 0, errLongStream},
		{"endless line ends", endless("\n"), 0, errLongStream},
		{"endless events", endless("data: aa\n\n"), 100, errLongStream},
		{"an event of the full length", strings.NewReader("data: " + strings.Repeat("x", 94) + "\n\n"), 1, nil},
		{"one byte more", strings.NewReader("data: " + strings.Repeat("x", 95) + "\n\n"), 0, errLongEvent},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got, err := events(NewReader(tt.in, 100, 1000)); err != tt.error || len(got) != tt.read {
				t.Errorf("%d events, then %v, want %d, then %v", len(got), err, tt.read, tt.error)
			}
		})
	}
}

func TestReaderTellsACutFromAnEnd(t *testing.T) {
	t.Parallel()
	cut := errors.New("cut")
	for _, in := range []string{"data: a\n\ndata: b", "data: a\n\ndata: b\n", "data: a\n\nevent: x\n"} {
		got, err := events(NewReader(io.MultiReader(strings.NewReader(in), iotest.ErrReader(cut)), 100, 1000))
		if err != cut || len(got) != 1 {
			t.Errorf("%q: %d events, then %v", in, len(got), err)
		}
	}
}

// An event is returned as soon as its last byte arrives, so that a reply is not shown
// one event late.
func TestReaderWaitsForNoByteMore(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"\n\n", "\r\r", "\r\n\r"} {
		in, w := io.Pipe()
		r := NewReader(in, 100, 1000)
		go func() { _, _ = io.WriteString(w, "data: a"+end) }() // the other end is read below
		if e, err := r.Next(); err != nil || string(e.Data) != "a" {
			t.Errorf("%q: %q, %v", end, e.Data, err)
		}
		_ = in.Close() // unblocks the writer
	}
}

// repeat is s without end.
type repeat struct {
	s  string
	at int
}

func (r *repeat) Read(p []byte) (n int, err error) {
	for n < len(p) {
		k := copy(p[n:], r.s[r.at:])
		n, r.at = n+k, (r.at+k)%len(r.s)
	}
	return n, nil
}

// naive is the standard's algorithm without streaming or limits.
func naive(s string) (out []Event) {
	s = strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
	s = strings.TrimPrefix(s, "\xEF\xBB\xBF")
	lines := strings.Split(s, "\n")
	e, data := Event{}, []string(nil)
	for i, l := range lines {
		field, value, _ := strings.Cut(l, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case l == "" && i < len(lines)-1:
			if data != nil {
				e.Data = []byte(strings.Join(data, "\n"))
				out = append(out, e)
			}
			e, data = Event{}, nil
		case field == "event":
			e.Name = value
		case field == "data" && l != "":
			data = append(data, value)
		}
	}
	if data != nil {
		e.Data, e.Open = []byte(strings.Join(data, "\n")), true
		out = append(out, e)
	}
	return out
}

func FuzzReader(f *testing.F) {
	for _, s := range []string{"data: a\n\n", "event: x\r\ndata: a\r\ndata: b\r\n\r\n", "\xEF\xBB\xBFdata\r\r\n\n:c\ndata:  x", "data: {}\n\ndata: [DONE]\n\n", "id: 1\n\r\r\ndata:\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want := naive(s)
		for name, r := range map[string]io.Reader{"at once": strings.NewReader(s), "byte by byte": iotest.OneByteReader(strings.NewReader(s)), "in halves": iotest.HalfReader(strings.NewReader(s))} {
			got, err := events(NewReader(r, len(s), int64(len(s))))
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
			}
		}
		got, err := events(NewReader(strings.NewReader(s), 8, 64)) // small limits
		if err == nil && !cmp.Equal(want, got) || len(got) > len(want) {
			t.Errorf("with limits: %v, %d events of %d", err, len(got), len(want))
		}
	})
}
