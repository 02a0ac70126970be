package install

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"metier"
)

// breaking is a writer that ends the connection after some bytes.
type breaking struct {
	http.ResponseWriter
	left int
}

func (b *breaking) Write(p []byte) (int, error) {
	n := min(len(p), b.left)
	b.left -= n
	n, err := b.ResponseWriter.Write(p[:n])
	if b.left == 0 {
		_ = http.NewResponseController(b.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	return n, err
}

func TestResume_ContinuesTheSameFile(t *testing.T) {
	t.Parallel()
	const file = "0123456789abcdefghij"
	for name, tt := range map[string]struct {
		etags []string // of each response
		cut   int      // bytes of each response
		want  string
		asked int
	}{
		"once":                 {[]string{`"a"`}, 12, file, 2},
		"three times":          {[]string{`"a"`}, 6, file, 4},
		"too often":            {[]string{`"a"`}, 4, "", 4},
		"no ETag":              {[]string{""}, 12, "", 1},
		"weak ETag":            {[]string{`W/"a"`}, 12, "", 1},
		"another file by then": {[]string{`"a"`, `"b"`}, 12, "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			n := newNetwork(t, func(w http.ResponseWriter, r *http.Request) {
				i := int(asked.Add(1)) - 1
				w.Header().Set("ETag", tt.etags[min(i, len(tt.etags)-1)])
				http.ServeContent(&breaking{w, tt.cut}, r, "pdf.zip", time.Time{}, strings.NewReader(file))
			})
			got, err := n.get("https://example.com/x", 100)
			switch {
			case tt.want == "" && metier.CodeOf(err) != "download_cut":
				t.Errorf("%q, %v", got, err)
			case tt.want != "" && err != nil:
				t.Error(err)
			case tt.want != "":
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
			if diff := cmp.Diff(int64(tt.asked), asked.Load()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

func TestResume_RefusesOtherParts(t *testing.T) {
	t.Parallel()
	for name, part := range map[string]func(w http.ResponseWriter){
		"from the start":   func(w http.ResponseWriter) { partial(w, "bytes 0-19/20", `"a"`, 206) },
		"not to the end":   func(w http.ResponseWriter) { partial(w, "bytes 10-18/20", `"a"`, 206) },
		"of a longer file": func(w http.ResponseWriter) { partial(w, "bytes 10-29/30", `"a"`, 206) },
		"without a range":  func(w http.ResponseWriter) { partial(w, "", `"a"`, 206) },
		"of another file":  func(w http.ResponseWriter) { partial(w, "bytes 10-19/20", `"b"`, 206) },
		"whole":            func(w http.ResponseWriter) { partial(w, "bytes 10-19/20", `"a"`, 200) },
		"a redirect to this machine": func(w http.ResponseWriter) {
			w.Header().Set("Location", "https://127.0.0.1/x")
			w.WriteHeader(http.StatusFound)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNetwork(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Range") != "" {
					part(w)
					return
				}
				w.Header().Set("ETag", `"a"`)
				w.Header().Set("Content-Length", "20")
				(&breaking{w, 10}).Write([]byte("0123456789x"))
			})
			got, err := n.get("https://example.com/x", 100)
			if diff := cmp.Diff("download_cut", metier.CodeOf(err)); diff != "" {
				t.Errorf("%q, %v (-want +got):\n%s", got, err, diff)
			}
			if diff := cmp.Diff("0123456789", got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func partial(w http.ResponseWriter, contentRange, etag string, status int) {
	w.Header().Set("Content-Range", contentRange)
	w.Header().Set("ETag", etag)
	w.WriteHeader(status)
	fmt.Fprint(w, "abcdefghij")
}

func TestResume_KeepsTheLimit(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"a"`)
		http.ServeContent(&breaking{w, 12}, r, "pdf.zip", time.Time{}, bytes.NewReader(make([]byte, 20)))
	})
	_, err := n.get("https://example.com/x", 15)
	if diff := cmp.Diff("download_too_large", metier.CodeOf(err)); diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestResume_ContinuesLayers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		evil bool // the rest is of another blob
		code string
	}{"same": {false, ""}, "another": {true, "digest_mismatch"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newArtifacts(t)
			files := map[string]string{"pdf/SKILL.md": skillText("pdf", "Read.")}
			layer := tarGz(t, files)
			a.skill("pdf", contentType, files, "1")
			var asked atomic.Int64
			a.Before = func(w http.ResponseWriter, r *http.Request) bool {
				if !isBlob(r) {
					return false
				}
				content := bytes.Clone(layer)
				if asked.Add(1) > 1 && tt.evil {
					content[len(content)-1]++
				}
				http.ServeContent(&breaking{w, len(layer)/2 + 1}, r, "", time.Time{}, bytes.NewReader(content))
				return true
			}
			_, err := a.add("oci://example.com/pdf:1")
			if (err != nil || tt.code != "") && metier.CodeOf(err) != tt.code {
				t.Errorf("%v, want %q", err, tt.code)
			}
			if diff := cmp.Diff(int64(2), asked.Load()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}
