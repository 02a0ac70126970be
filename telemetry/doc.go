// Package telemetry shows the events of sessions to OpenTelemetry, as they are
// appended: spans for a run, its turns, model calls, tool calls and programs,
// and counters for each skill.
//
//	log ── Follow ──▶ record.Log that tells the trail what it appended
//	trail ── events ──▶ spans and counters of the OpenTelemetry SDK
//	sender ── OTLP over HTTP, protobuf ──▶ the receiver the operator named
//
// It reads the log and decides nothing: an entry is looked at after it was
// appended, as the log gives it back, so secrets are out of it already. Looking
// costs some microseconds and waits for nobody; spans wait in a bounded queue
// for a goroutine that sends them. A receiver that is slow, dead or wrong loses
// telemetry, never a run: that is reported once, and Close takes at most its
// context's time.
//
// Attributes are ids, digests, codes, counts and sizes. What users, models,
// skills, tools and programs wrote is in no attribute; neither are arguments,
// paths a model chose, nor host names.
//
// A session's trace has the id that [TraceID] derives from the session's, so a
// run that is resumed goes on in the trace it began.
package telemetry
