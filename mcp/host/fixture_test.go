package host_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/fstest"

	"metier"
	"metier/mcp/host"
	"metier/policy"
	"metier/source/embedded"
)

// overHTTP serves over a real connection.
func overHTTP(t *testing.T, label string, h http.Handler) host.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return host.Server{Label: label, Type: "http", URL: s.URL + "/mcp", StartMS: 30_000, CallMS: 20_000}
}

// shelf is a root of local skills.
func shelf(t *testing.T, files map[string]string) metier.Mount {
	t.Helper()
	fs := fstest.MapFS{}
	for p, text := range files {
		fs[p] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	return metier.Mount{Label: "project", Tier: policy.Project, Source: embedded.New(fs)}
}

type locked struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

func textLogger(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(&locked{w: w}, nil)) }
