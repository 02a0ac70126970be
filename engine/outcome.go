package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"strings"

	"metier"
	"metier/agent"
	"metier/config"
	"metier/event"
	"metier/internal/plural"
	"metier/record"
	"metier/run"
)

// Outcome is how a run ended, or what it is waiting for.
type Outcome struct {
	agent.Outcome
	Phase     string
	Workspace string
	Dir       string            // of the record
	Denied    []event.Denial    // calls, those of subagents included
	Scripts   []DeniedScript    // scripts that were denied because the operator did not allow them
	Catalog   run.CatalogReport // the skills that the model was shown
	Notices   []Notice          // what the user should know
	Unstarted []string          // phases after a resumed one that is done: nothing starts them
	Batch     bool              // every question was answered with no
	MaxTokens int64             // the limit of the run; 0: none. The last model call may exceed it
}

// unstarted returns the phases after a resumed run that have no record.
func (r *Run) unstarted(status string) (out []string) {
	if !r.launch.resumed || status != run.StatusDone {
		return nil
	}
	base := strings.TrimSuffix(r.folder.Dir(), config.SafeID(r.launch.Phase))
	for _, name := range r.launch.Later {
		if _, err := os.Lstat(base + config.SafeID(name)); errors.Is(err, fs.ErrNotExist) {
			out = append(out, name)
		}
	}
	return out
}

// PhasesMissing returns the error for phases that were not started because the one before them had to
// be resumed, or nil.
func (o Outcome) PhasesMissing() error {
	if len(o.Unstarted) == 0 {
		return nil
	}
	return metier.Errorf(metier.Conflict, "phases_not_started", "start a new run with a run file that has only these phases", "run %s is done, but resuming it does not start the later phases: %s", o.Run, strings.Join(o.Unstarted, ", "))
}

// events yields the events of a log. It skips those that cannot be decoded: opening the record has
// judged them.
func events(ctx context.Context, log record.Log) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for en, err := range log.Read(ctx, 1) {
			e, undecoded := event.Decode(en)
			if err == nil && undecoded != nil {
				continue
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// deniedIn reads the denied calls from the log of a run.
func deniedIn(ctx context.Context, log record.Log) ([]event.Denial, error) {
	var failed error
	out := run.Denied(func(yield func(event.Event) bool) {
		for e, err := range events(ctx, log) {
			if failed = err; err != nil || !yield(e) {
				return
			}
		}
	})
	return out, failed
}

// catalogReport counts what the session's catalog includes and leaves out.
func (r *Run) catalogReport(ctx context.Context) run.CatalogReport {
	c := r.session.Catalog(ctx)
	if c.Text == "" {
		return run.CatalogReport{}
	}
	return run.CatalogReport{Listed: len(c.Entries), Omitted: c.Omitted, Cut: c.Cut, Dropped: c.Dropped, Tokens: c.Tokens, Budget: c.Budget}
}

// noteCatalog reports what the model is not shown about the skills.
func (r *Run) noteCatalog(ctx context.Context) {
	if s := Shortened(r.catalogReport(ctx)); s != "" {
		r.note("catalog_shortened", "skill catalog: %s", s)
	}
}

// Shortened describes what a catalog leaves out. It returns "" if nothing was left out.
func Shortened(c run.CatalogReport) string {
	var parts []string
	if c.Dropped > 0 {
		parts = append(parts, plural.Of(c.Dropped, "skill")+" listed by name only, without a description")
	}
	if c.Cut > 0 {
		parts = append(parts, plural.Of(c.Cut, "description")+" cut")
	}
	if c.Omitted > 0 {
		parts = append(parts, plural.Of(c.Omitted, "skill")+" not listed")
	}
	if len(parts) == 0 {
		return ""
	}
	var limits []string
	if c.Cut > 0 {
		limits = append(limits, "a description has at most 1,024 characters, or catalog_desc_max")
	}
	if c.Budget > 0 {
		limits = append(limits, fmt.Sprintf("catalog_budget is %d tokens; set catalog_budget=0 to remove the limit", c.Budget))
	}
	text := strings.Join(parts, ", ")
	if len(limits) > 0 {
		text += " (" + strings.Join(limits, "; ") + ")"
	}
	return text
}
