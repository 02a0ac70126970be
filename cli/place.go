package cli

import (
	"context"
	"slices"

	"github.com/spf13/pflag"

	"metier/agent"
	"metier/config"
	"metier/settings"
)

// placeFlags are the flags of commands that use skills without a model of their
// own: where they work, with which skills and settings, and what may run.
type placeFlags struct {
	programFlags
	workspace, profile, artifacts string
	roots, set, harness           []string
}

func (f *placeFlags) add(fl *pflag.FlagSet) {
	fl.StringVar(&f.workspace, "workspace", "", "folder that scripts work in (default: the current one)")
	fl.StringArrayVar(&f.roots, "skills-root", nil, "folder of skills, relative to the workspace (repeatable; default: the configuration's)")
	harnessFlag(fl, &f.harness)
	fl.StringVar(&f.profile, "profile", "", "set of settings, see 'metier profile list'")
	fl.StringArrayVar(&f.set, "set", nil, "one setting: name=value (repeatable)")
	fl.StringVar(&f.artifacts, "artifact-root", "", "folder for the record (default: .metier/runs in the workspace)")
	f.programFlags.add(fl)
}

// planPlace is a launch without a model and without a task. below are settings
// under those of the flags. granted are the tools that policy files grant.
func (a *app) planPlace(ctx context.Context, f placeFlags, below ...settings.Layer) (p planned, granted []string, err error) {
	op, err := config.Load(a.env)
	if err != nil {
		return p, nil, err
	}
	ws, err := a.enter(ctx, f.workspace)
	if err != nil {
		return p, nil, err
	}
	layers, err := a.flagLayers(runFlags{programFlags: f.programFlags, set: f.set, harness: f.harness}, config.RunFile{})
	if err != nil {
		return p, nil, err
	}
	set, origins, denied, err := op.Resolve(a.env, f.profile, ws, slices.Concat(below, layers)...)
	if err != nil {
		return p, nil, err
	}
	p.op, p.settings, p.origins = op, set, settings.Snapshot(set, origins)
	p.launch = launch{Workspace: ws, Denied: slices.Concat(op.Deny, denied), Settings: values(origins), Model: modelNone, Spec: agent.Spec{Mode: agent.ModeChat}}
	if p.launch.Roots, err = a.finder().Find(f.roots, f.harness, op.Skills, set.Discover, ws, nil); err != nil {
		return p, nil, err
	}
	if p.launch.Artifacts, err = a.runsRoot(f.artifacts, op, ws); err != nil {
		return p, nil, err
	}
	granted, err = a.planPrograms(&p.launch, f.programFlags, op)
	return p, granted, err
}
