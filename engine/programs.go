package engine

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strings"

	"metier"
	"metier/config"
	"metier/exectool"
	"metier/harness"
	"metier/internal/confine"
	"metier/internal/distinct"
	"metier/internal/egress"
	"metier/policy"
	"metier/sandbox"
	"metier/sandbox/gvisor"
	"metier/sandbox/native"
	"metier/sandbox/unconfined"
	"metier/settings"
	"metier/skillroots"
)

// The sandboxes by name. The last one does not isolate, so a caller must request it explicitly.
const (
	BackendNative = native.Backend
	BackendGVisor = gvisor.Backend
	BackendUnsafe = unconfined.Name
)

// customSandbox is the name of a sandbox that a program brings, in the launch.
const customSandbox = "custom"

// borrowed is a sandbox that its program closes.
type borrowed struct{ sandbox.Sandbox }

func (borrowed) Close() error { return nil }

// Backends lists the sandboxes by name.
func Backends() []string { return []string{BackendNative, BackendGVisor, BackendUnsafe} }

// Backend returns the sandbox to use: the requested one, the configured one, or the native one.
func Backend(asked string, op config.Operator) (string, error) {
	name := cmp.Or(asked, op.Sandbox.Backend, BackendNative)
	if !slices.Contains(Backends(), name) {
		return "", metier.Errorf(metier.Invalid, "usage", "sandboxes: "+strings.Join(Backends(), ", "), "there is no sandbox %q", name)
	}
	if name == BackendUnsafe && asked != BackendUnsafe {
		return "", metier.Errorf(metier.Invalid, "config_invalid", "choose it with Request.Sandbox for each command that needs it", "%s is not a sandbox, so a configuration file cannot choose it", name)
	}
	return name, nil
}

// OpenSandbox opens a sandbox by name. The second result reports whether the operator accepts
// whatever isolation it provides.
func (e *Engine) OpenSandbox(name string, op config.Operator) (sandbox.Sandbox, bool, error) {
	switch name {
	case BackendUnsafe:
		return unconfined.New(&unconfined.Options{Temp: e.staging("")}), true, nil
	case BackendGVisor:
		if op.Sandbox.Runsc == "" {
			return nil, false, metier.Errorf(metier.Invalid, "runsc_unset", "set sandbox.runsc in the configuration to the path of gVisor's runsc", "no runsc is configured")
		}
		s, err := gvisor.New(gvisor.Options{Path: op.Sandbox.Runsc, Platform: op.Sandbox.Platform, Visible: op.Sandbox.Visible, Log: e.Logger()})
		return e.quarantined(s), false, err
	case BackendNative:
		s, err := native.New(&native.Options{Visible: op.Sandbox.Visible, Log: e.Logger()})
		return e.quarantined(s), false, err
	}
	return nil, false, metier.Errorf(metier.Invalid, "usage", "sandboxes: "+strings.Join(Backends(), ", "), "there is no sandbox %q", name)
}

// Probe reports what a sandbox can do on this host.
func (e *Engine) Probe(ctx context.Context, name string, op config.Operator) (sandbox.Report, error) {
	s, _, err := e.OpenSandbox(name, op)
	if err != nil {
		return sandbox.Report{}, err
	}
	return s.Probe(ctx), s.Close()
}

// ScriptEntries parses the values of --allow-skill-script and similar flags: SKILL:scripts/PATH,
// normalized and without duplicates. from is their source, for errors.
func ScriptEntries(from string, list []string) ([]string, error) {
	var out []string
	for _, f := range list {
		skill, file, ok := cutEntry(f)
		clean, err := confine.Clean(file)
		if !ok || err != nil || !strings.HasPrefix(clean, "scripts/") {
			field := ""
			if strings.HasPrefix(from, "Request.") {
				field = from
			}
			return nil, metier.Fieldf(metier.Invalid, field, "usage", "write it as SKILL:scripts/PATH, for example report:scripts/report.py", "%s: %q does not identify a skill's script", strings.TrimSuffix(from, ":"), f)
		}
		if e := skill + ":" + clean; !slices.Contains(out, e) {
			out = append(out, e)
		}
	}
	return out, nil
}

// cutEntry splits SKILL:PATH at the last colon before scripts/, because an ID also contains a
// colon.
func cutEntry(entry string) (skill, file string, ok bool) {
	i := strings.LastIndex(entry, ":scripts/")
	if i <= 0 || strings.ContainsAny(entry[:i], "*?") || strings.TrimSpace(entry[:i]) != entry[:i] {
		return "", "", false
	}
	return entry[:i], entry[i+1:], path.Clean(entry[i+1:]) != "scripts"
}

// approve binds the scripts named by the operator to the current skills: naming a script approves
// the skill's tree. A skill of a project or a third party must be named by its ID, unless the
// operator named its root, or names only this script (one).
func (r *Run) approve(ctx context.Context, entries []string, one bool) error {
	for _, e := range entries {
		sk, file, err := r.scriptOf(ctx, e)
		if err != nil {
			return err
		}
		a := policy.ApprovedScript{Entry: sk.Name + ":" + file, Tree: string(sk.Tree)}
		switch name := strings.TrimSuffix(e, ":"+file); {
		case name == sk.ID.String():
			a.Entry = ownEntry(sk, file)
		case r.needsID(sk) && !one:
			r.note("script_by_name", "%s allows a script of %s (%s), but does not approve it, because the skill's author chose the name; to approve it, use %s", e, sk.ID, sk.Tier.Or(), ownEntry(sk, file))
			continue
		default:
			r.noteHiding(e, name, sk)
		}
		r.launch.Approved = append(r.launch.Approved, a)
		r.launch.Scripts = distinct.Of(append(r.launch.Scripts, a.Entry)) // a flag may give the ID
	}
	return nil
}

// needsID reports whether only the ID of a skill approves its scripts: nothing that the operator
// named leads to the skill, and its author chose the name.
func (r *Run) needsID(sk metier.Skill) bool {
	return !sk.Tier.ByName() && slices.ContainsFunc(r.launch.Roots, func(root skillroots.Root) bool { return root.Label == sk.ID.Source && !root.Named })
}

// ownEntry is the entry that approves a script of a skill wherever it may run.
func ownEntry(sk metier.Skill, file string) string {
	if sk.Tier.ByName() {
		return sk.Name + ":" + file
	}
	return sk.ID.String() + ":" + file
}

// noteHiding reports skills of other tiers that have the name by which an entry allows a script.
func (r *Run) noteHiding(entry, name string, sk metier.Skill) {
	for _, other := range r.snapshot.Entries(name) {
		if other.State == metier.Shadowed && other.Tier != sk.Tier {
			r.note("script_by_name", "%s allows a script of %s (%s), which hides %s (%s)", entry, sk.ID, sk.Tier.Or(), other.ID, other.Tier.Or())
		}
	}
}

// planPrograms sets the programs of a launch, including those of policy files, and returns the
// tools that these grant. A script named by a flag is allowed and approved. One in the
// configuration is only allowed.
func (e *Engine) planPrograms(ctx context.Context, l *Launch, q Request, op config.Operator) (tools []string, err error) {
	if l.Named, err = ScriptEntries("Request.Scripts", q.Scripts); err != nil {
		return nil, err
	}
	if len(l.Roots) == 0 && slices.ContainsFunc(l.Named, OfRoot) {
		return nil, metier.Fieldf(metier.Invalid, "Request.Scripts", "usage", "specify the folder of skills with Request.Roots", "Request.Scripts needs Request.Roots")
	}
	standing, err := ScriptEntries("allow_skill_scripts of the configuration:", op.Scripts)
	if err != nil {
		return nil, err
	}
	l.Scripts = distinct.Of(slices.Concat(l.Named, standing))
	l.Hosts = distinct.Of(slices.Concat(q.Hosts, op.Hosts))
	for _, h := range l.Hosts {
		if err := egress.CheckHost(h); err != nil {
			return nil, metier.Fieldf(metier.Invalid, "Request.Hosts", "hosts_invalid", "use example.com or *.example.com in Request.Hosts or allow_hosts", "%w", err)
		}
	}
	switch {
	case q.Custom.Sandbox != nil && q.Sandbox != "":
		return nil, metier.Fieldf(metier.Invalid, "Request.Sandbox", "usage", "set one of them", "Request.Sandbox and a sandbox of the program cannot both be set")
	case q.Custom.Sandbox != nil:
		l.Sandbox = customSandbox
	default:
		if l.Sandbox, err = Backend(q.Sandbox, op); err != nil {
			return nil, err
		}
	}
	custom, err := q.Custom.names(ctx)
	if err != nil {
		return nil, err
	}
	p, grants, err := e.PolicyOf(q.Policies, op, custom...)
	l.planPolicy(p, grants)
	return grants.Tools, err
}

// runs reports whether the launch lets the model run programs.
func (l Launch) runs() bool {
	return slices.Contains(l.Tools, settings.ToolRunSkillScript) || slices.Contains(l.Tools, settings.ToolBash)
}

// edits reports whether the launch lets the model write files.
func (l Launch) edits() bool {
	return slices.Contains(l.Tools, settings.ToolWriteFile) || slices.Contains(l.Tools, settings.ToolEditFile)
}

// changes reports whether a tool of the launch can change files.
func (l Launch) changes() bool {
	for _, t := range l.Tools {
		if effect, known := config.ToolEffect(t); !known || effect != policy.Read {
			return true
		}
	}
	return false
}

// programs returns the tools that run programs, in the launch's sandbox.
func (r *Run) programs() []metier.Tool {
	if r.sandbox == nil {
		return withheld(r.settings.Tools.Script)
	}
	id := "" // a dry run has no folder, and runs nothing
	if r.folder != nil {
		id = r.folder.ID()
	}
	o := exectool.Options{Sandbox: reported{r.sandbox, r}, Limits: r.limits, AcceptLevel: r.anyLevel, Exec: r.settings.Exec, Name: r.settings.Tools.Script,
		View: r.view, Run: id, Hosts: r.launch.Hosts, Egress: r.e.o.Egress, Host: r.exact, Secrets: r.issued.out(r.e.scriptSecrets(r.op.Secrets)), Output: r.hooks.Output, Logger: r.logger()}
	o.Current = r.current
	o.Workspace = r.e.sandboxed(r.launch, r.protected, r.op.Secrets)
	if r.launch.harnessed() {
		o.ByPath = harness.Script
	}
	return exectool.Tools(o)
}

// current returns the workspace as programs see it now. Projects below it, submodules, and links in
// skills folders may have been added since the run started.
func (r *Run) current() *sandbox.Workspace {
	return r.e.sandboxed(r.launch, r.e.protected(r.launch, r.op, r.settings.Operator.Discover, r.links), r.op.Secrets)
}

// sandboxed returns the workspace as programs see it. Protected paths are read-only, and records
// and secrets appear empty. All of .git is protected: besides hooks and config, a commondir and an
// index can also make git run commands.
func (e *Engine) sandboxed(l Launch, p protection, secrets []config.Secret) *sandbox.Workspace {
	homes := e.homesIn(l.Workspace)
	w := &sandbox.Workspace{Host: l.Workspace, Writable: l.skillsAround() == "" && !p.partial && !slices.Contains(homes, l.Workspace), Repositories: p.repositories, Hooks: p.hooks}
	links := ways{}
	add := func(list *[]string, p string) { *list = append(*list, links.inWorkspace(l.Workspace, p)...) }
	readOnly, hidden := e.guarded(l.Workspace, l.Cwd)
	for _, p := range slices.Concat(p.paths, readOnly) {
		add(&w.ReadOnly, p)
	}
	for _, p := range slices.Concat(e.closed(l, secrets), hidden, []string{l.Artifacts}) {
		add(&w.Hidden, p)
	}
	for _, home := range homes {
		add(&w.ReadOnly, home)
		for _, p := range dotPaths(home) {
			add(&w.Hidden, p)
		}
	}
	w.Hidden = outermost(w.Hidden)
	w.ReadOnly = slices.DeleteFunc(outermost(w.ReadOnly), func(p string) bool {
		return slices.ContainsFunc(w.Hidden, func(h string) bool { return p == h || strings.HasPrefix(p, h+"/") })
	})
	return w
}

// skillsAround returns a folder of skills that is the workspace or contains it, or "". Programs
// and file tools cannot write to such a workspace, because anything in it can become a skill.
func (l Launch) skillsAround() string {
	for _, r := range l.Roots {
		if r.Path != "" && !r.Unused && confine.Within(r.Path, l.Workspace) {
			return r.Path
		}
	}
	for _, dir := range l.brought {
		if confine.Within(dir, l.Workspace) {
			return dir
		}
	}
	return ""
}

// outermost removes paths inside another path of the list, and sorts the rest.
func outermost(list []string) []string {
	parentsFirst := strings.NewReplacer("/", "\x00") // what is in a folder follows it at once
	slices.SortFunc(list, func(a, b string) int { return strings.Compare(parentsFirst.Replace(a), parentsFirst.Replace(b)) })
	var out []string
	for _, p := range list {
		if last := len(out) - 1; last < 0 || p != out[last] && !strings.HasPrefix(p, out[last]+"/") {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}
