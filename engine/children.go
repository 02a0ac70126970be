package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"metier"
	"metier/agent/subagent"
	"metier/event"
	"metier/model"
	"metier/policy"
	"metier/run"
)

// LaunchChild is the part of a launch that is specific to a child.
type LaunchChild struct {
	Manifest     subagent.Manifest `json:"manifest"`
	Chain        []string          `json:"chain"` // the names of its ancestors that are subagents, then its own
	Only         [][]string        `json:"only"`  // skills it may use, and its ancestors
	Instructions string            `json:"instructions,omitempty"`
	Inherited    []policy.Subject  `json:"inherited,omitempty"` // skills of its ancestors, which restrict it
	Browser      bool              `json:"browser,omitempty"`   // its scripts on the host need the lent one
}

// children runs the children of a run in this process, each with its own session, record and
// grants.
type children struct{ parent *Run }

// family holds all descendants of a top-level run.
type family struct {
	mu   sync.Mutex // one folder is made at a time, so that the count holds
	root string     // folder of the first ones
	made map[string]bool
}

// knows reports whether this process created a child's folder.
func (f *family) knows(dir string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.made[dir]
}

// Run starts a child or resumes it.
func (c *children) Run(ctx context.Context, ch subagent.Child) (o subagent.Outcome, err error) {
	defer func() {
		if err != nil && ctx.Err() == nil && !subagent.Told(err) {
			c.parent.notices.deliver(Notice{metier.CodeOf(err), Note, fmt.Sprintf("the subagent %s could not be run, or its record could not be read: %v", ch.ID, err)})
		}
	}()
	folder, err := c.open(ctx, ch)
	if err != nil {
		return o, err
	}
	k := &Run{}
	defer func() {
		if k.folder == nil {
			err = errors.Join(err, folder.Close())
		}
		err = closed(k.Close(context.WithoutCancel(ctx)), err)
	}()
	switch past, err := readPast(ctx, folder); {
	case err == nil && past.ended:
		return outcomeOf(ctx, folder) // it ended before its parent could say so
	case err != nil && metier.CodeOf(err) != "run_not_begun":
		return o, err
	}
	child, err := c.prepare(ctx, ch)
	if child != nil {
		k = child // what it opened is closed, whatever became of it
	}
	if err != nil {
		return o, err
	}
	if err := c.enter(ctx, k, folder, ch.Profile); err != nil {
		return o, err
	}
	if err := k.answer(ctx, ch); err != nil {
		return o, err
	}
	out, err := k.drive(ctx, c.parent.childProgress(k.chain()))
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return o, err
	}
	if out.Status == "parked" {
		return subagent.Outcome{Ask: firstAsk(k.session.State().Calls)}, nil
	}
	if err := folder.Project(ctx); err != nil {
		return o, err
	}
	return outcomeOf(ctx, folder)
}

// open opens the folder of a child, or creates it if another child is allowed. A folder that
// existed and is gone is not created again, because the child would repeat what it did.
func (c *children) open(ctx context.Context, ch subagent.Child) (*run.Folder, error) {
	parent, f := c.parent, c.parent.family
	root, o := parent.folder.Children(), parent.e.RunOptions(parent.secrets...)
	o.Top = parent.folder.Top()
	dir := filepath.Join(root, ch.ID)
	f.mu.Lock()
	defer f.mu.Unlock()
	o.RequireHead = !parent.trusted && (o.StateDir != "" || !f.made[dir]) // without a place for heads, what this process made is known to it
	switch _, err := os.Lstat(filepath.Join(dir, run.FileLog)); {
	case err == nil:
		return run.Open(root, ch.ID, o)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case ch.Again && run.Known(root, ch.ID, o):
		return nil, &metier.Error{Op: "run", Path: dir, Kind: metier.Drift, Code: "subagent_record_lost", Err: errors.New("its record was there, and is gone")}
	}
	if ch.Again { // a process was killed before it wrote anything
		if err := parent.folder.RemoveChild(ch.ID); err != nil {
			return nil, err
		}
	}
	switch left, err := parent.tokensLeft(ctx, ""); {
	case err != nil:
		return nil, err
	case left < 0:
		return nil, &metier.Error{Op: subagent.OpDelegate, Kind: metier.LimitReached, Code: "token_budget", Hint: "end with what you have", Err: errors.New("no tokens are left for a subagent")}
	}
	there, err := below(f.root)
	if err != nil {
		return nil, err
	}
	if most := parent.launch.Subagents.Total; there >= most {
		return nil, &metier.Error{Op: subagent.OpDelegate, Kind: metier.LimitReached, Code: "subagent_limit", Hint: "do the rest yourself",
			Err: fmt.Errorf("this run started %d subagents, which is the limit", most)}
	}
	folder, err := run.Create(root, ch.ID, o)
	if err == nil {
		f.made[dir] = true
	}
	return folder, err
}

// below counts the children in a folder, including their descendants.
func below(root string) (int, error) {
	there, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	n := len(there)
	for _, d := range there {
		more, err := below(run.ChildrenOf(filepath.Join(root, d.Name())))
		if err != nil {
			return 0, err
		}
		n += more
	}
	return n, nil
}

// enter opens a child's session on its folder, and starts or resumes the child.
func (c *children) enter(ctx context.Context, k *Run, folder *run.Folder, p subagent.Profile) error {
	restored, err := folder.Restore(ctx)
	if err != nil {
		return err
	}
	again := restored.State.Seq > 0 && len(restored.Active)+restored.State.Turns > 0
	var d drifts
	if again && !c.parent.family.knows(folder.Dir()) {
		if d, err = k.drift(restored); err != nil {
			return err
		}
	}
	k.anew = len(d.all()) > 0 && k.onDrift().Reloads()
	if err := k.open(ctx, folder); err != nil {
		return err
	}
	if again {
		if err := k.resumed(ctx, restored, d, string(k.onDrift())); err != nil {
			return err
		}
	}
	return k.beginChild(ctx, p)
}

// beginChild adds a child's skills and its task to its session. It is idempotent. If a skill of the
// profile is missing or may not be loaded, the child runs without it, unless the skill restricts it.
func (r *Run) beginChild(ctx context.Context, p subagent.Profile) error {
	st := r.session.State()
	for _, name := range r.launch.Skills {
		sk, err := r.session.Snapshot().Find(name)
		if err != nil {
			return err
		}
		if isActive(st, sk.ID.String()) {
			continue
		}
		_, err = r.session.Activate(ctx, name, sourceChild)
		if metier.KindOf(err) == metier.Denied {
			if err := r.unrestricted(p, name); err != nil {
				return err
			}
			err = r.append(ctx, []event.Event{event.Note{Code: metier.CodeOf(err), On: sk.ID.String()}})
		}
		if err != nil {
			return err
		}
	}
	in := metier.Input{ID: "prompt", Parts: []model.Part{model.Text(r.launch.Prompt)}, Role: policy.Context, Surface: "subagent", By: r.e.Principal()}
	if _, err := r.session.Send(ctx, in); err != nil {
		return err
	}
	return r.folder.Project(ctx)
}

// The activation sources of the skills a run and a child begin with, and of those that users load.
const (
	sourceRun   = "cli-preload"
	sourceChild = "subagent-inherit"
	sourceUser  = "user-explicit"
)

// instructed returns the end of a child's system prompt.
func (r *Run) instructed(context.Context, *metier.Session) (string, error) {
	if r.launch.Child == nil {
		return "", nil
	}
	return strings.TrimSpace(r.launch.Child.Instructions + "\n\n" + subagent.Rules), nil
}

// answer passes the user's answers to the parent's call on to the child.
func (r *Run) answer(ctx context.Context, ch subagent.Child) error {
	for {
		q := firstAsk(r.session.State().Calls)
		if q == nil {
			return nil
		}
		ans, ok := ch.Answer(q.ChildCall, *q)
		if !ok {
			return r.settle(ctx)
		}
		if err := r.session.Answer(ctx, q.ChildCall, ans); err != nil {
			return err
		}
	}
}

// firstAsk returns the open question of the first call that has one.
func firstAsk(calls map[string]metier.CallState) *policy.Question {
	for _, id := range slices.Sorted(maps.Keys(calls)) {
		if q := calls[id].Question; q.ID != "" {
			q.ChildCall = id
			return &q
		}
	}
	return nil
}
