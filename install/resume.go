package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// maxResumes limits how often a broken download is continued.
const maxResumes = 3

// errWhole reports a server that can only send the whole file, or has another one now.
var errWhole = errors.New("the server cannot continue the download")

// resuming reads a download, and continues it if the connection breaks.
type resuming struct {
	ctx   context.Context
	body  io.ReadCloser
	again func(from int64) (io.ReadCloser, error) // requests the rest
	n     int64                                   // bytes read
	tried int
}

// Read reads the next bytes, if necessary from a new connection.
func (r *resuming) Read(p []byte) (int, error) {
	n, err := r.body.Read(p)
	r.n += int64(n)
	if err == nil || errors.Is(err, io.EOF) || r.ctx.Err() != nil {
		return n, err
	}
	for ; r.tried < maxResumes; r.tried++ {
		rest, failed := r.again(r.n)
		if errors.Is(failed, errWhole) {
			break
		}
		if failed == nil {
			r.tried++
			_ = r.body.Close()
			r.body = rest
			return n, nil
		}
	}
	return n, err
}

// Close ends the connection.
func (r *resuming) Close() error { return r.body.Close() }

// resumed returns the body of a response, which is continued if the server identifies the file with a
// strong ETag: only then the parts are of the same file.
func (w *web) resumed(ctx context.Context, u *url.URL, res *http.Response) io.ReadCloser {
	tag := res.Header.Get("ETag")
	if !strings.HasPrefix(tag, `"`) {
		return res.Body
	}
	return &resuming{ctx: ctx, body: res.Body, again: func(from int64) (io.ReadCloser, error) {
		rest, err := w.request(ctx, u, http.Header{"Range": {fmt.Sprintf("bytes=%d-", from)}, "If-Range": {tag}})
		if err != nil {
			return nil, err
		}
		if rest.StatusCode != http.StatusPartialContent || rest.Header.Get("ETag") != tag || !continues(rest, from, res.ContentLength) {
			_ = rest.Body.Close()
			return nil, errWhole
		}
		return rest.Body, nil
	}}
}

// continues reports whether a partial response begins at a byte, and goes to the end of a file. total is
// the size of the file, or -1 if it is not known.
func continues(res *http.Response, from, total int64) bool {
	var first, last, size int64
	if n, err := fmt.Sscanf(res.Header.Get("Content-Range"), "bytes %d-%d/%d", &first, &last, &size); n != 3 || err != nil {
		return false
	}
	return first == from && last == size-1 && (total < 0 || size == total)
}

// resumedBlob returns a reader of the body of a blob, which is continued if the registry can send parts.
// Its bytes have a digest, so parts of another blob would be noticed. The caller closes the body.
func resumedBlob(ctx context.Context, body io.ReadCloser) io.Reader {
	parts, ok := body.(io.ReadSeekCloser)
	if !ok {
		return body
	}
	return &resuming{ctx: ctx, body: io.NopCloser(parts), again: func(from int64) (io.ReadCloser, error) {
		if _, err := parts.Seek(0, io.SeekEnd); err != nil { // otherwise, seeking to the same byte does nothing
			return nil, err
		}
		_, err := parts.Seek(from, io.SeekStart)
		return io.NopCloser(parts), err
	}}
}
