package telemetry

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"metier/policy"
)

// counters are the metric instruments: those for skills and decisions, and those of the GenAI
// conventions.
type counters struct {
	activations, activationFailures, reads, readErrors, scriptRuns, scriptFailures, decisions metric.Int64Counter
	tokens                                                                                    metric.Int64Histogram
	duration                                                                                  metric.Float64Histogram
}

func newCounters(m metric.Meter) (*counters, error) {
	c := &counters{}
	var errs []error
	for _, x := range []struct {
		to         *metric.Int64Counter
		name, unit string
		what       string
	}{
		{&c.activations, "metier.skill.activations", "{activation}", "Instructions of a skill that entered a session"},
		{&c.activationFailures, "metier.skill.activation_failures", "{call}", "Calls that were to load a skill and did not"},
		{&c.reads, "metier.skill.resource_reads", "{read}", "Files of a skill that were read"},
		{&c.readErrors, "metier.skill.resource_read_errors", "{read}", "Reads of a skill's files that failed"},
		{&c.scriptRuns, "metier.skill.script_runs", "{run}", "Scripts of a skill that ran, however they ended"},
		{&c.scriptFailures, "metier.skill.script_failures", "{call}", "Calls of a skill's scripts that failed or were refused"},
		{&c.decisions, "metier.policy.decisions", "{decision}", "Decisions of policy"},
	} {
		var err error
		*x.to, err = m.Int64Counter(x.name, metric.WithUnit(x.unit), metric.WithDescription(x.what))
		errs = append(errs, err)
	}
	var err error
	c.tokens, err = m.Int64Histogram("gen_ai.client.token.usage", metric.WithUnit("{token}"), metric.WithDescription("Tokens of a model call"),
		metric.WithExplicitBucketBoundaries(1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864))
	errs = append(errs, err)
	c.duration, err = m.Float64Histogram("gen_ai.client.operation.duration", metric.WithUnit("s"), metric.WithDescription("Time of a model call"),
		metric.WithExplicitBucketBoundaries(0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92))
	return c, errors.Join(append(errs, err)...)
}

// ofSkill returns the attributes for a skill and its tier. Unknown values are omitted.
func ofSkill(id string, tier policy.Tier, more ...attribute.KeyValue) metric.AddOption {
	if id != "" {
		more = append(more, attribute.String(keySkillID, id))
	}
	if tier != "" {
		more = append(more, attribute.String(keyTier, string(tier)))
	}
	return metric.WithAttributes(more...)
}

func (c *counters) modelCall(ctx context.Context, took time.Duration, input, output int64, attrs ...attribute.KeyValue) {
	c.duration.Record(ctx, took.Seconds(), metric.WithAttributes(attrs...))
	for kind, n := range map[string]int64{"input": input, "output": output} {
		if n > 0 {
			c.tokens.Record(ctx, n, metric.WithAttributes(append([]attribute.KeyValue{attribute.String("gen_ai.token.type", kind)}, attrs...)...))
		}
	}
}
