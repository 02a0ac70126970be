// Package agent drives the step machine of agent/step: it calls the model, runs
// tools through Session.Call, appends the results to the log, and folds it. It
// makes no decisions itself: the step machine determines the next actions,
// policy decides which calls may happen, and the log determines the state.
//
//	          ┌────────── log ◀───────────┐
//	 fold ▼                               │ append
//	step.State ─Next▶ actions ─▶ model, Session.Call, answers, compaction
//
// A run can be stopped at any point, by a signal or by kill -9. Calling [Run]
// with the same log continues it. Interrupted model calls and reads run again,
// an interrupted write compares the digests of its intent, and an interrupted
// side effect is reported as unknown.
package agent
