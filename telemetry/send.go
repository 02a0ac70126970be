package telemetry

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	metricpb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// Limits for sending.
const (
	tries      = 3
	firstPause = 100 * time.Millisecond
	longPause  = 2 * time.Second // the longest a receiver may ask for
	maxAnswer  = 64 << 10        // bytes of an answer that are read
)

// sender posts OTLP messages. On the wire, TracesData and MetricsData are identical to the requests
// of the OTLP services, whose own packages would link gRPC.
type sender struct {
	config config
	client *http.Client
	report func(error)
	once   sync.Once
	spans  atomic.Int64 // that were tried
}

func newSender(c config, report func(error)) *sender {
	return &sender{config: c, report: report, client: &http.Client{Timeout: c.timeout,
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 1, ForceAttemptHTTP2: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// failed reports only the first failure.
func (s *sender) failed(err error) { s.once.Do(func() { s.report(err) }) }

// Start implements otlptrace.Client.
func (s *sender) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (s *sender) Stop(context.Context) error { s.client.CloseIdleConnections(); return nil }

// UploadTraces implements otlptrace.Client. It reports errors instead of returning them, because
// the SDK would print them.
func (s *sender) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	for _, r := range spans {
		for _, scope := range r.ScopeSpans {
			s.spans.Add(int64(len(scope.Spans)))
		}
	}
	s.send(ctx, s.config.traces, &tracepb.TracesData{ResourceSpans: spans})
	return nil
}

func (s *sender) uploadMetrics(ctx context.Context, m *metricpb.ResourceMetrics) {
	s.send(ctx, s.config.metrics, &metricpb.MetricsData{ResourceMetrics: []*metricpb.ResourceMetrics{m}})
}

// send posts one message, and retries a few times if the receiver asks for it.
func (s *sender) send(ctx context.Context, to string, m proto.Message) {
	body, err := proto.Marshal(m)
	if err == nil && s.config.gzip {
		body, err = zipped(body)
	}
	pause := firstPause
	for try := 1; err == nil; try++ {
		var again time.Duration
		if again, err = s.post(ctx, to, body); err == nil {
			return
		}
		if again < 0 || try == tries {
			break
		}
		timer := time.NewTimer(min(max(again, pause), longPause))
		select {
		case <-timer.C:
			pause, err = 2*pause, nil
		case <-ctx.Done():
			timer.Stop()
		}
	}
	s.failed(err)
}

// post sends once. again is how long to wait before a retry, or negative if a retry is pointless.
func (s *sender) post(ctx context.Context, to string, body []byte) (again time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return -1, errors.New("the OpenTelemetry endpoint is not a URL")
	}
	for k, v := range s.config.headers[to] {
		req.Header.Set(k, v)
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	if s.config.gzip {
		req.Header.Set("Content-Encoding", "gzip")
	}
	resp, err := s.client.Do(req)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // the URL may hold a password
		}
		return 0, err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer))
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		wait, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return time.Duration(min(max(wait, 0), 60)) * time.Second, fmt.Errorf("the receiver answered %d", resp.StatusCode)
	}
	if resp.StatusCode/100 != 2 {
		return -1, fmt.Errorf("the receiver answered %d", resp.StatusCode)
	}
	return 0, nil
}

func zipped(b []byte) ([]byte, error) {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
