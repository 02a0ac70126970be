// Package agent drives the step machine of agent/step on one machine: it asks
// the model, runs the tools through Session.Call, appends what happened to the
// log and folds it. It decides nothing itself: what comes next is the
// machine's, what may happen is policy's, and what is true is the log's.
//
//	          ┌────────── log ◀───────────┐
//	 fold ▼                               │ append
//	step.State ─Next▶ actions ─▶ model, Session.Call, answers, compaction
//
// A Run may be stopped at any point, by a signal or by kill -9: Run on the same
// log goes on. Model calls in flight are asked again, claimed reads too, a
// write compares its intent's digests, and a side effect is reported as
// unknown.
package agent
