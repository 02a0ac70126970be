package exectool

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"metier"
	"metier/internal/confine"
	"metier/internal/runtimes"
	"metier/sandbox"
	"metier/settings"
)

// prepared is a script that has been checked.
type prepared struct {
	skill   metier.Skill // with its files
	script  Script
	indexed metier.Resource
	data    []byte
	sum     metier.Digest
	command runtimes.Command
	dir     string // the skill's folder where the script runs
	cwd     string
	level   sandbox.Level
	backend string
	host    bool  // it runs on this machine itself
	granted bool  // it gets its skill's secrets on the host
	broken  error // why it cannot run, beyond what the operator has to allow
}

func (p prepared) entry() string { return p.skill.Name + ":" + p.script.Path }

// refusal creates the errors of one script.
type refusal func(k metier.Kind, code, text, hint string) error

func (a Script) refusal() refusal {
	return func(k metier.Kind, code, text, hint string) error {
		return &metier.Error{Op: "run", Skill: a.Skill, Path: short(a.Path), Kind: k, Code: code, Hint: hint, Err: errors.New(text)}
	}
}

// files finds a skill's files.
type files func(context.Context, metier.Skill) (metier.Skill, error)

// ready runs the checks in their fixed order. Problems found before the allowlist are returned as
// the error. Later ones are in broken, because the operator's decision comes in between.
func (r *runner) ready(ctx context.Context, s *metier.Session, a Script, index files) (prepared, error) {
	p := prepared{script: a}
	fail := a.refusal()
	anywhere := r.Exec.AnyFile()
	clean, err := confine.Clean(a.Path)
	if err != nil || clean != a.Path || !anywhere && !strings.HasPrefix(clean, "scripts/") {
		return p, fail(metier.Invalid, "script_path_invalid", "the path must be relative to the skill's folder and begin with scripts/", "")
	}
	snap := s.Snapshot()
	if _, all := snap.Count(); all == 0 {
		return p, fail(metier.NotFound, "skill_registry_missing", "there are no skills in this session", "")
	}
	active := s.State().Active
	if len(active) == 0 && !anywhere {
		return p, fail(metier.Denied, "skill_activations_missing", "no skill is active", "load the skill first")
	}
	if p.skill, err = snap.Find(a.Skill); err != nil {
		return p, err
	}
	i := slices.IndexFunc(active, func(x metier.Activation) bool { return x.SkillID == p.skill.ID.String() })
	if i < 0 && !anywhere {
		return p, fail(metier.Denied, "skill_not_activated", "the skill is not active", "load it first")
	}
	if p.skill, err = index(ctx, p.skill); err != nil {
		return p, err
	}
	p.broken = r.sound(ctx, s, &p, fail)
	return p, nil
}

// sound checks the file, its interpreter, and where it runs.
func (r *runner) sound(ctx context.Context, s *metier.Session, p *prepared, fail refusal) error {
	i := slices.IndexFunc(p.skill.Resources, func(x metier.Resource) bool { return x.Path == p.script.Path })
	if i < 0 {
		return fail(metier.NotFound, "script_not_indexed", "the file is not in the index of this skill", "")
	}
	p.indexed = p.skill.Resources[i]
	switch {
	case p.indexed.Kind != metier.Script:
		return fail(metier.Invalid, "resource_not_script", "the file is not a script of the skill", "")
	case p.indexed.Size > scriptMax:
		return fail(metier.LimitReached, "script_too_large", fmt.Sprintf("the script has %d bytes, at most %d can run", p.indexed.Size, scriptMax), "")
	}
	b, err := s.Snapshot().Open(ctx, p.skill.ID)
	if err != nil { // a folder that became a link, or is gone
		return scriptCodes.Error("run", p.script.Skill, short(p.script.Path), err)
	}
	defer b.Close()
	if p.data, err = verified(ctx, b, p.skill, p.indexed); err != nil {
		return err
	}
	p.sum, p.dir, p.host = p.indexed.Digest, stagedAt(p.skill), r.Host.on(p.skill, p.script.Path)
	if r.onStdin() && !p.host {
		p.dir = r.View.Sandbox(p.skill) // where the workspace has it: nothing is staged
	}
	report := r.box(p.host).Probe(ctx)
	p.level, p.backend = report.Level, report.Backend
	p.command, err = runtimes.Plan(runtimes.Request{Entry: p.script.Path, Dir: p.dir, Code: p.data, Exec: p.indexed.Exec, Args: p.script.Args,
		Runtimes: names(r.Exec.Runtimes), Stdin: r.onStdin(), Find: runtimes.Lookup(report.Visible)})
	if no, is := errors.AsType[*runtimes.Refusal](err); is {
		if no.Code == runtimes.CodeInterpreter && !report.Available {
			return r.strong(report) // there is no place to look for one
		}
		return fail(metier.Unsupported, no.Code, no.Text, no.Hint)
	}
	if p.cwd, err = r.cwd(p.script.Cwd, p.dir, p.host, fail); err != nil {
		return err
	}
	if p.host {
		return r.hostRules(p, fail)
	}
	return r.strong(report)
}

func names(set settings.Set[settings.Runtime]) []string {
	out := make([]string, 0, len(set))
	for _, r := range set {
		out = append(out, string(r))
	}
	return out
}

// strong returns an error if the host provides less isolation than programs need, which is L2 in
// every tier, unless the operator accepts it.
func (r *runner) strong(have sandbox.Report) error {
	least := r.least(false)
	if have.Available && have.Level >= least {
		return nil
	}
	if len(have.Missing) > 0 {
		return Failed(&sandbox.Unavailable{Backend: have.Backend, Missing: have.Missing[0]})
	}
	return &metier.Error{Op: "run", Kind: metier.Unavailable, Code: "sandbox_unavailable", Err: fmt.Errorf("the sandbox %s gives %s here, and %s is needed", have.Backend, have.Level, least)}
}

func (r *runner) least(host bool) sandbox.Level {
	if r.AcceptLevel || host {
		return sandbox.L0
	}
	return sandbox.L2
}

// workspace returns the workspace of a program that is about to start.
func (r *runner) workspace() *sandbox.Workspace {
	if r.Current == nil {
		return r.Workspace
	}
	return r.Current()
}

// home returns the default working folder of a program.
func (r *runner) home() string {
	if r.Workspace == nil {
		return sandbox.ScratchDir
	}
	return sandbox.WorkspaceDir
}

// cwd returns a script's working folder. One named by the call must be in the workspace or, if the
// setting allows it, in the skill. On the host it is always the workspace.
func (r *runner) cwd(asked, skill string, host bool, fail refusal) (string, error) {
	home, in := r.home(), []string{r.home()}
	switch {
	case host:
	case r.Exec.Cwd == settings.CwdSkill:
		home, in = skill, []string{skill}
	case r.Exec.Cwd == settings.CwdCall:
		in = append(in, skill)
	}
	if asked == "" {
		return home, nil
	}
	dir := asked
	if root := r.View.Root(); dir == root || strings.HasPrefix(dir, root+"/") {
		dir = r.home() + strings.TrimPrefix(dir, root)
	}
	if !path.IsAbs(dir) {
		dir = home + "/" + dir
	}
	dir = path.Clean(dir)
	if strings.ContainsRune(dir, 0) || strings.ContainsRune(asked, '\\') || !slices.ContainsFunc(in, func(root string) bool { return dir == root || strings.HasPrefix(dir, root+"/") }) {
		return "", fail(metier.Denied, "cwd_outside", "the working folder is outside the folders that the script may use", "give a folder of "+strings.Join(in, " or "))
	}
	return dir, nil
}
