package run

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"metier"
	"metier/event"
	"metier/internal/jsonl"
	"metier/record"
)

// latest is what users write for a run instead of its ID. Which run it is depends on the command:
// Find takes the run that started last, FindAgent the run of an agent that changed last, and
// FindWaiting the run that asked last. Only the logs count, because any program can change the time
// of a file. For commands that continue or answer a run, only the entries that a recorded head covers
// count, and no artifact. A run whose log cannot be read or lost entries counts too, so that a
// damaged run is reported and an older one does not take its place.
const latest = "latest"

// NewestFirst sorts runs by their start, as "latest" does: the first one is the run that [Find]
// returns for it. Folders whose start is unknown come last.
func NewestFirst(list []Summary) {
	slices.SortStableFunc(list, func(x, y Summary) int {
		return cmp.Or(y.started.Compare(x.started), strings.Compare(y.ID, x.ID))
	})
}

// FindAgent is like [Find], except that "latest" is the run of an agent whose log has the newest
// entry. It skips records of commands, such as `metier exec`, if there is a run of an agent.
func FindAgent(ctx context.Context, root, what string, o *Options) (string, string, error) {
	if what != latest {
		return Find(root, what)
	}
	return findNewest(ctx, root, Find, func(id string) time.Time {
		s := standingOf(ctx, root, id, o)
		if s.status == StatusOpen || s.status == StatusEnded {
			return time.Time{}
		}
		return s.changed
	})
}

// FindWaiting is like [FindAgent], except that "latest" is the run whose open question was asked
// last, if a run has one. A run whose log cannot be read is taken if it may have asked later.
func FindWaiting(ctx context.Context, root, what string, o *Options) (string, string, error) {
	if what != latest {
		return Find(root, what)
	}
	otherwise := func(root, what string) (string, string, error) { return FindAgent(ctx, root, what, o) }
	return findNewest(ctx, root, otherwise, func(id string) time.Time { return standingOf(ctx, root, id, o).asked })
}

// FindToAnswer is like [FindWaiting], but fails if several runs have an open question, or may have one
// because their log cannot be read: an answer must not go to a question that the user has not read.
func FindToAnswer(ctx context.Context, root, what string, o *Options) (string, string, error) {
	if what != latest {
		return Find(root, what)
	}
	ids, err := runs(root)
	if err != nil {
		return "", "", err
	}
	times := map[string]time.Time{}
	var waiting []string
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return "", "", err
		}
		if times[id] = standingOf(ctx, root, id, o).asked; !times[id].IsZero() {
			waiting = append(waiting, id)
		}
	}
	if len(waiting) > 1 {
		return "", "", wrong(metier.Invalid, CodeAmbiguous, root, "write the ID of the run that you mean", "%d runs have an open question, or a log that cannot be read: %s", len(waiting), listed(waiting))
	}
	otherwise := func(root, what string) (string, string, error) { return FindAgent(ctx, root, what, o) }
	return findNewest(ctx, root, otherwise, func(id string) time.Time { return times[id] })
}

// FindOwn is like [Find], except that "latest" must not be a record that somebody else put between
// this user's runs. If this user has recorded heads of runs in the folder, but none of the newest
// one, the error has the code run_unwitnessed.
func FindOwn(root, what string, o *Options) (string, string, error) {
	root, id, err := Find(root, what)
	if err != nil || what != latest || Known(root, id, o) {
		return root, id, err
	}
	ids, err := runs(root)
	if err != nil {
		return "", "", err
	}
	if slices.ContainsFunc(ids, func(id string) bool { return Known(root, id, o) }) {
		return "", "", wrong(metier.Denied, CodeStranger, root, "'metier runs list' shows all runs; write the ID of the run that you mean",
			"the newest run is %q, but nothing on this machine shows that you wrote its record, unlike those of other runs here", id)
	}
	return root, id, nil
}

// findNewest returns the run with the newest time. If no run has one, it returns the result of
// otherwise.
func findNewest(ctx context.Context, root string, otherwise func(root, what string) (string, string, error), at func(id string) time.Time) (string, string, error) {
	ids, err := runs(root)
	if err != nil {
		return "", "", err
	}
	if id := newestOf(ids, at); id != "" || ctx.Err() != nil {
		return root, id, ctx.Err()
	}
	return otherwise(root, latest)
}

// newestOf returns the id with the newest time, or "" if none has a time. Of two with the same time
// it returns the later id.
func newestOf(ids []string, at func(id string) time.Time) string {
	best, newest := "", time.Time{}
	for _, id := range ids {
		if t := at(id); !t.IsZero() && !t.Before(newest) {
			best, newest = id, t
		}
	}
	return best
}

// standing is what "latest" depends on.
type standing struct {
	status  string
	changed time.Time // of the newest entry
	asked   time.Time // of the newest open question; zero if there is none
}

// standingOf returns the standing of a run. If its newest recorded head is that of its end, that is
// enough. Otherwise it reads the log up to the last entry that a recorded head covers. A run whose log
// cannot be read or lost entries may have asked. Without recorded heads, its checkpoint counts.
func standingOf(ctx context.Context, root, id string, o *Options) standing {
	l, known := newestHead(root, id, o)
	switch l.Type {
	case event.RunEnded{}.Type():
		return standing{status: StatusDone, changed: l.At}
	case event.SessionEnded{}.Type():
		return standing{status: StatusEnded, changed: l.At}
	}
	out, err := readStanding(ctx, root, id, o)
	switch {
	case err == nil:
		return out
	case known:
		return standing{status: StatusRunning, changed: l.At, asked: l.At}
	}
	s := remains(root, id)
	out = standing{status: s.Status, changed: moment(s.UpdatedAt)}
	if !Over(s.Status) {
		out.asked = out.changed
	}
	return out
}

// readStanding folds the log of a run.
func readStanding(ctx context.Context, root, id string, o *Options) (out standing, err error) {
	f, err := Look(root, id, o)
	if err != nil {
		return out, err
	}
	defer f.Close()
	if err := f.VerifyHead(ctx); err != nil {
		return out, err
	}
	h, err := recall(ctx, id, f.log)
	if err != nil {
		return out, err
	}
	s := State{Status: StatusOpen}
	asked := map[[2]string]time.Time{}
	for _, fact := range h.facts {
		s.life(fact)
		s.work(fact)
		if e, is := fact.event.(event.ApprovalRequested); is {
			asked[[2]string{e.Call, e.ID}] = fact.At
		}
	}
	out = standing{status: s.Status, changed: h.ended()}
	for _, q := range s.Questions {
		if t := asked[[2]string{q.Call, q.ID}]; t.After(out.asked) {
			out.asked = t
		}
	}
	return out, nil
}

// remains returns what is still known about a run whose log cannot be read: its checkpoint, if
// there is one. Otherwise it has only the time in the ID, as an interrupted run. That time is in
// seconds, and the end of the second is returned.
func remains(root, id string) (s State) {
	if r, err := os.OpenRoot(filepath.Join(root, id)); err == nil {
		defer r.Close()
		if b, err := readRegular(r, FileState); err == nil && json.Unmarshal(b, &s) == nil && !moment(s.StartedAt).IsZero() {
			return s
		}
	}
	s = State{Status: StatusRunning}
	rest := time.Second - 1
	if info, err := os.Lstat(filepath.Join(root, id, FileLog)); err == nil && info.Mode().IsRegular() && info.Size() == 0 {
		rest = 0 // it never began, so one that began in the same second is newer
	}
	if t := IDTime(id); !t.IsZero() {
		s.StartedAt = stamp(t.Add(rest))
		s.UpdatedAt = s.StartedAt
	}
	return s
}

// startedAt returns the time of the first entry of a log, or what remains tells about it.
func startedAt(root, id string) time.Time {
	if t := firstEntry(filepath.Join(root, id)); !t.IsZero() {
		return t
	}
	return moment(remains(root, id).StartedAt)
}

func firstEntry(dir string) (at time.Time) {
	r, err := os.OpenRoot(dir)
	if err != nil {
		return at
	}
	defer r.Close()
	if info, err := r.Lstat(FileLog); err != nil || !info.Mode().IsRegular() {
		return at
	}
	f, err := r.Open(FileLog)
	if err != nil {
		return at
	}
	defer f.Close()
	for line, err := range jsonl.Scan(f, 0, record.MaxLine) {
		var en record.Entry
		if err == nil && !line.Torn && json.Unmarshal(line.Bytes, &en) == nil {
			at = en.At
		}
		break
	}
	return at
}

// moment parses a time in an artifact. As text, 5.1 seconds would be before 5 seconds.
func moment(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}
	}
	return t
}

// findLatest resolves "latest" for [Find].
func findLatest(root string, ids []string) (string, string, error) {
	if id := newestOf(ids, func(id string) time.Time { return startedAt(root, id) }); id != "" {
		return root, id, nil
	}
	if len(ids) > 0 {
		return "", "", wrong(metier.NotFound, CodeNotFound, root, "`metier runs list` shows all runs", "no run has its log, %s, any more", FileLog)
	}
	return "", "", wrong(metier.NotFound, CodeNotFound, root, "start one with 'metier run', or specify another workspace with Request.Workspace", "there are no runs yet")
}
