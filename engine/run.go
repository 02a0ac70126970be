package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"metier"
	"metier/agent"
	"metier/agent/subagent"
	"metier/config"
	"metier/internal/confine"
	"metier/mcp/host"
	"metier/model"
	"metier/model/provider"
	"metier/policy"
	"metier/program"
	"metier/record"
	"metier/run"
	"metier/sandbox"
	"metier/settings"
	"metier/tool"
)

// Run is a run that is open: a plan with its workspace, skills, and tools.
type Run struct {
	e        *Engine
	op       config.Operator
	launch   Launch
	settings settings.Settings
	origins  json.RawMessage
	model    provider.Model
	custom   Custom
	view     metier.View
	surface  surface
	from     string // what the user works with

	snapshot  *metier.Snapshot
	disk      *metier.Snapshot // the skills as they are on disk; a record may bind the session to earlier ones
	protected []string         // no tool and no program writes these
	workspace *tool.Workspace
	host      *host.Host               // nil where no server of the Model Context Protocol is configured
	sandbox   sandbox.Sandbox          // nil where the model runs no programs
	anyLevel  bool                     // the operator takes any isolation it gives
	limits    sandbox.Limits           // of programs; zero fields are the defaults
	exact     *program.Host            // which scripts run on this machine itself; nil: none
	standing  map[string]policy.Answer // what was approved always, by what it binds
	owned     []io.Closer              // of all these, what closes with the job: a child has the rest from its parent

	folder   *run.Folder
	log      record.Log // of the folder, and of whoever watches
	unfollow func()
	session  *metier.Session
	toolset  []metier.Tool // of the session
	hooks    Hooks
	notices  *notices // that were given
	family   *family  // its children and theirs; nil where it has none

	secrets []record.Secret // of servers
	run     string          // name of the run in the log; the folder's id, and more for one that goes on after its end
	begun   bool            // the beginning was reported
	limited agent.Limits    // the run, where it is under way
	anew    bool            // skills changed, and the files of today count
	over    *run.Restored   // a record that was opened to tell how it ended; nil once it continues
	trusted bool            // its record, whoever wrote it
}

// surface is what a job is opened for beside a run: the tools that a server
// adds, and where it has its skills from.
type surface struct {
	tools    []metier.Tool
	snapshot func(context.Context) (*metier.Snapshot, error)
	like     *metier.Session // of the same launch, or nil
}

// prepare opens workspace, skills and tools of a launch: everything that can
// be wrong is found here, before any model call.
func (e *Engine) prepare(ctx context.Context, p *Plan, h Hooks) (_ *Run, err error) {
	l, s := p.launch.own(), p.settings
	if h.Notify == nil {
		h.Notify = e.o.Notify
	}
	given := &notices{to: h.Notify}
	h.Notify = given.add
	j := &Run{e: e, launch: l, op: p.op, settings: s, origins: p.origins, model: p.model, custom: p.custom, hooks: h, notices: given, from: cmp.Or(p.surface, "engine"), view: e.Finder().View(s, l.Workspace)}
	defer func() {
		if err != nil {
			err = closed(j.letGo(), err)
		}
	}()
	if err := j.connect(ctx); err != nil {
		return nil, err
	}
	if j.snapshot, err = j.look(ctx); err != nil {
		return nil, err
	}
	j.disk = j.snapshot
	if err := CheckHarnesses(ctx, j.snapshot, l.Roots); err != nil {
		return nil, err
	}
	if _, err := j.typed(j.launch.Prompt); err != nil && !l.resumed {
		return nil, err
	}
	if !l.resumed {
		if err := j.approve(ctx, l.Named); err != nil {
			return nil, err
		}
	}
	if l.runs() {
		if err := j.openSandbox(); err != nil {
			return nil, err
		}
		j.standing = e.standing()
	}
	j.protected = e.protected(l, j.op, s.Discover)
	j.workspace, err = tool.OpenWorkspace(l.Workspace, &tool.WorkspaceOptions{Cwd: l.Cwd, Mounts: l.Mounts, Home: e.Env.Home(), Protected: j.protected, Denied: e.closed(l, j.op.Secrets)})
	if err != nil {
		return nil, err
	}
	j.owned = append(j.owned, j.workspace)
	return j, nil
}

// openSandbox opens what the launch's programs run in.
func (j *Run) openSandbox() (err error) {
	if j.sandbox, j.anyLevel, err = j.e.OpenSandbox(j.launch.Sandbox, j.op); err == nil {
		j.owned = append(j.owned, j.sandbox)
	}
	return err
}

// tools are the file tools of the job, those that run programs or read pages, and those of servers.
func (j *Run) tools() []metier.Tool {
	return slices.Concat(j.files(), j.byPath(), j.programs(), j.pages(), j.served(), j.delegation(), j.custom.Tools)
}

func (j *Run) files() []metier.Tool {
	return tool.Files(j.workspace, tool.Options{View: j.view, IfMatch: j.settings.Tools.IfMatch, Guard: j.settings.Policy.GuardAllow,
		ActivateOnRead: j.settings.Activate.ByReading()})
}

// grants is what the operator allowed, as policy takes it.
func (j *Run) grants() policy.Grants {
	p, x := j.settings.Policy, j.settings.Exec
	g := policy.Grants{Mode: policy.Mode(p.Mode), Tools: j.launch.Tools, Denied: j.launch.Denied,
		Narrow: policy.Narrowing(p.AllowedTools), Merge: policy.Merge(p.Merge),
		ScriptRule: policy.ScriptRule(x.Scripts), Approval: policy.Approval(x.Approval), Network: policy.NetworkRule(x.Network),
		Scripts: j.launch.Scripts, Approved: j.launch.Approved, Hosts: j.launch.Hosts, Answers: j.standing}
	j.launch.Policy.grant(&g)
	if j.launch.Subagents.may() {
		g.Profiles = j.launch.Subagents.names()
	}
	if j.launch.Child != nil {
		g.Only = j.launch.Child.Only
	}
	return g
}

// open opens the session on the folder's log.
func (j *Run) open(ctx context.Context, f *run.Folder) error {
	j.folder = f
	var err error
	if j.log, j.unfollow, err = j.e.Trace(ctx, f); err != nil {
		return err
	}
	return j.openOn(ctx, f.ID(), j.log, f.Blobs())
}

// openOn opens the session on a log.
func (j *Run) openOn(ctx context.Context, id string, log record.Log, blobs record.Blobs) error {
	raw, err := json.Marshal(j.launch)
	if err != nil {
		return err
	}
	c := metier.Config{ID: id, By: j.e.Principal(), Build: j.e.o.Version, Log: log, Blobs: blobs, Snapshot: j.snapshot,
		Tools: j.tools(), Settings: j.settings, Origins: j.origins, Grants: j.grants(), Launch: raw, View: j.view, Batch: j.launch.Batch, Now: j.e.Now,
		Logger: j.logger(), ToolsOnly: j.surface.tools != nil}
	c.Tools, c.Like = append(c.Tools, j.surface.tools...), j.surface.like
	j.toolset = c.Tools
	if j.anew {
		c.Refresh = func(context.Context) (*metier.Snapshot, error) { return j.disk, nil }
	}
	if j.reloads() {
		c.Refresh = func(ctx context.Context) (*metier.Snapshot, error) {
			return j.look(ctx)
		}
	}
	if j.surface.snapshot != nil {
		c.Refresh = j.surface.snapshot
	}
	j.session, err = metier.Open(ctx, c)
	return err
}

// reloads reports whether skills are looked for again before each turn.
func (j *Run) reloads() bool {
	switch j.settings.Discover.Reload {
	case settings.ReloadSnapshot:
		return false
	case settings.ReloadAuto:
		return !j.launch.Batch
	}
	return true
}

// begin puts preloads and prompt into the session. Done twice it changes
// nothing, so a resume may do it again.
func (j *Run) begin(ctx context.Context) error {
	st := j.session.State()
	if err := j.loadHarnesses(ctx, st); err != nil {
		return err
	}
	for _, name := range j.launch.Skills {
		sk, err := j.session.Snapshot().Find(name)
		if err != nil {
			if slices.ContainsFunc(st.Active, func(a metier.Activation) bool { return strings.EqualFold(a.Name, name) || a.SkillID == name }) {
				continue // gone since: what is recorded counts, and the drift was named
			}
			return err
		}
		if isActive(st, sk.ID.String()) {
			continue
		}
		if _, err := j.session.Activate(ctx, name, sourceRun); err != nil {
			return err
		}
	}
	if _, said := st.Inputs["prompt"]; said {
		return nil // in the words that are recorded, which are not the typed ones where /NAME was typed
	}
	task := j.launch.Prompt
	line, err := j.typed(j.launch.Prompt)
	if err == nil && line != nil {
		task, err = line.follow(ctx, j.session)
	}
	if err != nil {
		return err
	}
	_, err = j.session.Say(ctx, metier.Input{ID: "prompt", Parts: []model.Part{model.Text(task)}, Role: j.launch.PromptRole, Surface: j.from, By: j.e.Principal()})
	return err
}

func isActive(st metier.State, id string) bool {
	return slices.ContainsFunc(st.Active, func(a metier.Activation) bool { return a.SkillID == id })
}

// drive runs the agent to its end.
func (j *Run) drive(ctx context.Context, watch func(agent.Progress)) (agent.Outcome, error) {
	l := j.launch
	spec := l.Spec
	spec.Run = cmp.Or(j.run, j.folder.ID())
	c := agent.Config{Session: j.session, Log: j.log, Blobs: j.folder.Blobs(), Model: j.model.Model, By: j.e.Principal(), Spec: spec, Limits: j.limited, Inject: j.settings.Activate.Role,
		Prompt: agent.Prompt{Workspace: j.where(), Project: j.project(), Prepare: j.instructed}, Park: l.Park, Observe: watch, Now: j.e.Now, After: j.e.o.After, Logger: j.logger()}
	if l.Subagents.may() {
		c.Children = l.childrenAtOnce()
	}
	c.Spawns = subagent.Spawns(ctx, j.session, j.toolset)
	if !l.Batch && j.hooks.Ask != nil && l.Child == nil {
		c.Ask = j.ask
	}
	return agent.Run(ctx, c)
}

// where tells the model where its files are, in the paths its tools take.
func (j *Run) where() string {
	root := j.view.Root()
	s := "The workspace is " + root + ". File tools take paths below it."
	if j.launch.Cwd != "" && j.launch.Cwd != "." {
		s += " Relative paths start at " + root + "/" + filepath.ToSlash(j.launch.Cwd) + "."
	}
	return s
}

// project reads the workspace's own instructions for agents.
func (j *Run) project() string {
	const most = 64 << 10
	b, more, err := confine.ReadBeneath(j.launch.Workspace, "AGENTS.md", most)
	if err != nil {
		if confine.CodeOf(err) != confine.NotFound {
			j.note("", "AGENTS.md of the workspace is left out: %v", err)
		}
		return ""
	}
	text := strings.ToValidUTF8(string(b), "\uFFFD")
	if more {
		text += fmt.Sprintf("\n\n[AGENTS.md goes on; the first %d bytes are shown. Read the file for the rest.]", most)
	}
	return text
}

// Close makes the record durable, writes the artifacts and lets go of
// everything.
func (j *Run) Close(ctx context.Context) error {
	var errs []error
	if j.session != nil {
		if j.launch.Model == modelNone && j.folder != nil {
			errs = append(errs, j.e.EndRecord(ctx, j.log, j.folder.ID()))
		}
		errs = append(errs, j.session.Close(ctx))
	}
	if j.unfollow != nil {
		j.unfollow()
	}
	if j.folder != nil {
		errs = append(errs, j.folder.Project(ctx), j.folder.Close())
	}
	return errors.Join(append(errs, j.letGo())...)
}

// letGo closes what the job owns, the last first.
func (j *Run) letGo() error {
	var errs []error
	for _, c := range slices.Backward(j.owned) {
		errs = append(errs, c.Close())
	}
	j.owned = nil
	return errors.Join(errs...)
}

// closed joins the error of closing to the one of the work, which comes first.
func closed(closing, work error) error {
	if work != nil {
		return work
	}
	return closing
}

// logger is the log of the run. Its secrets do not appear in it, either.
func (j *Run) logger() *slog.Logger { return j.e.o.Logger(append(j.e.Secrets(), j.secrets...)) }

// redactor removes the secrets of the run's servers.
func (j *Run) redactor() *record.Redactor { return record.Redact(nil, j.secrets...) }
