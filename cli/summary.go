package cli

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"metier/event"
	"metier/record"
	"metier/run"
)

// Conditions of --fail-on.
const failOnDenied = "denied"

// failOnValues are the values of --fail-on.
var failOnValues = []string{failOnDenied}

// checkFailOn splits the values of --fail-on, which are lists.
func checkFailOn(flags []string) ([]string, error) {
	var out []string
	for _, f := range flags {
		for v := range strings.SplitSeq(f, ",") {
			if v = strings.TrimSpace(v); !slices.Contains(failOnValues, v) {
				return nil, wrong("usage", "values: "+strings.Join(failOnValues, ", "), "--fail-on %q is not a value", v)
			}
			out = append(out, v)
		}
	}
	return dedupe(out), nil
}

// deniedIn reads the denied calls from the log of a run.
func deniedIn(ctx context.Context, log record.Log) ([]event.Denial, error) {
	var failed error
	var events iter.Seq[event.Event] = func(yield func(event.Event) bool) {
		for en, err := range log.Read(ctx, 1) {
			if err != nil {
				failed = err
				return
			}
			if e, err := event.Decode(en); err == nil && !yield(e) {
				return
			}
		}
	}
	out := run.Denied(events)
	return out, failed
}

// deniedCalls counts denied calls of all kinds.
func deniedCalls(list []event.Denial) (n int) {
	for _, d := range list {
		n += d.Count
	}
	return n
}

// deniedLine lists denied calls by tool and code; "" if there are none.
func deniedLine(list []event.Denial) string {
	if len(list) == 0 {
		return ""
	}
	var parts []string
	for _, d := range list {
		part := d.Tool + " (" + d.Code + ")"
		if d.Count > 1 {
			part = fmt.Sprintf("%d × %s", d.Count, part)
		}
		parts = append(parts, part)
	}
	return plural(deniedCalls(list), "call") + ": " + oneLine(strings.Join(parts, ", "))
}

// shortened says what the catalog leaves out; "" if that is nothing.
func shortened(c run.CatalogReport) string {
	var parts []string
	if c.Dropped > 0 {
		parts = append(parts, plural(c.Dropped, "skill")+" listed by name only, without a description")
	}
	if c.Cut > 0 {
		parts = append(parts, plural(c.Cut, "description")+" cut")
	}
	if c.Omitted > 0 {
		parts = append(parts, plural(c.Omitted, "skill")+" not listed")
	}
	if len(parts) == 0 {
		return ""
	}
	text := strings.Join(parts, ", ")
	if c.Budget > 0 {
		text += fmt.Sprintf(" (catalog_budget is %d tokens; --set catalog_budget=0 removes the limit)", c.Budget)
	}
	return text
}

// noteCatalog reports what the model is not told of the skills.
func (j *job) noteCatalog(ctx context.Context) {
	if s := shortened(j.catalogReport(ctx)); s != "" && !j.a.json {
		fmt.Fprintf(j.a.Err, "note: skill catalog: %s\n", s)
	}
}

// catalogReport counts what the catalog of the session tells and leaves out.
func (j *job) catalogReport(ctx context.Context) run.CatalogReport {
	c := j.session.Catalog(ctx)
	if c.Text == "" {
		return run.CatalogReport{}
	}
	return run.CatalogReport{Listed: len(c.Entries), Omitted: c.Omitted, Cut: c.Cut, Dropped: c.Dropped, Tokens: c.Tokens, Budget: c.Budget}
}
