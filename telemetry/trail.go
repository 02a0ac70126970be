package telemetry

import (
	"context"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"metier/event"
	"metier/policy"
	"metier/record"
)

// metier's own attributes. Those of the GenAI conventions are written out where they are used,
// because their package has hundreds and changes with each version.
const (
	keySkillID  = "metier.skill.id"
	keyTier     = "metier.skill.tier"
	keyDigest   = "metier.skill.digest"
	keyCode     = "metier.code"
	keyBackend  = "metier.sandbox.backend"
	keyOutcome  = "metier.policy.outcome"
	keySeq      = "metier.record.seq"
	errorType   = "error.type"
	keyActive   = "metier.skills.active" // digests
	keyExecuted = "metier.program.status"
)

// trail turns the entries of one session, in order, into spans and counts. It is a fold whose only
// state is what is open.
type trail struct {
	t       *Telemetry
	ctx     context.Context // names the session
	session string
	at      time.Time // of the newest entry

	root  *open           // the run, or what of a session is outside of one
	turn  *open           // of the model
	turnN string          // its number
	ops   map[string]open // model calls and tool calls, by id
	model string          // the run was begun with
	calls map[string]call
}

// open is a span that has not ended.
type open struct {
	span  trace.Span
	ctx   context.Context
	began time.Time
}

// call is what is known about a tool call before it returns.
type call struct {
	skill string
	tier  policy.Tier
}

func newTrail(t *Telemetry, session string) *trail {
	return &trail{t: t, session: session, ctx: context.WithValue(context.Background(), sessionKey{}, session), ops: map[string]open{}, calls: map[string]call{}}
}

// show handles the next entry. Entries unknown to this build are ignored.
func (l *trail) show(en record.Entry) {
	e, err := event.Decode(en)
	if err != nil {
		return
	}
	l.at = en.At
	if l.root == nil {
		l.begin()
	}
	switch e := e.(type) {
	case event.RunStarted:
		l.begun(e)
	case event.RunResumed:
		l.point(e.Type(), nil, attribute.Int("metier.skills.verified", e.Verified), attribute.Int("metier.skills.drifted", e.Drifted))
	case event.RunWaiting:
		l.point(e.Type(), nil, attribute.Int("metier.questions", len(e.Asks)))
		l.finish("parked", "")
	case event.RunEnded:
		l.finish(e.Status, e.Code)
	case event.SessionEnded:
		l.finish("ended", "")
	case event.ModelStarted:
		l.modelStarted(e)
	case event.ModelReplied:
		l.replied(e)
	case event.ModelFailed:
		l.modelFailed(e)
	case event.ContextCompacted:
		l.end(e.ID, "", attribute.Int64("gen_ai.usage.input_tokens", e.Usage.Input), attribute.Int64("gen_ai.usage.output_tokens", e.Usage.Output))
	default:
		l.acted(en, e)
	}
}

// acted handles the events of tools and skills.
func (l *trail) acted(en record.Entry, e event.Event) {
	switch e := e.(type) {
	case event.PolicyDecided:
		l.decided(e)
	case event.ToolCallStarted:
		l.started(e)
	case event.ToolResult:
		l.returned(e)
	case event.ToolCallLost:
		l.end(e.ID, "outcome_unknown")
	case event.SkillActivated:
		l.t.counters.activations.Add(l.ctx, 1, ofSkill(e.SkillID, e.Source.Or(), attribute.String("metier.activation.source", e.ActivationSource)))
		l.point(e.Type(), l.op(e.Call), skill(e.SkillID, e.Source, e.Hash, attribute.String("metier.activation.source", e.ActivationSource), attribute.String("metier.skill.tree", e.Tree))...)
	case event.ResourceRead:
		l.read(e)
	case event.ScriptExecuted:
		l.script(e)
	case event.CommandExecuted:
		l.program("run_command", e.Execution)
	case event.PageFetched:
		l.point(e.Type(), l.op(e.Call), attribute.String(keyExecuted, e.Status), attribute.Int("http.response.status_code", e.HTTP), attribute.Int64("metier.bytes", e.Size), attribute.Int("metier.sandbox.hosts", len(e.Hosts)))
	case event.Staged:
		l.point(e.Type(), l.op(e.Call), attribute.String(keySkillID, e.SkillID), attribute.String("metier.skill.tree", e.Tree), attribute.Int("metier.files", e.Files), attribute.Int64("metier.bytes", e.Bytes))
	case event.SkillsDiscovered:
		l.point(e.Type(), nil, attribute.Int("metier.skills.loaded", e.Loaded), attribute.Int("metier.skills.other", e.Other), attribute.String("metier.registry.digest", e.Registry.Digest))
	case event.PackagesRequested:
		l.point(e.Type(), l.op(e.Call), attribute.String(keySkillID, e.SkillID), attribute.Int("metier.packages", len(e.Packages)), attribute.Bool("metier.rejected", e.Rejected))
	case event.SkillDrifted, event.SkillSuspected, event.ApprovalRequested, event.ApprovalAnswered, event.ApprovalExpired, event.RunStopped, event.RunLimited, event.RecordRecovered, event.ChildEnded, event.OutputChecked, event.CatalogSent:
		l.point(e.Type(), nil, attribute.Int64(keySeq, int64(en.Seq)))
	}
}

// begin opens the root span. It is the session's until a run begins.
func (l *trail) begin() {
	ctx, span := l.t.tracer.Start(l.ctx, "metier.session", trace.WithNewRoot(), trace.WithTimestamp(l.at), trace.WithSpanKind(trace.SpanKindInternal),
		trace.WithAttributes(attribute.String("gen_ai.conversation.id", l.session)))
	l.root = &open{span, ctx, l.at}
}

// begun turns the root span into that of an agent run.
func (l *trail) begun(e event.RunStarted) {
	l.model = e.Model
	l.root.span.SetName("invoke_agent metier")
	l.root.span.SetAttributes(attribute.String("gen_ai.operation.name", "invoke_agent"), attribute.String("gen_ai.agent.name", "metier"), attribute.String("gen_ai.provider.name", provider(e.Model)),
		attribute.String("gen_ai.request.model", modelName(e.Model)), attribute.String("metier.run.id", e.Run))
}

// finish ends the run's spans.
func (l *trail) finish(status, code string) {
	l.endTurn()
	l.root.span.SetAttributes(attribute.String("metier.run.status", status))
	l.fail(l.root.span, code)
	l.root.span.End(trace.WithTimestamp(l.at))
	l.root = nil
}

// close ends all open spans at the time of the newest entry, because their actual end is unknown.
func (l *trail) close() {
	for id := range l.ops {
		l.end(id, "interrupted")
	}
	l.endTurn()
	if l.root != nil {
		l.root.span.End(trace.WithTimestamp(l.at))
		l.root = nil
	}
}

func (l *trail) endTurn() {
	if l.turn != nil {
		l.turn.span.End(trace.WithTimestamp(l.at))
		l.turn = nil
	}
}

// parent returns the context that is the parent of the spans of a turn's ops.
func (l *trail) parent() context.Context {
	if l.turn != nil {
		return l.turn.ctx
	}
	return l.root.ctx
}

func (l *trail) start(id, name string, kind trace.SpanKind, attrs ...attribute.KeyValue) open {
	if o, is := l.ops[id]; is {
		return o
	}
	ctx, span := l.t.tracer.Start(l.parent(), name, trace.WithTimestamp(l.at), trace.WithSpanKind(kind), trace.WithAttributes(attrs...))
	o := open{span, ctx, l.at}
	l.ops[id] = o
	return o
}

// end closes the span of an op. A code means that it failed.
func (l *trail) end(id, code string, attrs ...attribute.KeyValue) {
	o, is := l.ops[id]
	if !is {
		return
	}
	o.span.SetAttributes(attrs...)
	l.fail(o.span, code)
	o.span.End(trace.WithTimestamp(l.at))
	delete(l.ops, id)
}

func (l *trail) fail(span trace.Span, code string) {
	if code != "" {
		span.SetAttributes(attribute.String(errorType, short(code)))
		span.SetStatus(codes.Error, short(code))
	}
}

// op returns the span of a call, or nil.
func (l *trail) op(id string) trace.Span {
	if o, is := l.ops[id]; is {
		return o.span
	}
	return nil
}

// point adds an event to a span, or to the run's span if it is nil.
func (l *trail) point(name string, to trace.Span, attrs ...attribute.KeyValue) {
	if to == nil {
		to = l.root.span
	}
	to.AddEvent(name, trace.WithTimestamp(l.at), trace.WithAttributes(attrs...))
}

// turnOf opens the span of the turn that an op of the agent loop belongs to, such as t3 for t3.m.
func (l *trail) turnOf(id string) {
	n, _, ok := strings.Cut(strings.TrimPrefix(id, "t"), ".")
	if _, err := strconv.Atoi(n); !ok || err != nil || l.turn != nil && l.turnN == n {
		return
	}
	l.endTurn()
	ctx, span := l.t.tracer.Start(l.root.ctx, "metier.turn", trace.WithTimestamp(l.at), trace.WithAttributes(attribute.String("metier.turn", n)))
	l.turn, l.turnN = &open{span, ctx, l.at}, n
}

// provider returns the provider in a model name of the form provider:model.
func provider(model string) string {
	p, _, _ := strings.Cut(model, ":")
	return short(p)
}

func modelName(model string) string {
	if _, m, ok := strings.Cut(model, ":"); ok {
		return short(m)
	}
	return short(model)
}

// short limits an id or a code to one short line of plain characters.
func short(s string) string {
	const most = 128
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == 0xfffd || r >= 0x80 && r < 0xa0 {
			return -1
		}
		return r
	}, s)
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "")
	}
	return s
}

func skill(id string, tier policy.Tier, digest string, more ...attribute.KeyValue) []attribute.KeyValue {
	return append([]attribute.KeyValue{attribute.String(keySkillID, id), attribute.String(keyTier, string(tier.Or())), attribute.String(keyDigest, digest)}, more...)
}
