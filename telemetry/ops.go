package telemetry

import (
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"metier/event"
	"metier/settings"
)

func (l *trail) modelStarted(e event.ModelStarted) {
	l.turnOf(e.ID)
	l.start(e.ID, "chat "+modelName(l.model), trace.SpanKindClient, attribute.String("gen_ai.operation.name", "chat"), attribute.String("gen_ai.provider.name", provider(l.model)),
		attribute.String("gen_ai.request.model", modelName(l.model)), attribute.Int("metier.try", e.Try), attribute.String("metier.request.digest", e.Request))
}

// took returns how long an op has been running.
func (l *trail) took(id string) time.Duration {
	if o, is := l.ops[id]; is {
		return l.at.Sub(o.began)
	}
	return 0
}

func (l *trail) chat(more ...attribute.KeyValue) []attribute.KeyValue {
	return append(more, attribute.String("gen_ai.operation.name", "chat"), attribute.String("gen_ai.provider.name", provider(l.model)), attribute.String("gen_ai.request.model", modelName(l.model)))
}

func (l *trail) replied(e event.ModelReplied) {
	l.t.counters.modelCall(l.ctx, l.took(e.ID), e.Usage.Input, e.Usage.Output, l.chat()...)
	l.end(e.ID, "", attribute.String("gen_ai.response.model", short(e.Model)), attribute.StringSlice("gen_ai.response.finish_reasons", []string{short(e.Stop)}),
		attribute.Int64("gen_ai.usage.input_tokens", e.Usage.Input), attribute.Int64("gen_ai.usage.output_tokens", e.Usage.Output),
		attribute.Int64("gen_ai.usage.cache_read.input_tokens", e.Usage.CacheRead), attribute.Int64("gen_ai.usage.cache_creation.input_tokens", e.Usage.CacheWrite),
		attribute.Int("metier.calls", len(e.Calls)))
}

func (l *trail) modelFailed(e event.ModelFailed) {
	l.t.counters.modelCall(l.ctx, l.took(e.ID), 0, 0, l.chat(attribute.String(errorType, short(e.Code)))...)
	l.end(e.ID, e.Code, attribute.Int("http.response.status_code", e.Status), attribute.Bool("metier.retry", e.Retry))
}

// decided opens the span of a call. A denial ends it at once. A question leaves it open until it is
// answered.
func (l *trail) decided(e event.PolicyDecided) {
	l.t.counters.decisions.Add(l.ctx, 1, metric.WithAttributes(attribute.String(keyOutcome, e.Verdict()), attribute.String(keyCode, short(e.Code)), attribute.String("gen_ai.tool.name", short(e.Tool))))
	if e.Stage != "call" {
		l.point(e.Type(), l.op(e.Call), attribute.String(keyOutcome, e.Verdict()), attribute.String(keyCode, short(e.Code)))
		return
	}
	c := call{skill: e.Skill}
	var active []string
	for _, s := range e.Active {
		active = append(active, s.Digest)
		if s.ID == e.Skill {
			c.tier = s.Tier
		}
	}
	l.calls[e.Call] = c
	l.tool(e.Call, e.Tool).span.SetAttributes(attribute.String(keyOutcome, e.Verdict()), attribute.String("metier.policy.code", short(e.Code)), attribute.String("metier.effect", string(e.Effect)),
		attribute.StringSlice(keyActive, active), attribute.String("metier.actor", string(e.Actor)))
	if e.Skill != "" {
		l.op(e.Call).SetAttributes(attribute.String(keySkillID, e.Skill))
	}
}

func (l *trail) tool(id, name string) open {
	return l.start(id, "execute_tool "+short(name), trace.SpanKindInternal, attribute.String("gen_ai.operation.name", "execute_tool"), attribute.String("gen_ai.tool.name", short(name)),
		attribute.String("gen_ai.tool.call.id", short(id)), attribute.String("gen_ai.tool.type", "function"))
}

func (l *trail) started(e event.ToolCallStarted) {
	l.tool(e.ID, e.Tool).span.SetAttributes(attribute.Int("metier.try", e.Try))
}

func (l *trail) returned(e event.ToolResult) {
	l.tool(e.ID, e.Tool)
	c := l.calls[e.ID]
	delete(l.calls, e.ID)
	if e.Code != "" {
		reason := attribute.String(keyCode, short(e.Code))
		switch e.Tool {
		case settings.ToolLoadSkill:
			l.t.counters.activationFailures.Add(l.ctx, 1, ofSkill(c.skill, c.tier, reason))
		case settings.ToolRunSkillScript:
			l.t.counters.scriptFailures.Add(l.ctx, 1, ofSkill(c.skill, c.tier, reason))
		}
	}
	l.end(e.ID, e.Code, attribute.String("metier.content.digest", e.Content.Digest), attribute.Int64("metier.content.bytes", e.Content.Size))
}

func (l *trail) read(e event.ResourceRead) {
	if e.Status == "error" {
		l.t.counters.readErrors.Add(l.ctx, 1, ofSkill(e.SkillID, e.Source, attribute.String(keyCode, short(e.Code))))
	} else {
		l.t.counters.reads.Add(l.ctx, 1, ofSkill(e.SkillID, e.Source))
	}
	attrs := []attribute.KeyValue{attribute.String(keySkillID, e.SkillID), attribute.String("metier.read.status", e.Status), attribute.String("metier.resource.kind", e.Kind), attribute.String("metier.resource.digest", e.ObservedDigest)}
	if e.Code != "" {
		attrs = append(attrs, attribute.String(keyCode, short(e.Code)))
	}
	l.point(e.Type(), l.op(e.Call), attrs...)
}

// script adds the span of a script below that of its call. The path is included only if it is in
// the skill's index: then it was chosen by the skill and not by the model.
func (l *trail) script(e event.ScriptExecuted) {
	attrs := skill(e.SkillID, e.Source, e.Hash, attribute.String("metier.skill.tree", e.Tree), attribute.String("metier.script.digest", e.ObservedDigest))
	if e.RegistryDigest != "" {
		attrs = append(attrs, attribute.String("metier.script.path", short(e.Path)))
	}
	if e.Status == "executed" {
		l.t.counters.scriptRuns.Add(l.ctx, 1, ofSkill(e.SkillID, e.Source.Or(), attribute.String(keyBackend, e.Backend)))
	}
	l.program("run_script", e.Execution, attrs...)
}

// program adds the span of one program. Its start is computed back from the time of the entry,
// which was written when the program ended.
func (l *trail) program(name string, e event.Execution, attrs ...attribute.KeyValue) {
	parent := l.parent()
	if o, is := l.ops[e.Call]; is {
		parent = o.ctx
	}
	attrs = append(attrs, attribute.String(keyExecuted, e.Status), attribute.String("metier.program.target", e.Target), attribute.String(keyBackend, e.Backend), attribute.String("metier.sandbox.level", e.Level),
		attribute.String("metier.program.runtime", e.Runtime), attribute.Bool("metier.sandbox.network", e.Network != ""), attribute.Int("metier.sandbox.hosts", len(e.Hosts)),
		attribute.Int64("metier.stdout.bytes", e.Stdout.Size), attribute.Int64("metier.stderr.bytes", e.Stderr.Size), attribute.Bool("metier.truncated", e.StdoutTruncated || e.StderrTruncated),
		attribute.Int64("metier.cpu.ms", e.CPUMS), attribute.Int64("metier.memory.bytes", e.MaxRSS), attribute.StringSlice("metier.notes", e.Notes))
	code := e.Code
	if e.Exit != nil {
		attrs = append(attrs, attribute.Int("process.exit.code", *e.Exit))
		if *e.Exit != 0 {
			code = "exit"
		}
	}
	if e.Signal != "" {
		code = "signal"
		attrs = append(attrs, attribute.String("metier.signal", short(e.Signal)))
	}
	if e.Limit != "" {
		code = "limit"
		attrs = append(attrs, attribute.String("metier.limit", short(e.Limit)))
	}
	_, span := l.t.tracer.Start(parent, name, trace.WithTimestamp(l.at.Add(-time.Duration(e.WallMS)*time.Millisecond)), trace.WithAttributes(attrs...))
	l.fail(span, code)
	span.End(trace.WithTimestamp(l.at))
}
