// Package telemetry exports the events of sessions to OpenTelemetry as they are appended: spans for
// a run, its turns, model calls, tool calls and programs, and counters for each skill.
//
//	log ── Follow ──▶ record.Log that tells the trail what it appended
//	trail ── events ──▶ spans and counters of the OpenTelemetry SDK
//	sender ── OTLP over HTTP, protobuf ──▶ the receiver the operator named
//
// It reads the log and makes no decisions. An entry is read back from the log after it was
// appended, so secrets have already been removed. This takes a few microseconds and never blocks:
// spans wait in a bounded queue until a goroutine sends them. A receiver that is slow, down or
// broken loses telemetry but never affects a run. The loss is reported once, and Close takes no
// longer than its context allows.
//
// Attributes are ids, digests, codes, counts and sizes. They never contain text written by users,
// models, skills, tools or programs, nor arguments, paths chosen by a model, or host names.
//
// [TraceID] derives the id of a session's trace from the session's id, so a resumed run continues
// its trace.
package telemetry
