// Package telemetrytest is a receiver of OpenTelemetry for tests: a real HTTP
// server that reads OTLP as protobuf.
package telemetrytest

import (
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricpb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// Span is one span as it was received.
type Span struct {
	Name, Trace, ID, Parent string
	Kind                    string
	Attrs                   map[string]string
	Events                  []Event
	Start, End              time.Time
	Error                   string // the description of an error status
	Failed                  bool
}

// Event is an event of a span.
type Event struct {
	Name  string
	Attrs map[string]string
}

// Receiver keeps what it is sent.
type Receiver struct {
	URL    string
	server *httptest.Server

	mu       sync.Mutex
	spans    []Span
	metrics  map[string]int64 // sums, and counts of histograms, the newest value of each
	resource map[string]string
	headers  []http.Header
	raw      []byte
	answers  []int           // status of the next requests; then 200
	hold     <-chan struct{} // requests wait until it is closed
}

// New starts a receiver that ends with the test.
func New(t testing.TB) *Receiver {
	r := &Receiver{metrics: map[string]int64{}, resource: map[string]string{}}
	r.server = httptest.NewServer(http.HandlerFunc(r.serve))
	r.URL = r.server.URL
	t.Cleanup(r.server.Close)
	return r
}

// Answer sets the status of the next requests.
func (r *Receiver) Answer(status ...int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers = status
}

// Hold makes requests wait until a channel is closed.
func (r *Receiver) Hold(until <-chan struct{}) { r.mu.Lock(); defer r.mu.Unlock(); r.hold = until }

func (r *Receiver) serve(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	hold := r.hold
	r.mu.Unlock()
	if hold != nil {
		<-hold
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.headers = append(r.headers, q.Header.Clone())
	if len(r.answers) > 0 {
		status := r.answers[0]
		r.answers = r.answers[1:]
		if status != http.StatusOK {
			w.WriteHeader(status)
			return
		}
	}
	var body io.Reader = q.Body
	if q.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(q.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		body = z
	}
	b, err := io.ReadAll(body)
	if err == nil {
		r.raw = append(r.raw, b...)
		err = r.take(q.URL.Path, b)
	}
	if err != nil || q.Header.Get("Content-Type") != "application/x-protobuf" || q.Method != http.MethodPost {
		w.WriteHeader(http.StatusBadRequest)
	}
}

func (r *Receiver) take(path string, b []byte) error {
	switch path {
	case "/v1/traces":
		var d tracepb.TracesData
		if err := proto.Unmarshal(b, &d); err != nil {
			return err
		}
		for _, rs := range d.ResourceSpans {
			r.resource = attrs(rs.Resource.GetAttributes())
			for _, ss := range rs.ScopeSpans {
				for _, s := range ss.Spans {
					r.spans = append(r.spans, span(s))
				}
			}
		}
		return nil
	case "/v1/metrics":
		var d metricpb.MetricsData
		if err := proto.Unmarshal(b, &d); err != nil {
			return err
		}
		for _, rm := range d.ResourceMetrics {
			for _, sm := range rm.ScopeMetrics {
				for _, m := range sm.Metrics {
					r.metric(m)
				}
			}
		}
		return nil
	}
	return fmt.Errorf("no such path %s", path)
}

func (r *Receiver) metric(m *metricpb.Metric) {
	for _, p := range m.GetSum().GetDataPoints() {
		r.metrics[key(m.Name, p.Attributes)] = p.GetAsInt()
	}
	for _, p := range m.GetHistogram().GetDataPoints() {
		r.metrics[key(m.Name, p.Attributes)] = int64(p.Count)
	}
}

func key(name string, list []*commonpb.KeyValue) string {
	var parts []string
	for k, v := range attrs(list) {
		parts = append(parts, k+"="+v)
	}
	slices.Sort(parts)
	return name + "{" + strings.Join(parts, ",") + "}"
}

func span(s *tracepb.Span) Span {
	out := Span{Name: s.Name, Trace: hex.EncodeToString(s.TraceId), ID: hex.EncodeToString(s.SpanId), Parent: hex.EncodeToString(s.ParentSpanId), Kind: strings.ToLower(strings.TrimPrefix(s.Kind.String(), "SPAN_KIND_")),
		Attrs: attrs(s.Attributes), Start: time.Unix(0, int64(s.StartTimeUnixNano)), End: time.Unix(0, int64(s.EndTimeUnixNano)), Error: s.GetStatus().GetMessage(),
		Failed: s.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR}
	for _, e := range s.Events {
		out.Events = append(out.Events, Event{e.Name, attrs(e.Attributes)})
	}
	return out
}

func attrs(list []*commonpb.KeyValue) map[string]string {
	out := map[string]string{}
	for _, kv := range list {
		out[kv.Key] = text(kv.Value)
	}
	return out
}

func text(v *commonpb.AnyValue) string {
	switch x := v.GetValue().(type) {
	case *commonpb.AnyValue_StringValue:
		return x.StringValue
	case *commonpb.AnyValue_ArrayValue:
		var parts []string
		for _, e := range x.ArrayValue.GetValues() {
			parts = append(parts, text(e))
		}
		return "[" + strings.Join(parts, " ") + "]"
	case *commonpb.AnyValue_IntValue:
		return fmt.Sprint(x.IntValue)
	case *commonpb.AnyValue_BoolValue:
		return fmt.Sprint(x.BoolValue)
	case *commonpb.AnyValue_DoubleValue:
		return fmt.Sprint(x.DoubleValue)
	}
	return ""
}

// Spans are all spans so far, in the order they came.
func (r *Receiver) Spans() []Span { r.mu.Lock(); defer r.mu.Unlock(); return slices.Clone(r.spans) }

// Metric is the newest value of a sum, or the count of a histogram, by
// name{key=value,…}, keys sorted.
func (r *Receiver) Metric(key string) int64 { r.mu.Lock(); defer r.mu.Unlock(); return r.metrics[key] }

// Metrics are the keys of all metrics that came, sorted.
func (r *Receiver) Metrics() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for k := range r.metrics {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// Resource is who sent the spans.
func (r *Receiver) Resource() map[string]string { r.mu.Lock(); defer r.mu.Unlock(); return r.resource }

// Headers are those of each request.
func (r *Receiver) Headers() []http.Header {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.headers)
}

// Raw is all bytes that were sent, uncompressed.
func (r *Receiver) Raw() string { r.mu.Lock(); defer r.mu.Unlock(); return string(r.raw) }
