package cli

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"metier"
	"metier/config"
	"metier/harness"
	"metier/internal/confine"
	"metier/internal/egress"
	"metier/policy"
	"metier/program"
	"metier/sandbox"
	"metier/sandbox/gvisor"
	"metier/sandbox/native"
	"metier/sandbox/quarantine"
	"metier/sandbox/unsafe"
	"metier/settings"
)

// programFlags are the flags of commands that may run programs.
type programFlags struct {
	scripts []string
	hosts   []string
	sandbox string
	policy  []string
}

func (f *programFlags) add(fl *pflag.FlagSet) {
	fl.StringArrayVar(&f.scripts, "allow-skill-script", nil, "allow, and approve as it is, exactly this script: SKILL:scripts/PATH (repeatable)")
	fl.StringArrayVar(&f.hosts, "allow-host", nil, "let programs and web_fetch reach this host, or *.host (repeatable; default: none)")
	fl.StringVar(&f.sandbox, "sandbox", "", "what programs run in: "+strings.Join(backends(), ", ")+" (default native)")
	fl.StringArrayVar(&f.policy, "policy", nil, "policy file: grants, rules and approvals, see docs/POLICY.md (repeatable)")
}

// The sandboxes by name. The last one is none, and has to be asked for.
const (
	backendNative = native.Backend
	backendGVisor = gvisor.Backend
	backendUnsafe = unsafe.Name
)

func backends() []string { return []string{backendNative, backendGVisor, backendUnsafe} }

// backend checks the name of a sandbox.
func (f programFlags) backend(op config.Operator) (string, error) {
	name := cmp.Or(f.sandbox, op.Sandbox.Backend, backendNative)
	if !slices.Contains(backends(), name) {
		return "", wrong("usage", "sandboxes: "+strings.Join(backends(), ", "), "there is no sandbox %q", name)
	}
	if name == backendUnsafe && f.sandbox != backendUnsafe {
		return "", wrong("config_invalid", "name it with --sandbox for each command that needs it", "%s is no sandbox, so a configuration file cannot choose it", name)
	}
	return name, nil
}

// openSandbox opens a sandbox by name. The second result says that the operator
// takes whatever isolation it gives.
func (a *app) openSandbox(name string, op config.Operator) (sandbox.Sandbox, bool, error) {
	switch name {
	case backendUnsafe:
		return unsafe.New(nil), true, nil
	case backendGVisor:
		if op.Sandbox.Runsc == "" {
			return nil, false, wrong("runsc_unset", "set sandbox.runsc in the configuration to the path of gVisor's runsc", "no runsc is configured")
		}
		s, err := gvisor.New(gvisor.Options{Path: op.Sandbox.Runsc, Platform: op.Sandbox.Platform, Visible: op.Sandbox.Visible, Log: a.logger()})
		return quarantine.New(s, a.journal()), false, err
	case backendNative:
		s, err := native.New(&native.Options{Visible: op.Sandbox.Visible, Log: a.logger()})
		return quarantine.New(s, a.journal()), false, err
	}
	return nil, false, wrong("usage", "sandboxes: "+strings.Join(backends(), ", "), "there is no sandbox %q", name)
}

// scriptEntries reads --allow-skill-script and its likes: SKILL:scripts/PATH,
// normalized, each once. from is where they stand.
func scriptEntries(from string, list []string) ([]string, error) {
	var out []string
	for _, f := range list {
		skill, file, ok := cutEntry(f)
		clean, err := confine.Clean(file)
		if !ok || err != nil || !strings.HasPrefix(clean, "scripts/") || strings.HasSuffix(file, "/") {
			return nil, wrong("usage", "write it as SKILL:scripts/PATH, for example report:scripts/report.py", "%s %q names no script of a skill", from, f)
		}
		if e := skill + ":" + clean; !slices.Contains(out, e) {
			out = append(out, e)
		}
	}
	return out, nil
}

// cutEntry splits SKILL:PATH at the last colon before scripts/, since an ID has
// a colon of its own.
func cutEntry(entry string) (skill, file string, ok bool) {
	i := strings.LastIndex(entry, ":scripts/")
	if i <= 0 || strings.ContainsAny(entry[:i], "*?") || strings.TrimSpace(entry[:i]) != entry[:i] {
		return "", "", false
	}
	return entry[:i], entry[i+1:], path.Clean(entry[i+1:]) != "scripts"
}

// approve ties the scripts that the operator named to the skills as they are
// now: naming one is the approval of that tree (ruling 25).
func (j *job) approve(ctx context.Context, entries []string) error {
	for _, e := range entries {
		name, file, _ := cutEntry(e)
		sk, err := j.snapshot.Find(name)
		if err != nil {
			return err
		}
		if sk, err = j.snapshot.Index(ctx, sk); err != nil {
			return err
		}
		if !slices.ContainsFunc(sk.Resources, func(r metier.Resource) bool { return r.Path == file }) {
			return &metier.Error{Op: "run", Skill: name, Path: file, Kind: metier.NotFound, Code: "script_not_indexed", Hint: "'metier show " + name + "' lists its files",
				Err: fmt.Errorf("the skill %s has no script %s", name, file)}
		}
		a := policy.ApprovedScript{Entry: sk.Name + ":" + file, Tree: string(sk.Tree)}
		j.launch.Approved = append(j.launch.Approved, a)
		j.launch.Scripts = dedupe(append(j.launch.Scripts, a.Entry)) // a flag may give the ID
	}
	return nil
}

// planPrograms fills what a launch says of programs, policy files included, and
// returns the tools that those grant. A script that a flag names is allowed and
// approved; one in the configuration is allowed.
func (a *app) planPrograms(l *launch, f programFlags, op config.Operator) (tools []string, err error) {
	if l.Named, err = scriptEntries("--allow-skill-script", f.scripts); err != nil {
		return nil, err
	}
	if len(l.Roots) == 0 && slices.ContainsFunc(l.Named, ofRoot) {
		return nil, wrong("usage", "name the folder of skills with --skills-root", "--allow-skill-script needs --skills-root")
	}
	standing, err := scriptEntries("allow_skill_scripts of the configuration:", op.Scripts)
	if err != nil {
		return nil, err
	}
	l.Scripts = dedupe(slices.Concat(l.Named, standing))
	l.Hosts = dedupe(slices.Concat(f.hosts, op.Hosts))
	for _, h := range l.Hosts {
		if err := egress.CheckHost(h); err != nil {
			return nil, wrong("hosts_invalid", "name hosts as example.com or *.example.com, with --allow-host or allow_hosts", "%w", err)
		}
	}
	if l.Sandbox, err = f.backend(op); err != nil {
		return nil, err
	}
	p, grants, err := a.policyOf(f.policy, op)
	l.planPolicy(p, grants)
	return grants.Tools, err
}

// runs reports whether the launch lets the model run programs.
func (l launch) runs() bool {
	return slices.Contains(l.Tools, settings.ToolRunSkillScript) || slices.Contains(l.Tools, settings.ToolBash)
}

// programs are the tools that run programs, in the launch's sandbox.
func (j *job) programs() []metier.Tool {
	if j.sandbox == nil {
		return withheld(j.settings.Tools.Script)
	}
	id := "" // a dry run has no folder, and runs nothing
	if j.folder != nil {
		id = j.folder.ID()
	}
	o := program.Options{Sandbox: j.sandbox, Limits: j.limits, AcceptLevel: j.anyLevel, Workspace: j.a.sandboxed(j.launch, j.protected, j.op.Secrets), Exec: j.settings.Exec, Name: j.settings.Tools.Script,
		View: j.view, Run: id, Hosts: j.launch.Hosts, Egress: j.a.egress, Host: j.exact, Secrets: j.a.scriptSecrets(j.op.Secrets), Output: j.output, Logger: j.a.logger()}
	if j.launch.harnessed() {
		o.ByPath = harness.Script
	}
	return program.Tools(o)
}

// sandboxed is the workspace as programs see it: protected paths are read-only,
// and records and secrets look empty. All of .git is protected: besides hooks and
// config, a commondir and an index also make git run what they say.
func (a *app) sandboxed(l launch, protected []string, secrets []config.Secret) *sandbox.Workspace {
	w := &sandbox.Workspace{Host: l.Workspace, Writable: l.skillsAround() == ""}
	links := ways{}
	add := func(list *[]string, p string) {
		for _, rel := range links.inWorkspace(l.Workspace, p) {
			if !slices.Contains(*list, rel) {
				*list = append(*list, rel)
			}
		}
	}
	readOnly, hidden := a.guarded(l.Workspace, l.Cwd)
	for _, p := range slices.Concat(protected, readOnly) {
		add(&w.ReadOnly, p)
	}
	for _, p := range slices.Concat(a.closed(l, secrets), hidden, []string{l.Artifacts}) {
		add(&w.Hidden, p)
	}
	w.Hidden = outermost(w.Hidden)
	w.ReadOnly = slices.DeleteFunc(outermost(w.ReadOnly), func(p string) bool {
		return slices.ContainsFunc(w.Hidden, func(h string) bool { return p == h || strings.HasPrefix(p, h+"/") })
	})
	return w
}

// skillsAround is a folder of skills that is the workspace or holds it, or "".
// Programs do not write to such a workspace: anything in it can become a skill.
func (l launch) skillsAround() string {
	for _, r := range l.Roots {
		if r.Path != "" && !r.Unused && confine.Within(r.Path, l.Workspace) {
			return r.Path
		}
	}
	return ""
}

// outermost drops what lies in another path of the list, and sorts it.
func outermost(list []string) []string {
	slices.Sort(list)
	var out []string
	for _, p := range list {
		if !slices.ContainsFunc(out, func(o string) bool { return p == o || strings.HasPrefix(p, o+"/") }) {
			out = append(out, p)
		}
	}
	return out
}
