package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricpb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
)

// metricExporter writes the instruments of counters.go as OTLP: integer sums, and histograms. The
// exporter of the SDK would link gRPC.
type metricExporter struct{ *sender }

var _ sdk.Exporter = metricExporter{}

func (metricExporter) Temporality(sdk.InstrumentKind) metricdata.Temporality {
	return metricdata.CumulativeTemporality
}
func (metricExporter) Aggregation(k sdk.InstrumentKind) sdk.Aggregation {
	return sdk.DefaultAggregationSelector(k)
}
func (metricExporter) ForceFlush(context.Context) error { return nil }
func (metricExporter) Shutdown(context.Context) error   { return nil }

// Export reports errors itself, because the SDK would print them.
func (m metricExporter) Export(ctx context.Context, rm *metricdata.ResourceMetrics) error {
	out := &metricpb.ResourceMetrics{Resource: &resourcepb.Resource{Attributes: pairs(rm.Resource.Attributes())}, SchemaUrl: rm.Resource.SchemaURL()}
	for _, scope := range rm.ScopeMetrics {
		s := &metricpb.ScopeMetrics{Scope: &commonpb.InstrumentationScope{Name: scope.Scope.Name, Version: scope.Scope.Version}}
		for _, x := range scope.Metrics {
			p := &metricpb.Metric{Name: x.Name, Description: x.Description, Unit: x.Unit}
			switch data := x.Data.(type) {
			case metricdata.Sum[int64]:
				p.Data = sum(data)
			case metricdata.Histogram[int64]:
				p.Data = histogram(data)
			case metricdata.Histogram[float64]:
				p.Data = histogram(data)
			default:
				continue // counters.go has no other
			}
			s.Metrics = append(s.Metrics, p)
		}
		out.ScopeMetrics = append(out.ScopeMetrics, s)
	}
	if len(out.ScopeMetrics) > 0 {
		m.uploadMetrics(ctx, out)
	}
	return nil
}

const cumulative = metricpb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE

func sum(d metricdata.Sum[int64]) *metricpb.Metric_Sum {
	out := &metricpb.Sum{AggregationTemporality: cumulative, IsMonotonic: d.IsMonotonic}
	for _, x := range d.DataPoints {
		out.DataPoints = append(out.DataPoints, &metricpb.NumberDataPoint{Attributes: pairs(x.Attributes.ToSlice()), StartTimeUnixNano: nano(x.StartTime), TimeUnixNano: nano(x.Time),
			Value: &metricpb.NumberDataPoint_AsInt{AsInt: x.Value}})
	}
	return &metricpb.Metric_Sum{Sum: out}
}

func histogram[N int64 | float64](d metricdata.Histogram[N]) *metricpb.Metric_Histogram {
	out := &metricpb.Histogram{AggregationTemporality: cumulative}
	for _, x := range d.DataPoints {
		total := float64(x.Sum)
		out.DataPoints = append(out.DataPoints, &metricpb.HistogramDataPoint{Attributes: pairs(x.Attributes.ToSlice()), StartTimeUnixNano: nano(x.StartTime), TimeUnixNano: nano(x.Time),
			Count: x.Count, Sum: &total, BucketCounts: x.BucketCounts, ExplicitBounds: x.Bounds})
	}
	return &metricpb.Metric_Histogram{Histogram: out}
}

func nano(t time.Time) uint64 { return uint64(max(t.UnixNano(), 0)) }

func pairs(list []attribute.KeyValue) []*commonpb.KeyValue {
	out := make([]*commonpb.KeyValue, 0, len(list))
	for _, kv := range list {
		v := &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: kv.Value.String()}}
		switch kv.Value.Type() {
		case attribute.BOOL:
			v.Value = &commonpb.AnyValue_BoolValue{BoolValue: kv.Value.AsBool()}
		case attribute.INT64:
			v.Value = &commonpb.AnyValue_IntValue{IntValue: kv.Value.AsInt64()}
		}
		out = append(out, &commonpb.KeyValue{Key: string(kv.Key), Value: v})
	}
	return out
}
