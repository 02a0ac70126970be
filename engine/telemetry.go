package engine

import (
	"context"
	"sync"
	"time"

	"metier/record"
	"metier/run"
	"metier/telemetry"
)

// telemetryWait is how long a command waits at its end for telemetry to be sent.
const telemetryWait = 3 * time.Second

// watchers exports the activity of this process's runs to OpenTelemetry if the environment
// configures a receiver.
type watchers struct {
	once sync.Once
	to   *telemetry.Telemetry // nil: nobody watches
	mu   sync.Mutex
	lost error // the first reason why something was not sent
}

func (w *watchers) failed(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lost == nil {
		w.lost = err
	}
}

// Trace returns the log of a run, which is exported if the environment asks for it.
func (e *Engine) Trace(ctx context.Context, f *run.Folder) (log record.Log, stop func(), err error) {
	env := func(k string) string { return e.Env.Get(k) }
	if !telemetry.Wanted(env) {
		return f.Log(), func() {}, nil
	}
	e.watch.once.Do(func() {
		to, err := telemetry.New(context.WithoutCancel(ctx), env, telemetry.Options{Version: e.o.Version, Report: e.watch.failed})
		if err != nil {
			e.watch.failed(err)
			return
		}
		e.watch.to = to
	})
	if e.watch.to == nil {
		return f.Log(), func() {}, nil
	}
	return e.watch.to.Follow(ctx, f.ID(), f.Log())
}

// unwatch sends the remaining telemetry and reports any loss.
func (e *Engine) unwatch() {
	if e.watch.to != nil {
		ctx, cancel := context.WithTimeout(context.Background(), telemetryWait)
		defer cancel()
		e.watch.to.Close(ctx)
	}
	e.watch.mu.Lock()
	defer e.watch.mu.Unlock()
	if e.watch.lost == nil {
		return
	}
	e.Logger().Warn("telemetry is lost", "code", "telemetry_lost", "error", e.watch.lost)
	e.note("telemetry_lost", "some telemetry could not be sent: %s", e.Clean(e.watch.lost.Error()))
}
