package install

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"metier"
	"metier/settings"
)

// Status is how far a job is.
type Status string

// The statuses.
const (
	Queued    Status = "queued"
	Running   Status = "running"
	Done      Status = "done"
	Failed    Status = "failed"
	Cancelled Status = "cancelled"
)

// Job is an installation that was started.
type Job struct {
	ID      string    `json:"runId"`
	Status  Status    `json:"status"`
	Skills  []string  `json:"skills,omitempty"` // that were installed, by name
	Notes   []string  `json:"notes,omitempty"`
	Code    string    `json:"code,omitempty"`  // of the error
	Error   string    `json:"error,omitempty"` // why it failed
	Created time.Time `json:"createdAt"`
	Ended   time.Time `json:"endedAt,omitzero"`
}

// JobOptions configure [NewJobs].
type JobOptions struct {
	// Open opens the store of an owner for a request, and returns the settings by which its skills would be
	// loaded. The job closes the store.
	Open     func(ctx context.Context, owner string, r Request) (*Store, settings.Settings, error)
	Parallel int              // jobs that run at a time; default 4
	Waiting  int              // jobs that wait; default 100
	Kept     int              // ended jobs whose status is known; default 1,000
	Now      func() time.Time // nil: time.Now
	ID       func() string    // nil: random
}

// Jobs installs skills in the background, for several owners, such as the projects of a server. It is safe
// for concurrent use. Jobs are in memory: what a job did to a store is kept if the process ends, but its
// status is not.
type Jobs struct {
	o    JobOptions
	ctx  context.Context
	stop context.CancelCauseFunc
	free chan struct{} // has an element for each running job
	wait sync.WaitGroup

	mu    sync.Mutex
	all   map[string]*job
	order []string // IDs of ended jobs, the oldest first
	open  int      // jobs that did not end
}

// job is a job with what only this package knows.
type job struct {
	Job
	owner  string
	ended  chan struct{} // closed when it ended
	cancel context.CancelCauseFunc
}

// errCancelled ends a job that its owner cancelled.
var errCancelled = errors.New("the job was cancelled")

// NewJobs returns a registry without jobs. Close ends it.
func NewJobs(o JobOptions) *Jobs {
	set := func(n *int, otherwise int) {
		if *n <= 0 {
			*n = otherwise
		}
	}
	set(&o.Parallel, 4)
	set(&o.Waiting, 100)
	set(&o.Kept, 1000)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.ID == nil {
		o.ID = rand.Text
	}
	j := &Jobs{o: o, free: make(chan struct{}, o.Parallel), all: map[string]*job{}}
	j.ctx, j.stop = context.WithCancelCause(context.Background())
	return j
}

// Start starts the installation of what a request asks for into the store of an owner, and returns at once.
// The call is the consent. It asks no question, and a skill that the scanner takes for dangerous is refused.
func (j *Jobs) Start(owner string, r Request) (Job, error) {
	if owner == "" {
		return Job{}, metier.Errorf(metier.Invalid, "owner_missing", "name the owner of the job", "the job has no owner")
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.ctx.Err() != nil:
		return Job{}, metier.Errorf(metier.Unavailable, "jobs_closed", "start it again later", "no jobs are started any more")
	case j.open >= j.o.Parallel+j.o.Waiting:
		return Job{}, metier.Errorf(metier.LimitReached, "jobs_full", "try again when some have ended", "%d jobs are running or waiting", j.open)
	}
	x := &job{Job: Job{ID: j.o.ID(), Status: Queued, Created: j.o.Now().UTC()}, owner: owner, ended: make(chan struct{})}
	ctx, cancel := context.WithCancelCause(j.ctx)
	x.cancel = cancel
	j.all[x.ID] = x
	j.open++
	j.wait.Go(func() { j.run(ctx, x, r) })
	return x.Job, nil
}

// Status returns the status of a job. A job of another owner is not found, like one that does not exist.
func (j *Jobs) Status(owner, id string) (Job, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	x, err := j.of(owner, id)
	if err != nil {
		return Job{}, err
	}
	return x.Job, nil
}

// Wait waits until a job ended, and returns its status.
func (j *Jobs) Wait(ctx context.Context, owner, id string) (Job, error) {
	j.mu.Lock()
	x, err := j.of(owner, id)
	j.mu.Unlock()
	if err != nil {
		return Job{}, err
	}
	select {
	case <-x.ended:
		return x.Job, nil
	case <-ctx.Done():
		return Job{}, context.Cause(ctx)
	}
}

// Cancel cancels a job that did not end. What it installed before stays, and the rest is not installed: a
// job installs all of its skills at once, or none.
func (j *Jobs) Cancel(owner, id string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	x, err := j.of(owner, id)
	if err == nil {
		x.cancel(errCancelled)
	}
	return err
}

// Close cancels all jobs, and waits until they ended.
func (j *Jobs) Close() {
	j.mu.Lock()
	j.stop(errCancelled)
	j.mu.Unlock()
	j.wait.Wait()
}

// of returns a job of an owner. The caller holds the lock.
func (j *Jobs) of(owner, id string) (*job, error) {
	x := j.all[id]
	if x == nil || x.owner != owner {
		return nil, metier.Errorf(metier.NotFound, "job_not_found", "use the ID that starting the job returned; ended jobs are forgotten some time later", "there is no job %q", cutText(id))
	}
	return x, nil
}

// run waits for a free place, and does a job.
func (j *Jobs) run(ctx context.Context, x *job, r Request) {
	defer x.cancel(nil)
	select {
	case j.free <- struct{}{}:
		defer func() { <-j.free }()
	case <-ctx.Done():
		j.end(x, nil, context.Cause(ctx))
		return
	}
	j.mu.Lock()
	x.Status = Running
	j.mu.Unlock()
	p, err := j.install(ctx, x.owner, r)
	if err != nil && errors.Is(context.Cause(ctx), errCancelled) {
		err = errCancelled
	}
	j.end(x, p, err)
}

// install does what a job is for.
func (j *Jobs) install(ctx context.Context, owner string, r Request) (_ *Plan, err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	s, set, err := j.o.Open(ctx, owner, r)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	p, err := s.Prepare(ctx, r, set)
	if err != nil {
		return nil, err
	}
	return p, p.Apply(ctx)
}

// end notes how a job ended, and forgets the oldest ended job if there are too many.
func (j *Jobs) end(x *job, p *Plan, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	x.Ended = j.o.Now().UTC()
	switch {
	case errors.Is(err, errCancelled):
		x.Status = Cancelled
	case err != nil:
		x.Status, x.Code, x.Error = Failed, metier.CodeOf(err), err.Error()
	default:
		x.Status, x.Notes = Done, p.Notes
		for _, c := range p.Changes {
			x.Skills = append(x.Skills, c.Name)
		}
	}
	close(x.ended)
	j.open--
	if j.order = append(j.order, x.ID); len(j.order) > j.o.Kept {
		delete(j.all, j.order[0])
		j.order = j.order[1:]
	}
}
