package engine

import (
	"context"
	"slices"

	"metier/agent/subagent"
	"metier/event"
	"metier/run"
)

// tokensLeft returns how many tokens the run may still use, 0 for unlimited and -1 for none. It
// includes the usage of children that have not ended, except for the child that asks.
func (r *Run) tokensLeft(ctx context.Context, but string) (int64, error) {
	most := r.launch.Spec.MaxTokens
	if most == 0 {
		return 0, nil
	}
	used, err := tokensUsed(ctx, r.folder, but, r.e.RunOptions())
	switch {
	case err != nil:
		return 0, err
	case used >= most:
		return -1, nil
	}
	return most - used, nil
}

// tokensFor returns how many tokens a child may use, 0 for unlimited. A resumed child gets what is
// left at that time.
func (r *Run) tokensFor(ctx context.Context, ch subagent.Child) (int64, error) {
	left, err := r.tokensLeft(ctx, ch.ID)
	if left < 0 {
		left = 1 // one that is under way ends by its own limit, and is accounted for
	}
	if most := ch.Profile.MaxTokens; most > 0 && (left == 0 || most < left) {
		left = most
	}
	return left, err
}

// tokensUsed returns the usage of the current run in a folder and of its children. The usage of
// children that ended is in the run's own record.
func tokensUsed(ctx context.Context, folder *run.Folder, but string, o *run.Options) (used int64, err error) {
	var open []string
	for e, err := range events(ctx, folder.Log()) {
		if err != nil {
			return 0, err
		}
		var u event.Usage
		switch e := e.(type) {
		case event.RunStarted:
			used, open = 0, nil // the budget is one of a run
		case event.ModelReplied:
			u = e.Usage
			for _, c := range e.Calls {
				open = append(open, event.ChildName(c.ID))
			}
		case event.ContextCompacted:
			u = e.Usage
		case event.ChildEnded:
			u = e.Usage
			open = slices.DeleteFunc(open, func(id string) bool { return id == e.Run })
		}
		used += u.Total()
	}
	for _, id := range open {
		if id == but || run.CheckID(id) != nil {
			continue
		}
		child, err := run.Look(folder.Children(), id, o)
		if err != nil {
			continue // the call began none, or its result says that the record cannot be used
		}
		n, err := tokensUsed(ctx, child, "", o)
		if err = closed(child.Close(), err); ctx.Err() != nil {
			return 0, err
		}
		used += n
	}
	return used, nil
}
