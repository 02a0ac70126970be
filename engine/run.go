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
	"metier/exectool"
	"metier/filetool"
	"metier/internal/confine"
	"metier/mcp/host"
	"metier/model"
	"metier/model/provider"
	"metier/policy"
	"metier/record"
	"metier/run"
	"metier/sandbox"
	"metier/settings"
)

// Run is an open run: a plan with its workspace, skills, and tools.
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
	from     string // the user's interface

	shared    *Skills // of other runs too; nil: the run lists its skills itself
	links     *Skills // shared, or only what linked found
	snapshot  *metier.Snapshot
	disk      *metier.Snapshot // the skills as they are on disk; a record may bind the session to earlier ones
	protected protection
	workspace *filetool.Workspace
	host      *host.Host      // nil where no server of the Model Context Protocol is configured
	sandbox   sandbox.Sandbox // nil where the model runs no programs
	anyLevel  bool            // the operator takes any isolation it gives
	limits    sandbox.Limits  // of programs; zero fields are the defaults
	exact     *exectool.Host  // which scripts run on this machine itself; nil: none
	owned     []io.Closer     // of all these, what closes with the run: a child has the rest from its parent

	folder   *run.Folder
	log      record.Log // of the folder, and of whoever watches
	unfollow func()
	session  *metier.Session
	toolset  []metier.Tool // of the session
	hooks    Hooks
	notices  *notices // that were given
	family   *family  // its children and theirs; nil where it has none

	secrets []record.Secret // of servers
	issued  *issued         // secrets, to scripts
	run     string          // name of the run in the log; the folder's id, and more for one that goes on after its end
	begun   bool            // the beginning was reported
	ended   bool            // it was closed
	limited agent.Limits    // the run, where it is under way
	anew    bool            // skills changed, and the files of today count
	over    *run.Restored   // a record that was opened to tell how it ended; nil once it continues
	trusted bool            // its record, whoever wrote it
}

// surface is what only some runs need: the tools that a server adds, and the source of its
// skills.
type surface struct {
	tools    []metier.Tool
	snapshot func(context.Context) (*metier.Snapshot, error)
	like     *metier.Session // of the same launch, or nil
	brief    bool            // run-state.json is the only artifact
}

// prepare opens the workspace, skills and tools of a launch. It finds all configuration problems
// before the first model call.
func (e *Engine) prepare(ctx context.Context, p *Plan, h Hooks) (_ *Run, err error) {
	l, s := p.launch.own(), p.settings
	l.brought = p.custom.folders()
	if h.Notify == nil {
		h.Notify = e.o.Notify
	}
	told := &notices{to: h.Notify}
	h.Notify = told.add
	r := &Run{e: e, issued: &issued{}, launch: l, op: p.op, settings: s, origins: p.origins, model: p.model, custom: p.custom, hooks: h, notices: told, from: cmp.Or(p.surface, "engine"), view: e.Finder().View(s, l.Workspace)}
	defer func() {
		if err != nil {
			err = closed(r.letGo(), err)
		}
	}()
	if err := r.connect(ctx); err != nil {
		return nil, err
	}
	if p.skills != nil && r.host == nil {
		if err := p.skills.check(e, p); err != nil {
			return nil, err
		}
		r.shared, r.snapshot = p.skills, p.skills.snapshot
		if err := r.checkSkills(r.snapshot); err != nil {
			return nil, err
		}
	} else if r.snapshot, err = r.scanSkills(ctx); err != nil {
		return nil, err
	}
	r.disk = r.snapshot
	if err := checkHarnesses(ctx, r.snapshot, l.Roots); err != nil {
		return nil, err
	}
	if _, err := r.typed(r.launch.Prompt); err != nil && !l.resumed {
		return nil, err
	}
	if !l.resumed {
		if err := r.approve(ctx, l.Named, p.one); err != nil {
			return nil, ofField(err, "Request.Scripts", true)
		}
	}
	if l.runs() {
		if err := notRoot(l.Workspace); err != nil {
			return nil, err
		}
		if slices.Contains(e.homesIn(l.Workspace), l.Workspace) {
			r.note("home_workspace", "the workspace is a home folder, so programs cannot write to it, and its dot-paths look empty to them")
		}
		if err := r.openSandbox(); err != nil {
			return nil, err
		}
		if err := r.checkShown(ctx); err != nil {
			return nil, err
		}
		r.noteApprovals()
	}
	if r.links = r.shared; r.links == nil {
		r.links = &Skills{links: map[string]links{}}
	}
	r.protected = e.protected(l, r.op, s.Operator.Discover, r.links)
	if r.protected.unsearched {
		r.hooks.Notify(RepositoriesUnsearched())
	}
	r.workspace, err = filetool.OpenWorkspace(l.Workspace, &filetool.WorkspaceOptions{Cwd: l.Cwd, Mounts: l.Mounts, Home: e.Env.Home(), Homes: e.homes(l.Workspace), Protected: r.protected.paths, Denied: e.closed(l, r.op.Secrets)})
	if err != nil {
		return nil, err
	}
	r.owned = append(r.owned, r.workspace)
	return r, nil
}

// openSandbox opens the sandbox for the launch's programs.
func (r *Run) openSandbox() (err error) {
	if r.launch.Sandbox == customSandbox {
		if r.custom.Sandbox == nil {
			return metier.Fieldf(metier.Invalid, "ResumeOptions.Custom", "sandbox_custom", "resume it from the program that started it", "the run used a sandbox of the program that started it")
		}
		r.sandbox = r.e.quarantined(borrowed{r.custom.Sandbox})
		r.owned = append(r.owned, r.sandbox)
		return nil
	}
	if r.sandbox, r.anyLevel, err = r.e.OpenSandbox(r.launch.Sandbox, r.op); err == nil {
		r.owned = append(r.owned, r.sandbox)
	}
	return err
}

// tools returns the tools of the run: file tools, those that run programs or read pages, and those
// of servers.
func (r *Run) tools() []metier.Tool {
	return slices.Concat(r.files(), r.byPath(), r.programs(), r.pages(), r.served(), r.delegation(), r.custom.Tools)
}

func (r *Run) files() []metier.Tool {
	return filetool.Files(r.workspace, filetool.Options{View: r.view, IfMatch: r.settings.Tools.IfMatch, Guard: r.settings.Policy.GuardAllow,
		ActivateOnRead: r.settings.Activate.ByReading()})
}

// grants returns what the operator allowed, in the form that policy uses.
func (r *Run) grants() policy.Grants {
	p, x := r.settings.Policy, r.settings.Exec
	g := policy.Grants{Mode: policy.Mode(p.Mode), Tools: r.launch.Tools, Denied: r.launch.Denied,
		Narrow: policy.Narrowing(p.AllowedTools), Merge: policy.Merge(p.Merge),
		ScriptRule: policy.ScriptRule(x.Scripts), Approval: policy.Approval(x.Approval), Network: policy.NetworkRule(x.Network),
		Scripts: r.launch.Scripts, Approved: r.launch.Approved, Hosts: r.launch.Hosts, Confined: r.launch.Confined}
	r.launch.Policy.grant(&g)
	if r.launch.Subagents.may() {
		g.Profiles = r.launch.Subagents.names()
	}
	if r.launch.Child != nil {
		g.Only, g.Inherited = r.launch.Child.Only, r.launch.Child.Inherited
	}
	return g
}

// open opens the session on the folder's log.
func (r *Run) open(ctx context.Context, f *run.Folder) error {
	r.folder = f
	r.issued.open(f)
	var err error
	if r.log, r.unfollow, err = r.e.Trace(ctx, f); err != nil {
		return err
	}
	return r.openOn(ctx, f.ID(), r.log, f.Blobs())
}

// openOn opens the session on a log.
func (r *Run) openOn(ctx context.Context, id string, log record.Log, blobs record.Blobs) error {
	raw, err := json.Marshal(r.launch)
	if err != nil {
		return err
	}
	c := metier.Config{ID: id, By: r.e.Principal(), Build: r.e.o.Version, Log: log, Blobs: blobs, Snapshot: r.snapshot,
		Tools: r.tools(), Settings: r.settings, Origins: r.origins, Grants: r.grants(), Launch: raw, View: r.view, Batch: r.launch.Batch, Now: r.e.Now,
		Logger: r.logger(), ToolsOnly: r.surface.tools != nil}
	c.Tools, c.Like = append(c.Tools, r.surface.tools...), r.surface.like
	r.toolset = c.Tools
	if r.launch.runs() {
		c.Permanent = r.e.permanentApprovals
	}
	if r.anew {
		c.Refresh = func(context.Context) (*metier.Snapshot, error) { return r.disk, nil }
	}
	if r.reloads() {
		c.Refresh = func(ctx context.Context) (*metier.Snapshot, error) {
			return r.scanSkills(ctx)
		}
	}
	if r.surface.snapshot != nil {
		c.Refresh = r.surface.snapshot
	}
	if r.shared == nil || c.Like != nil || c.ToolsOnly {
		r.session, err = metier.Open(ctx, c)
		return err
	}
	r.session, err = r.shared.open(ctx, c)
	return err
}

// reloads reports whether skills are rescanned before each turn.
func (r *Run) reloads() bool {
	switch r.settings.Discover.Reload {
	case settings.ReloadSnapshot:
		return false
	case settings.ReloadAuto:
		return !r.launch.Batch
	}
	return true
}

// begin adds preloads and the prompt to the session. It is idempotent, so a resume may call it
// again.
func (r *Run) begin(ctx context.Context) error {
	st := r.session.State()
	if err := r.loadHarnesses(ctx, st); err != nil {
		return err
	}
	for _, name := range r.launch.Skills {
		sk, err := r.session.Snapshot().Find(name)
		if err != nil {
			if slices.ContainsFunc(st.Active, func(a metier.Activation) bool { return strings.EqualFold(a.Name, name) || a.SkillID == name }) {
				continue // gone since: what is recorded counts, and the drift was named
			}
			return err
		}
		if isActive(st, sk.ID.String()) {
			continue
		}
		if _, err := r.session.Activate(ctx, name, sourceRun); err != nil {
			return err
		}
	}
	if _, said := st.Inputs["prompt"]; said {
		return nil // in the words that are recorded, which are not the typed ones where /NAME was typed
	}
	task := r.launch.Prompt
	line, err := r.typed(r.launch.Prompt)
	if err == nil && line != nil {
		task, err = line.follow(ctx, r.session)
	}
	if err != nil {
		return err
	}
	_, err = r.session.Send(ctx, metier.Input{ID: "prompt", Parts: []model.Part{model.Text(task)}, Role: r.launch.PromptRole, Surface: r.from, By: r.e.Principal()})
	return err
}

func isActive(st metier.State, id string) bool {
	return slices.ContainsFunc(st.Active, func(a metier.Activation) bool { return a.SkillID == id })
}

func (r *Run) drive(ctx context.Context, watch func(agent.Progress)) (agent.Outcome, error) {
	l := r.launch
	spec := l.Spec
	spec.Run = cmp.Or(r.run, r.folder.ID())
	c := agent.Config{Session: r.session, Log: r.log, Blobs: r.folder.Blobs(), Model: r.model.Model, By: r.e.Principal(), Spec: spec, Limits: r.limited, Inject: r.settings.Activate.Role,
		Prompt: agent.Prompt{Workspace: r.where(), Project: r.project(), Prepare: r.instructed}, Park: l.Park, Observe: watch, Notes: r.notices.write, Now: r.e.Now, After: r.e.o.After, Logger: r.logger()}
	if l.Subagents.may() {
		c.Children = l.childrenAtOnce()
	}
	c.Spawns = subagent.Spawns(ctx, r.session, r.toolset)
	if !l.Batch && r.hooks.Ask != nil && l.Child == nil {
		c.Ask = r.ask
	}
	return agent.Run(ctx, c)
}

// where tells the model where its files are, using the paths its tools accept.
func (r *Run) where() string {
	root := r.view.Root()
	s := "The workspace is " + root + ". File tools take paths below it."
	if r.launch.Cwd != "" && r.launch.Cwd != "." {
		s += " Relative paths start at " + root + "/" + filepath.ToSlash(r.launch.Cwd) + "."
	}
	return s
}

// project reads the workspace's own instructions for agents.
func (r *Run) project() string {
	const most = 64 << 10
	b, more, err := confine.ReadBeneath(r.launch.Workspace, "AGENTS.md", most)
	if err != nil {
		if confine.CodeOf(err) != confine.NotFound {
			r.note("instructions_unreadable", "AGENTS.md of the workspace is left out: %v", err)
		}
		return ""
	}
	text := strings.ToValidUTF8(string(b), "\uFFFD")
	if more {
		text += fmt.Sprintf("\n\n[AGENTS.md continues; the first %d bytes are shown. Read the file for the rest.]", most)
	}
	return text
}

// Close makes the record durable, writes the artifacts, and releases everything.
// Another Close does nothing.
func (r *Run) Close(ctx context.Context) error {
	if r.ended {
		return nil
	}
	r.ended = true
	var errs []error
	if r.session != nil {
		if r.launch.Model == modelNone && r.folder != nil {
			errs = append(errs, r.appendNotices(ctx), r.e.EndRecord(ctx, r.log, r.folder.ID(), r.surface.brief))
		}
		errs = append(errs, r.session.Close(ctx))
	}
	if r.unfollow != nil {
		r.unfollow()
	}
	if r.folder != nil {
		write := r.folder.Project
		if r.surface.brief {
			write = r.folder.Checkpoint
		}
		errs = append(errs, write(ctx), r.folder.Close())
		r.issued.close(r.folder)
	}
	return errors.Join(append(errs, r.letGo())...)
}

// letGo closes what the run owns, in reverse order.
func (r *Run) letGo() error {
	var errs []error
	for _, c := range slices.Backward(r.owned) {
		errs = append(errs, c.Close())
	}
	r.owned = nil
	return errors.Join(errs...)
}

// closed joins the error of closing to that of the work, which comes first.
func closed(closing, work error) error {
	if work != nil {
		return work
	}
	return closing
}

// logger returns the log of the run. It also omits the run's secrets.
func (r *Run) logger() *slog.Logger { return r.e.o.Logger(append(r.e.Secrets(), r.secrets...)) }

// redactor removes the secrets of the run's servers, and those given to its scripts.
func (r *Run) redactor() *record.Redactor {
	return record.Redact(nil, append(r.issued.all(), r.secrets...)...)
}
