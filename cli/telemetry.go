package cli

import (
	"context"
	"fmt"
	"sync"
	"time"

	"metier/record"
	"metier/run"
	"metier/telemetry"
)

// telemetryWait is the longest a command waits, at its end, for what is still
// to be sent.
const telemetryWait = 3 * time.Second

// watchers shows what runs of this invocation do to OpenTelemetry, where the
// environment names a receiver.
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

// followed is the log of a run, watched where the environment asks for that.
func (a *app) followed(ctx context.Context, f *run.Folder) (log record.Log, stop func(), err error) {
	env := func(k string) string { return a.env.Get(k) }
	if !telemetry.Wanted(env) {
		return f.Log(), func() {}, nil
	}
	a.watch.once.Do(func() {
		to, err := telemetry.New(context.WithoutCancel(ctx), env, telemetry.Options{Version: buildVersion(), Report: a.watch.failed})
		if err != nil {
			a.watch.failed(err)
			return
		}
		a.watch.to = to
	})
	if a.watch.to == nil {
		return f.Log(), func() {}, nil
	}
	return a.watch.to.Follow(ctx, f.ID(), f.Log())
}

// unwatch sends what is left, and says once if anything was lost. No command
// fails for that.
func (a *app) unwatch() {
	if a.watch.to != nil {
		ctx, cancel := context.WithTimeout(context.Background(), telemetryWait)
		defer cancel()
		a.watch.to.Close(ctx)
	}
	a.watch.mu.Lock()
	defer a.watch.mu.Unlock()
	if a.watch.lost == nil {
		return
	}
	a.logger().Warn("telemetry is lost", "code", "telemetry_lost", "error", a.watch.lost)
	if !a.json {
		fmt.Fprintf(a.Err, "note: OpenTelemetry was not sent everything: %s\n", oneLine(a.clean(a.watch.lost.Error())))
	}
}
