package telemetry

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"iter"
	"strings"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"metier/record"
)

// scope is the instrumentation scope of spans and instruments.
const scope = "metier"

// maxQueue is how many ended spans can wait to be sent. Further spans are dropped, which is
// reported.
const maxQueue = 8192

// Options are the options of New.
type Options struct {
	Version string // of this build
	// Report, if set, is called once with the reason when telemetry is lost. It may be called from
	// any goroutine.
	Report func(error)
}

// Telemetry sends the activity of sessions to one receiver. It is safe for concurrent use.
type Telemetry struct {
	tracer   trace.Tracer
	counters *counters
	spans    *sdktrace.TracerProvider // nil: no traces are sent
	metrics  *sdkmetric.MeterProvider
	sender   *sender
	counted  *counted
}

// New starts the exporters that the environment configures with the OTEL_* variables of the
// OpenTelemetry specification, see [Wanted]. The error names an invalid variable. New sends
// nothing.
func New(ctx context.Context, env func(string) string, o Options) (*Telemetry, error) {
	c, err := configure(env)
	if err != nil {
		return nil, err
	}
	if o.Report == nil {
		o.Report = func(error) {}
	}
	t := &Telemetry{sender: newSender(c, o.Report)}
	res := resource.NewSchemaless(described(c, o.Version)...)
	var spans []sdktrace.TracerProviderOption
	if c.traces != "" {
		exporter, err := otlptrace.New(ctx, t.sender)
		if err != nil {
			return nil, err
		}
		t.counted = &counted{SpanProcessor: sdktrace.NewBatchSpanProcessor(exporter, sdktrace.WithMaxQueueSize(maxQueue), sdktrace.WithExportTimeout(c.timeout))}
		spans = append(spans, sdktrace.WithSpanProcessor(t.counted))
	}
	t.spans = sdktrace.NewTracerProvider(append(spans, sdktrace.WithResource(res), sdktrace.WithIDGenerator(ids{}), sdktrace.WithSampler(sdktrace.AlwaysSample()))...)
	metrics := []sdkmetric.Option{sdkmetric.WithResource(res)}
	if c.metrics != "" {
		metrics = append(metrics, sdkmetric.WithReader(sdkmetric.NewPeriodicReader(metricExporter{t.sender}, sdkmetric.WithTimeout(c.timeout))))
	}
	t.metrics = sdkmetric.NewMeterProvider(metrics...)
	t.tracer = t.spans.Tracer(scope, trace.WithInstrumentationVersion(o.Version))
	t.counters, err = newCounters(t.metrics.Meter(scope))
	return t, err
}

// described returns the resource attributes of this program.
func described(c config, version string) []attribute.KeyValue {
	out := []attribute.KeyValue{attribute.String("service.name", "metier"), attribute.String("service.version", version)}
	for pair := range strings.SplitSeq(c.resource, ",") {
		if k, v, ok := strings.Cut(pair, "="); ok {
			out = append(out, attribute.String(strings.TrimSpace(k), strings.TrimSpace(v)))
		}
	}
	if c.service != "" {
		out = append(out, attribute.String("service.name", c.service))
	}
	return out // the last of a name counts
}

// Close sends what is left and stops, at the latest when its context ends. What has not been sent
// by then is reported as lost.
func (t *Telemetry) Close(ctx context.Context) {
	var wait sync.WaitGroup
	var errs [2]error
	wait.Go(func() { errs[0] = t.spans.Shutdown(ctx) })
	wait.Go(func() { errs[1] = t.metrics.Shutdown(ctx) })
	wait.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.sender.failed(err)
	}
	if t.counted != nil && t.counted.ended.Load() > t.sender.spans.Load() {
		t.sender.failed(errors.New("spans ended faster than they were sent, and some are lost"))
	}
}

// counted counts spans on their way to the queue, because the queue silently drops spans when it is
// full.
type counted struct {
	sdktrace.SpanProcessor
	ended atomic.Int64
}

func (c *counted) OnEnd(s sdktrace.ReadOnlySpan) {
	c.ended.Add(1)
	c.SpanProcessor.OnEnd(s)
}

// TraceID returns the id of a session's trace, in hex.
func TraceID(session string) string { return traceID(session).String() }

func traceID(session string) trace.TraceID {
	sum := sha256.Sum256([]byte("metier session " + session))
	return trace.TraceID(sum[:16])
}

// ids puts each session's spans into the session's trace.
type ids struct{}

type sessionKey struct{}

func (g ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	session, _ := ctx.Value(sessionKey{}).(string)
	id := traceID(session)
	return id, g.NewSpanID(ctx, id)
}

func (ids) NewSpanID(context.Context, trace.TraceID) (out trace.SpanID) {
	_, _ = rand.Read(out[:]) // the kernel's generator does not fail
	return out
}

// Follow returns the log, wrapped so that entries appended from now on are exported as the spans
// and counts of a session. stop ends the spans that are open.
func (t *Telemetry) Follow(ctx context.Context, session string, log record.Log) (_ record.Log, stop func(), err error) {
	head, err := log.Head(ctx)
	if err != nil {
		return nil, nil, err
	}
	f := &followed{Log: log, seen: head.Seq, trail: newTrail(t, session)}
	stop = func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.trail.close()
	}
	if y, ok := log.(record.Syncer); ok {
		return &syncing{f, y}, stop, nil
	}
	return f, stop, nil
}

// followed is a log whose entries are exported after each append.
type followed struct {
	record.Log
	mu    sync.Mutex
	seen  uint64
	trail *trail
}

// syncing is a followed log that can be made durable.
type syncing struct {
	*followed
	record.Syncer
}

// Append implements record.Log. Entries are exported as stored in the log and in log order,
// including those of other writers. If they cannot be read, the user of the log will find out.
func (f *followed) Append(ctx context.Context, after record.Head, e ...record.Entry) (record.Head, error) {
	head, err := f.Log.Append(ctx, after, e...)
	if err != nil {
		return head, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for en, err := range read(context.WithoutCancel(ctx), f.Log, f.seen+1, head.Seq) {
		if err != nil {
			break
		}
		f.seen = en.Seq
		f.trail.show(en)
	}
	return head, nil
}

// read yields the entries of a range.
func read(ctx context.Context, log record.Log, from, to uint64) iter.Seq2[record.Entry, error] {
	return func(yield func(record.Entry, error) bool) {
		if from > to {
			return
		}
		for en, err := range log.Read(ctx, from) {
			if !yield(en, err) || err != nil || en.Seq >= to {
				return
			}
		}
	}
}
